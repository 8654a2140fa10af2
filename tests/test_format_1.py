"""Work folders that an earlier version left (format 1) still resume, predict and show.

`fixtures/format-1` was written by the code before formats had migrations: a run of `mnemonics`, a learning and a study
on `digits`, each interrupted by SIGKILL; a run and a learning also complete.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from factories import timeless
from remem.errors import InputError
from remem.events import Event, ignore
from remem.methods.events import EpochEnded
from remem.parallel.pool import open_pool
from remem.policies.table import resolve_policy
from remem.rl.events import NodesTrained, PolicyUpdated
from remem.rl.learn import learn_in_folder, read_learning
from remem.rl.paths import TaskKey
from remem.rl.snapshot_cache import DiskSnapshotCache
from remem.runs.model import load_model
from remem.runs.results import load_result
from remem.runs.run import read_config, resume_in_folder
from remem.storage.event_log import read_log
from remem.studies.run import read_study, study_in_folder

OLD = Path(__file__).parent / "fixtures" / "format-1"


@pytest.fixture
def copy(tmp_path: Path) -> Any:
    def copy(name: str) -> Path:
        return Path(shutil.copytree(OLD / name, tmp_path / name))

    return copy


def test_settings_come_back_under_their_present_names() -> None:
    for name in ("run", "run-interrupted"):
        config, fingerprint = read_config(OLD / name)
        written = json.loads((OLD / name / "config.json").read_text())
        assert config.train.lr == written["config"]["train"]["rate"] == 0.2
        assert config.finetune.lr_factor == written["config"]["finetune"]["rate_factor"]
        assert config.train.lr_later == written["config"]["train"]["rate_later"]
        assert fingerprint == written["data_fingerprint"]
    assert read_learning(OLD / "learning")[0].learn.lr_eta == 0.02
    study = read_study(OLD / "study-interrupted")
    assert study.learn.lr_eta == 0.05
    assert all(run.config.train.lr == 0.1 for run in study.runs)


def test_an_interrupted_run_goes_on(copy: Any) -> None:
    out, events = copy("run-interrupted"), list[Event]()
    result = resume_in_folder(out, events.append)
    assert result.complete
    trained = {event.phase for event in events if isinstance(event, EpochEnded)}
    assert trained == {2, 3}  # phases 0 and 1 are those of the old checkpoint
    before = load_result(OLD / "run-interrupted").to_json()["phases"]
    assert timeless(result.to_json()["phases"][:2]) == timeless(before)
    whole = load_result(OLD / "run")  # the same run, never interrupted; other processors round differently
    assert [phase.held_per_class for phase in result.phases] == [phase.held_per_class for phase in whole.phases]
    accuracies = [[phase.accuracy_cnn for phase in run.phases[2:]] for run in (result, whole)]
    assert accuracies[0] == pytest.approx(accuracies[1], abs=0.03)
    log = read_log(out / "log.jsonl")
    assert sorted({entry["phase"] for entry in log}) == [0, 1, 2, 3]
    with (
        np.load(out / "predictions.npz", allow_pickle=False) as now,
        np.load(OLD / "run" / "predictions.npz", allow_pickle=False) as then,
    ):
        assert set(now) == set(then)
        assert all(np.array_equal(now[f"cnn_{phase}"], then[f"cnn_{phase}"]) for phase in (0, 1))


def test_a_complete_run_is_read_and_predicts(copy: Any) -> None:
    out = copy("run")
    assert resume_in_folder(out, ignore) == load_result(out)
    model = load_model(out)
    with np.load(out / "predictions.npz", allow_pickle=False) as arrays:
        expected = arrays["confusion_cnn"].shape
    images = np.random.default_rng(0).integers(0, 256, (5, 8, 8, 1), np.uint8)
    prediction = model.predict(images, head="cnn")
    assert prediction.probabilities.shape == (5, expected[0])
    assert model.predict(images, head="nme").classes.shape == (5,)  # class means came along


def test_a_run_of_a_method_that_has_changed_is_not_resumed_but_its_model_predicts(copy: Any) -> None:
    out = copy("run-mnemonics")
    with pytest.raises(InputError, match=r"method: mnemonics trained differently when this run began.*a new run"):
        resume_in_folder(out, ignore)
    assert load_result(out).method_name == "mnemonics"
    images = np.random.default_rng(0).integers(0, 256, (5, 8, 8, 1), np.uint8)
    assert load_model(out).predict(images, head="nme").classes.shape == (5,)


def test_an_interrupted_learning_goes_on(copy: Any) -> None:
    out, events = copy("learning-interrupted"), list[Event]()
    policy = learn_in_folder(read_learning(out)[0], out, events.append)
    done = [event.epoch for event in events if isinstance(event, PolicyUpdated)]
    assert done == [3, 4, 5, 6]  # killed after epoch 3 was logged and before it was saved
    whole = resolve_policy(str(OLD / "learning"), 0)
    rewards = [np.array(one.provenance()["rewards"]) for one in (policy, whole)]
    assert rewards[0][:2].tolist() == rewards[1][:2].tolist()  # epochs of the old checkpoint
    assert rewards[0] == pytest.approx(rewards[1], abs=0.1)
    assert [entry["epoch"] for entry in read_log(out / "log.jsonl")] == [1, 2, 3, 4, 5, 6]
    assert any(isinstance(event, NodesTrained) for event in events)


def test_an_old_snapshot_of_a_task_is_used_again(copy: Any) -> None:
    """The file of a task's phase 0 has the same name as before, so a resumed learning finds it."""
    cache = DiskSnapshotCache(copy("learning-interrupted") / "snapshots", 10**9)
    found = cache.find((TaskKey(0, "full"), ()))
    assert found is not None
    assert {name.partition("/")[0] for name in found.tensors} == {"network", "memory", "evaluated"}
    assert "evaluated" in found.facts


def test_rewards_of_an_old_learning_are_not_trained_again(copy: Any) -> None:
    """Without its checkpoint and policy the learning starts over, and finds every reward in the old log."""
    out, events = copy("learning"), list[Event]()
    for name in ("policy.json", "checkpoint.safetensors"):
        (out / name).unlink()
    learn_in_folder(read_learning(out)[0], out, events.append)
    assert not any(isinstance(event, NodesTrained) for event in events)


def test_a_complete_learning_is_a_policy(copy: Any) -> None:
    out = copy("learning")
    assert learn_in_folder(read_learning(out)[0], out, ignore).provenance() == resolve_policy(str(out), 0).provenance()


def test_an_interrupted_study_goes_on(copy: Any) -> None:
    out = copy("study-interrupted")
    old = json.loads((out / "runs" / "static_seed-0" / "result.json").read_text())
    with open_pool(1, None) as pool:
        results = study_in_folder(read_study(out), out, pool, ignore)
    assert set(results) == {f"{policy}_seed-{seed}" for policy in ("static", "rmm-learned") for seed in (0, 1)}
    assert all(result.complete for result in results.values())
    assert results["static_seed-0"].average_accuracy == old["average_accuracy"]
