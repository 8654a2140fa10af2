"""The public names of remem, and runs from Python."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import factories
import remem
from remem.policies.agent import AgentPolicy
from remem.runs.config import compose

QUICK = {"train.epochs": 1, "finetune.epochs": 0, "net": {"hidden": [8], "width": 4}}


def test_every_public_name_resolves() -> None:
    for name in remem.__all__:
        assert getattr(remem, name) is not None
    assert len(remem.__all__) <= 20
    with pytest.raises(AttributeError, match="no 'runn'"):
        _ = remem.runn


def test_run_stays_a_function_after_every_import() -> None:
    """A submodule of the same name would replace the function on import."""
    code = "import remem, remem.api, remem.runs.run, remem.cli.run; assert callable(remem.run), remem.run"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_importing_remem_does_not_load_torch() -> None:
    code = "import sys, remem; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_run_from_python() -> None:
    scenario = remem.scenario(factories.blobs(), phases=2, base_classes=2, order="natural")
    result = remem.run(scenario, method="lucir", policy="fixed-0.6", budget=40, seed=1, settings=QUICK)
    assert result.complete
    assert result.phases[1].held_old + result.phases[1].held_new == 40
    assert result.phases[1].held_old == 24
    assert result.average_accuracy == pytest.approx(np.mean([phase.accuracy for phase in result.phases]))
    assert result.to_json()["config"]["seed"] == 1
    with pytest.raises(AttributeError, match="no attribute 'held'"):
        _ = result.phases[1].held


def test_user_backbone_and_data_settings_in_the_result() -> None:
    own = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 12))
    scenario = remem.scenario("digits", phases=2, image_size=8)
    result = remem.run(scenario, backbone=own, budget=200, settings={"train.epochs": 1, "finetune.epochs": 0})
    assert result.to_json()["config"]["net"]["name"].startswith("own:Sequential-")
    no_effect = {"root", "max_gigabytes", "max_pixels"}  # on any number
    assert result.to_json()["config"]["data"] == scenario.data.model_dump(mode="json", exclude=no_effect)
    assert 0.1 < result.average_accuracy <= 1.0


def test_another_user_backbone_is_a_changed_setting(tmp_path: Path) -> None:
    scenario = remem.scenario(factories.blobs(), phases=2)
    quick = {"train.epochs": 1, "finetune.epochs": 0}
    torch.manual_seed(0)
    one, other = torch.nn.Linear(6, 4), torch.nn.Linear(6, 4)
    remem.run(scenario, backbone=one, budget=40, settings=quick, out=tmp_path / "a")
    with pytest.raises(remem.InputError, match="settings cannot change"):
        remem.run(scenario, backbone=other, budget=40, settings=quick, out=tmp_path / "a")


def test_dropout_of_a_user_backbone_follows_the_seed() -> None:
    scenario = remem.scenario(factories.blobs(), phases=2)
    torch.manual_seed(0)
    own = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.Dropout(0.5), torch.nn.Linear(16, 4))
    runs = [remem.run(scenario, backbone=own, budget=40, settings={"train.epochs": 2}) for _ in range(2)]
    assert factories.timeless(runs[0].to_json()) == factories.timeless(runs[1].to_json())


def test_an_unknown_option_is_named() -> None:
    scenario = remem.scenario(factories.blobs(), phases=2)
    options: Any = {"polcy": "static"}
    with pytest.raises(TypeError, match="unexpected argument 'polcy'; expected one of method, policy, budget"):
        remem.run(scenario, **options)


def test_user_defined_policy(tmp_path: Path) -> None:
    """The policy takes 0.6 of 40 samples and gives the harder half 0.7. The same call resumes the folder."""
    scenario = remem.scenario(factories.blobs(), phases=2, base_classes=2, order="natural")
    agent = AgentPolicy(lambda observation: [5, 6], "mine")
    result = remem.run(scenario, policy=agent, budget=40, settings=QUICK, out=tmp_path / "run")
    assert [phase.held_old for phase in result.phases[1:]] == [24, 24]
    assert [phase.action and phase.action.level2 for phase in result.phases[1:]] == [0.7, 0.7]
    assert (result.to_json()["config"]["policy"], result.to_json()["policy"]["name"]) == ("own:mine", "mine")
    again = remem.run(scenario, policy=agent, budget=40, settings=QUICK, out=tmp_path / "run")
    assert again.to_json() == result.to_json()
    with pytest.raises(remem.InputError, match="settings cannot change"):
        remem.run(scenario, policy="fixed-0.6", budget=40, settings=QUICK, out=tmp_path / "run")
    wrong: Any = 0.6
    with pytest.raises(remem.InputError, match=r"^policy: 0\.6 given; expected a name, a policy folder or an object"):
        remem.run(scenario, policy=wrong, budget=40)


def test_paper_budgets_apply_from_python() -> None:
    assert compose({"preset": "paper", "data": {"name": "cifar100"}}).memory.budget == 7000
    scenario = remem.scenario(factories.blobs(), phases=2)
    assert remem.run(scenario, settings=QUICK).to_json()["config"]["memory"]["exemplars"] == 120  # 20 x 6 classes


def test_errors_from_python_are_one_line() -> None:
    with pytest.raises(remem.InputError, match=r"scenario\.phases"):
        remem.scenario("digits", phases="x")
    with pytest.raises(remem.InputError, match="loaded already"):
        remem.scenario(factories.blobs(), image_size=8)
    with pytest.raises(remem.InputError, match="settings: data given"):
        remem.run(remem.scenario(factories.blobs(), phases=2), settings={"data.image_size": 4})
