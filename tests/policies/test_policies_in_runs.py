"""Runs with learned policies and agents: how a policy is found again, what is refused, what results say of it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from factories import VECTORS, blobs, ready, write_npz
from remem.action import Action, State
from remem.errors import InputError
from remem.events import Event
from remem.methods.events import EpochEnded
from remem.policies.agent import AgentPolicy
from remem.policies.files import save_policy
from remem.policies.fixed import Fixed
from remem.policies.rmm import TwoLevelPolicy
from remem.runs.build import prepare
from remem.runs.config import compose
from remem.runs.prepared import Prepared
from remem.runs.run import read_config, resume_in_folder, run, run_in_folder, run_or_resume
from remem.runs.writer import public_facts
from remem.storage.jsonfile import unseal

SOURCE = {"kind": "phase0", "data": "blobs", "classes": ["0", "1"], "order": "natural", "phases": [2], "budget": 40}
PROVENANCE: dict[str, Any] = {
    "name": "mine",
    "oracle": False,
    "source": SOURCE,
    "method": {"name": "icarl"},
    "settings": {},
    "seed": 0,
    "rewards": [1.0],
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A policy that always takes 0.6, in the working folder."""
    monkeypatch.chdir(tmp_path)
    save_policy(tmp_path / "learned", Fixed(6), PROVENANCE)
    return tmp_path / "learned"


def on_disk(tmp_path: Path, **settings: Any) -> Prepared:
    write_npz(tmp_path / "own.npz", blobs())
    return prepare(compose(VECTORS, {"data": {"name": f"npz:{tmp_path / 'own.npz'}"}, **settings}))


def test_a_policy_folder_drives_a_run_as_its_share_does(folder: Path) -> None:
    result = run(ready(blobs(), {"policy": "learned"}))
    plain = run(ready(blobs(), {"policy": "fixed-0.6"}))
    assert [phase.held_per_class for phase in result.phases] == [phase.held_per_class for phase in plain.phases]
    assert result.average_accuracy == plain.average_accuracy
    assert (result.config["policy"], result.policy_name) == ("learned", "learned")
    assert result.policy == unseal(json.loads((folder / "policy.json").read_text()), folder)
    assert (result.oracle, result.policy_saw_classes) == (False, False)
    assert str(folder.parent) not in json.dumps(result.to_json())


def test_settings_find_the_policy_again_and_know_its_content(folder: Path) -> None:
    config = ready(blobs(), {"policy": "learned/"}).config
    assert config.policy == str(folder)
    assert len(config.policy_sha256 or "") == 64
    assert config.public()["policy"] == "learned"
    assert "policy_sha256" not in config.public()
    assert ready(blobs()).config.policy_sha256 is None
    assert ready(blobs(), {"policy": "rmm"}).config.policy_sha256 is not None


def test_a_run_is_resumed_from_any_folder_but_not_with_another_policy(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class PowerCut(Exception):
        pass

    def cut(event: Event) -> None:
        if isinstance(event, EpochEnded) and event.phase == 1:
            raise PowerCut

    out = tmp_path / "out"
    with pytest.raises(PowerCut):
        run_in_folder(on_disk(tmp_path, policy="learned"), out, cut)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    kept = {file.name: file.read_bytes() for file in folder.iterdir()}
    save_policy(folder, Fixed(6), {**PROVENANCE, "seed": 1})
    with pytest.raises(InputError, match=rf"^policy: {folder} has changed since this run began: sha256 ") as caught:
        resume_in_folder(out)
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match=r"policy_sha256 is .* but this run began with .* settings cannot change"):
        run_or_resume(on_disk(tmp_path, policy=str(folder)), out)
    for name, content in kept.items():
        (folder / name).write_bytes(content)
    result = resume_in_folder(out)
    assert result.complete
    assert result.phases[2].action is not None
    assert result.phases[2].action.old_share == 0.6
    assert read_config(out)[0].policy == str(folder)


def test_sampled_actions_depend_on_the_seed(tmp_path: Path) -> None:
    save_policy(tmp_path / "open", TwoLevelPolicy(), {**PROVENANCE, "source": None})
    memory = {"budget": 60, "exemplars": 20}

    def actions(seed: int, **more: Any) -> list[Any]:
        layer = {"policy": str(tmp_path / "open"), "seed": seed, "memory": memory, "train": {"epochs": 1}, **more}
        return [phase.action for phase in run(ready(blobs(), layer)).phases]

    first = actions(0, sample_actions=True)
    assert first == actions(0, sample_actions=True)
    assert first == actions(0, policy="random")  # what has learned nothing draws at random
    assert len({repr(actions(seed, sample_actions=True)) for seed in range(4)}) > 1
    assert actions(0) == actions(1)
    with pytest.raises(InputError, match="sample_actions: true given, but policy 'static' has no probabilities"):
        ready(blobs(), {"sample_actions": True})


