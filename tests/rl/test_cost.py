"""cost.py: what a policy training costs is worked out by hand from the seconds of one task."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from factories import VECTORS, blobs, write_npz
from remem.rl.config import LearnConfig, compose_learning
from remem.rl.cost import (
    STEP_ALONE,
    STEP_TOGETHER,
    STEP_WEIGHT,
    LearningSizes,
    TaskSeconds,
    learning_cost,
    new_tasks,
    runs_left,
    search_parts,
)
from remem.rl.paths import TaskKey
from remem.rl.pseudo_tasks import PseudoTasks
from remem.rl.settings import LearnSettings
from remem.rl.snapshot_cache import MemorySnapshotCache
from remem.runs.cost import Machine, Range
from remem.runs.dry_run import plan
from remem.runs.estimate import Trial, estimate_seconds
from remem.runs.prepared import Prepared
from remem.runs.timing import Spread
from remem.runs.trials import Trials

TRIAL = Trial({"main": 0.01}, {"main": 0.02, "balanced": 0.03}, 0.001, 1, 1, 1, 1, 8, Spread(0.5, 2.0), stretch=3.0)
STEP = Range(2**-13, 2**-12)  # exact in binary
TASK = TaskSeconds(phase0=10.0, features=1.0, later=40.0, steps=1000, step=STEP, together=True)
SMALL: dict[str, Any] = {"epochs": 6, "tasks": 2, "runs": 5, "pool": 3, "fidelity": "features"}


def settings(**changed: Any) -> LearnSettings:
    return LearnSettings.model_validate({**SMALL, **changed})


def test_runs_that_are_left() -> None:
    assert runs_left(settings(), 0) == {"features": 60}
    assert runs_left(settings(), 4) == {"features": 20}
    assert runs_left(settings(), 6) == {}
    assert runs_left(settings(finish_epochs=3), 5) == {"features": 10, "full": 30}
    assert runs_left(settings(crossval_fixed=True), 0) == {"features": 27}
    assert runs_left(settings(search="random"), 0) == {"features": 6 * 3 * 3}  # 10 // 3 paths on each of 3 tasks
    assert runs_left(settings(search="exhaustive", levels=1), 0, paths=7) == {"features": 21}


def test_tasks_whose_phase_0_is_new() -> None:
    assert [new_tasks(settings(), done) for done in (0, 1, 2, 6)] == [3, 1, 0, 0]
    assert [new_tasks(settings(pool=0), done) for done in (0, 4)] == [12, 4]


def parts(done: int = 0, task: TaskSeconds = TASK, **changed: Any) -> list[tuple[int, Range]]:
    learn = settings(**changed)
    return search_parts(learn, task, TRIAL, runs_left(learn, done), done)


def test_heads_on_frozen_features() -> None:
    """Three tasks with a phase 0 of 10 s and features of 1 s; 60 runs of 1000 steps, at least half of them trained."""
    first, later = parts()
    assert first == (2, Range(33 * 0.5, 33 * 2.0))
    assert later == (2, STEP * Range(30_000, 60_000))
    assert parts(phase0_share=0.3)[0] == (2, Range(12 * 0.5, 12 * 2.0))
    one_by_one = parts(task=replace(TASK, step=STEP_ALONE, together=False))[1]
    assert one_by_one == (10, STEP_ALONE * Range(30_000, 60_000))
    assert parts(done=2) == [(2, Range()), (2, STEP * Range(20_000, 40_000))]


def test_full_and_short_runs() -> None:
    assert parts(fidelity="full") == [(2, Range(15.0, 60.0)), (10, Range(0.5 * 0.5 * 2400, 2.0 * 2400))]
    assert parts(fidelity="short", short_share=0.1)[1] == (10, Range(0.5 * 0.5 * 240, 2.0 * 240))
    # Six epochs of features and two of full runs: 60 and 20 of 80 runs.
    finished = parts(finish_epochs=2)
    assert finished[0] == (2, Range(0.75 * 33 * 0.5, 0.75 * 33 * 2.0))
    assert finished[3] == (10, Range(0.5 * 0.5 * 800, 2.0 * 800))


@pytest.mark.parametrize("changed", [{"fresh_init": True}, {"share": False}], ids=["fresh", "unshared"])
def test_runs_that_share_nothing_train_every_phase(changed: dict[str, Any]) -> None:
    assert parts(fidelity="full", **changed) == [(10, Range(300.0, 1200.0)), (10, Range(1200.0, 4800.0))]


def test_all_tasks_are_trained_side_by_side_where_none_waits_for_a_policy() -> None:
    assert [jobs for jobs, _ in parts(crossval_fixed=True)] == [3, 3]
    assert [jobs for jobs, _ in parts(search="random")] == [3, 3]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("data") / "blobs.npz"
    write_npz(path, blobs(classes=8))
    return f"npz:{path}"


def learning(data: str, *layers: dict[str, Any]) -> LearnConfig:
    return compose_learning(
        VECTORS, {"data": {"name": data}, "scenario": {"phases": 3, "base_classes": 4}, "learn": SMALL}, *layers
    )


@pytest.mark.parametrize(
    "layer",
    [
        {},
        {"learn": {"scale_batch": False}},
        {"memory": {"budget": "growing:5", "exemplars": None}},
        {"learn": {"source": "target"}},
        {"learn": {"source": "dataset:{other}"}, "memory": {"budget": None, "exemplars": None}},
    ],
    ids=["phase 0", "unscaled", "growing", "target", "data set"],
)
def test_the_task_is_tried_out_as_it_will_be_trained(data: str, layer: dict[str, Any], tmp_path: Path) -> None:
    write_npz(tmp_path / "other.npz", blobs(classes=5, per_class=11))
    source = str(layer.get("learn", {}).get("source", "phase0")).format(other=f"npz:{tmp_path / 'other.npz'}")
    sizes = LearningSizes(learning(data, layer, {"learn": {"source": source}}))
    mine, tasks = sizes.prepare_task(), PseudoTasks(sizes.config, MemorySnapshotCache(0))
    real = tasks._prepared[tasks.task(TaskKey(0, "full")).key]
    assert mine.config.train == real.config.train
    assert mine.config.memory == real.config.memory
    assert mine.config.net == real.config.net
    for prepared in (mine, sizes.target):  # no test set
        assert prepared.scenario.eval_bank.fingerprint == prepared.scenario.bank.fingerprint
    assert estimate_seconds(mine, plan(mine), TRIAL) == estimate_seconds(real, plan(real), TRIAL)


def test_a_task_by_hand(data: str) -> None:
    """Four classes of 20 samples, 2 of each for validation: two in phase 0, one in each of the others.

    72 of the target's 160 samples, so M = 18 of 40 and batches of 7 of 16: 3 steps in each of 5 and 9 epochs.
    """
    sizes = LearningSizes(learning(data, {"train": {"epochs": 5}, "finetune": {"epochs": 9}}))
    seconds = sizes.seconds(sizes.prepare_task(), TRIAL)
    assert seconds.phase0 == pytest.approx(36 * 5 * 0.01 + 0.001 * (36 + 4))
    assert seconds.features == pytest.approx(80 * 0.001)
    assert (seconds.steps, seconds.together) == (2 * 3 * (5 + 9), True)
    assert seconds.step == STEP_TOGETHER + STEP_WEIGHT * (4 * TRIAL.width * 7)
    assert seconds.later == pytest.approx(sum(estimate_seconds(p := sizes.prepare_task(), plan(p), TRIAL)[1:]))
    proxies = LearningSizes(learning(data, {"method": {"name": "podnet"}}))  # ten rows of weights a class
    assert proxies.seconds(proxies.prepare_task(), TRIAL).step == STEP_TOGETHER + STEP_WEIGHT * (
        4 * 10 * TRIAL.width * 7
    )
    epochs = {"train": {"epochs": 5}, "finetune": {"epochs": 9}}
    fewer = LearningSizes(learning(data, epochs, {"learn": {"features_steps": 7}}))
    assert fewer.seconds(fewer.prepare_task(), TRIAL).steps == 2 * 3 * (2 + 2)


def test_the_whole_by_hand(data: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two jobs at a time on two cores, of which others use one: 1.5 times as long; but the trial took 3 times."""
    monkeypatch.setattr(LearningSizes, "seconds", lambda self, prepared, trial: TASK)
    tried: list[Prepared] = []

    def try_one(prepared: Prepared) -> Trial:
        tried.append(prepared)
        return TRIAL

    sizes, machine = LearningSizes(learning(data)), Machine(2, 1.0)
    cost = learning_cost(sizes, Trials(try_one), machine, done=0, workers=4)
    assert cost is not None
    expected = Range(33 * 0.5, 33 * 2.0) + STEP * Range(30_000, 60_000)
    assert (cost.learning.low, cost.learning.high) == pytest.approx((expected.low / 2, expected.high * 3 / 2))
    crowded = learning_cost(sizes, Trials(lambda prepared: TRIAL), Machine(2, 8.0), done=0, workers=1)
    assert crowded is not None
    assert crowded.learning.high == pytest.approx(expected.high * 4.5)  # (1 + 8) / 2
    target = sum(estimate_seconds(sizes.target, plan(sizes.target), TRIAL))
    assert cost.target == Range(0.5 * target, 6.0 * target)
    assert [prepared.scenario.phases[0].arriving for prepared in tried] == [36, 4 * 19]  # the task, then the target


def test_one_trial_too_many_is_no_cost(data: str) -> None:
    sizes = LearningSizes(learning(data))
    assert learning_cost(sizes, Trials(lambda prepared: TRIAL, most=0), Machine(2, 0.0), done=0, workers=1) is None
    alone = learning_cost(sizes, Trials(lambda prepared: TRIAL, most=1), Machine(2, 0.0), done=0, workers=1)
    assert alone is not None
    assert alone.target is None


def test_a_target_whose_data_are_missing_is_left_out(data: str, tmp_path: Path) -> None:
    missing = {"data": {"name": f"npz:{tmp_path / 'missing.npz'}"}, "learn": {"source": f"dataset:{data}"}}
    own = {"memory": {"budget": None, "exemplars": None}}
    cost = learning_cost(
        LearningSizes(learning(data, missing, own)), Trials(lambda prepared: TRIAL), Machine(2, 0.0), done=0, workers=1
    )
    assert cost is not None
    assert cost.target is None


def test_an_exhaustive_search_counts_its_paths(data: str) -> None:
    from remem.rl.search import level1_paths

    sizes = LearningSizes(learning(data, {"learn": {"search": "exhaustive", "levels": 1}}))
    assert sizes.paths == len(set(level1_paths(sizes.task))) > 9