@pytest.mark.parametrize(
    ("change", "saw"),
    [
        ({}, False),  # classes 0 and 1 are phase 0
        ({"classes": ["0", "1", "2"]}, True),
        ({"classes": ["5"], "kind": "dataset"}, True),
        ({"classes": ["5"], "data": "digits"}, False),
        ({"classes": ["5"], "data": "npz:blobs"}, False),
    ],
)
def test_results_say_whether_the_policy_saw_classes_that_arrive_later(
    change: dict[str, Any], saw: bool, tmp_path: Path
) -> None:
    save_policy(tmp_path / "x", TwoLevelPolicy(), {**PROVENANCE, "source": SOURCE | change})
    prepared = ready(blobs(), {"policy": str(tmp_path / "x")})
    assert public_facts(prepared).policy_saw_classes is saw
    assert public_facts(ready(blobs(), {"policy": "fixed-0.6"})).policy_saw_classes is False


def test_own_files_are_compared_by_their_public_name(tmp_path: Path) -> None:
    source = {**SOURCE, "data": "npz:own.npz", "classes": ["4"]}
    save_policy(tmp_path / "x", Fixed(5), {**PROVENANCE, "source": source})
    assert public_facts(on_disk(tmp_path, policy=str(tmp_path / "x"))).policy_saw_classes is True


def test_results_say_whether_the_policy_is_an_oracle(tmp_path: Path) -> None:
    save_policy(tmp_path / "x", Fixed(5), {**PROVENANCE, "oracle": True, "source": {**SOURCE, "kind": "target"}})
    assert public_facts(ready(blobs(), {"policy": str(tmp_path / "x")})).oracle is True


def test_an_agent_drives_a_run() -> None:
    """It always asks for 0.7 and gives the harder half 0.3."""
    agent = AgentPolicy(lambda _: (np.array([6, 2]), None), "ppo", source={**SOURCE, "classes": ["2"]})
    plain = ready(blobs())
    prepared = prepare(plain.config, scenario=plain.scenario, policy=agent)
    result = run(prepared)
    actions = [phase.action for phase in result.phases[1:] if phase.action is not None]
    assert [(action.old_share, action.level2) for action in actions] == [(0.7, 0.3), (0.7, 0.3)]
    assert (result.config["policy"], result.policy["name"]) == ("own:ppo", "ppo")
    assert result.policy_saw_classes is True
    sampling = plain.config.model_copy(update={"sample_actions": True})
    with pytest.raises(InputError, match="policy 'ppo' has no probabilities"):
        prepare(sampling, scenario=plain.scenario, policy=agent)
    with pytest.raises(InputError, match=r"^policy: no folder 'own:ppo', and no policy named 'own:ppo'"):
        prepare(prepared.config, scenario=plain.scenario)  # an object cannot be found again by its name


def test_a_policy_of_ones_own_is_used_as_it_is() -> None:
    plain = ready(blobs())
    prepared = prepare(plain.config, scenario=plain.scenario, policy=replace(Fixed(4), oracle=True))
    assert (prepared.policy, prepared.config.policy) == (Fixed(4, oracle=True), "own:fixed-0.4")


class OfNumpy:
    """A policy that answers with numbers of numpy, as many a user's does."""

    name, oracle = "numpy", False

    def act(self, state: State) -> Action:
        return Action(old_tenths=np.int64(6), level2_tenths=np.int32(5))  # type: ignore[arg-type]

    def provenance(self) -> dict[str, object]:
        return {"name": self.name}


def test_a_policy_may_answer_with_numbers_of_numpy(tmp_path: Path) -> None:
    fixed = run_in_folder(ready(blobs(), {"policy": "fixed-0.6"}), tmp_path / "fixed")
    own = run_in_folder(replace(ready(blobs()), policy=OfNumpy()), tmp_path / "numpy")
    assert [phase.held_per_class for phase in own.phases] == [phase.held_per_class for phase in fixed.phases]


def test_a_policy_may_move_while_its_run_is_half_done(tmp_path: Path) -> None:
    """As in a study that was moved: the digest says that it is the same policy."""

    def stop(event: Event) -> None:
        if isinstance(event, EpochEnded) and event.phase == 1:
            raise KeyboardInterrupt

    save_policy(tmp_path / "here", Fixed(6), PROVENANCE)
    with pytest.raises(KeyboardInterrupt):
        run_in_folder(ready(blobs(), {"policy": str(tmp_path / "here")}), tmp_path / "out", stop)
    (tmp_path / "here").rename(tmp_path / "there")
    assert run_or_resume(ready(blobs(), {"policy": str(tmp_path / "there")}), tmp_path / "out").complete
    save_policy(tmp_path / "other", Fixed(7), PROVENANCE)
    with pytest.raises(InputError, match=r"policy is .*other"):
        run_or_resume(ready(blobs(), {"policy": str(tmp_path / "other")}), tmp_path / "out")
