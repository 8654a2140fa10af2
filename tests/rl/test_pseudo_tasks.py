"""pseudo_tasks.py: classes, memory, batches and schedules of pseudo tasks, and features instead of samples."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from factories import VECTORS, blobs, write_npz
from remem.errors import InputError
from remem.memory.budget import Budget
from remem.methods.settings import FinetuneSettings
from remem.rl.config import compose_learning
from remem.rl.paths import TaskKey
from remem.rl.pseudo_tasks import PseudoTasks, core_settings, shortened, shortened_tuning, steps_per_epoch
from remem.rl.settings import Fidelity
from remem.rl.snapshot_cache import MemorySnapshotCache
from rl_factories import learn_config, make_task

DATA = blobs(classes=10, per_class=20)


@pytest.fixture(scope="module")
def data_name(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("data") / "blobs.npz"
    write_npz(path, DATA)
    return f"npz:{path}"


def make_tasks(data_name: str, *layers: dict[str, Any], **learn: Any) -> PseudoTasks:
    """Ten classes of 20 in the order 9, 8, ...; six of them in phase 0."""
    config = compose_learning(VECTORS, {"data": {"name": data_name}, "learn": learn}, *layers)
    return PseudoTasks(config, MemorySnapshotCache(10**8))


@pytest.fixture
def backwards(tmp_path: Path) -> dict[str, Any]:
    order = tmp_path / "backwards.json"
    order.write_text("[9, 8, 7, 6, 5, 4, 3, 2, 1, 0]")
    return {"scenario": {"phases": 3, "base_classes": 6, "order": str(order)}}


def test_only_classes_of_the_targets_phase_0_appear(data_name: str, backwards: dict[str, Any]) -> None:
    tasks = make_tasks(data_name, backwards)
    orders = [tasks.task(TaskKey(number, "short")).scenario.class_order for number in range(5)]
    assert {frozenset(order) for order in orders} == {frozenset({9, 8, 7, 6, 5, 4})}
    assert len(set(orders)) > 1
    sizes = [len(phase.classes) for phase in tasks.task(TaskKey(0, "short")).scenario.phases]
    assert sizes == [3, 1, 1, 1]


def test_a_target_is_its_own_task_and_another_data_set_gives_all_its_classes(
    data_name: str, backwards: dict[str, Any]
) -> None:
    target = make_tasks(data_name, backwards, source="target").task(TaskKey(2, "full"))
    assert target.scenario.class_order == (9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
    assert [len(phase.classes) for phase in target.scenario.phases] == [6, 2, 1, 1]
    other = make_tasks("digits", {"scenario": {"phases": 3}}, source=f"dataset:{data_name}").task(TaskKey(0, "full"))
    assert sorted(other.scenario.class_order) == list(range(10))
    assert [len(phase.classes) for phase in other.scenario.phases] == [5, 2, 2, 1]
    assert (other.budget.exemplars, other.budget.amount) == (200, 200 + 2 * 18)  # its own protocol: 20 x 10, + new data


def test_classes_that_the_target_leaves_out_appear_in_no_task(data_name: str, backwards: dict[str, Any]) -> None:
    """Eight of ten classes, four of them in phase 0; another data set is used as a whole."""
    eight = {"scenario": {"classes": 8, "base_classes": None}}
    assert make_tasks(data_name, backwards, eight).classes == (9, 8, 7, 6)
    assert make_tasks(data_name, backwards, eight, source="target").classes == (9, 8, 7, 6, 5, 4, 3, 2)
    assert len(make_tasks(data_name, backwards, eight, source=f"dataset:{data_name}").classes) == 10


def test_tasks_have_no_policy_of_their_own(data_name: str, backwards: dict[str, Any]) -> None:
    tasks = make_tasks(data_name, backwards, {"policy": "rmm", "sample_actions": True})
    task = tasks.task(TaskKey(0, "full"))
    config = tasks._prepared[task.key].config
    assert (config.policy, config.policy_sha256, config.sample_actions) == ("static", None, False)
    assert config.scenario == task.scenario.settings


def test_memory_is_scaled_by_training_samples_by_hand(data_name: str, backwards: dict[str, Any]) -> None:
    """The target has 200 training samples; a task of 6 classes has 6 x 18 = 108 left of its 120."""
    tasks = make_tasks(data_name, backwards, {"memory": {"budget": 75, "exemplars": 30}})
    budget = tasks.task(TaskKey(0, "full")).budget
    assert (budget.amount, budget.exemplars) == (41, 16)  # 40.5 and 16.2: halves go up
    tasks = make_tasks(data_name, backwards, {"memory": {"budget": "bytes:1kB", "exemplars": 1}})
    budget = tasks.task(TaskKey(0, "full")).budget
    assert (budget.kind, budget.amount, budget.exemplars) == ("bytes", 540, 1)
    assert budget.total(3, 0) == 22  # 540 // (6 x 4)
    tasks = make_tasks(data_name, backwards, {"memory": {"budget": "growing:4", "exemplars": None}})
    budget = tasks.task(TaskKey(0, "full")).budget
    assert (budget.kind, budget.amount) == ("growing", 4)


def test_batches_are_scaled_like_the_memory_by_hand(data_name: str, backwards: dict[str, Any]) -> None:
    """108 of the target's 200 training samples: as many steps in a phase as there."""

    def batch(size: int, **learn: Any) -> int:
        tasks = make_tasks(data_name, backwards, {"train": {"batch_size": size}}, **learn)
        return tasks._prepared[tasks.task(TaskKey(0, "full")).key].config.train.batch_size

    assert batch(25) == 14  # 13.5: halves go up
    assert batch(3) == 2  # 1.62
    assert batch(2) == 2  # 1.08, and batch norm needs two
    assert batch(25, scale_batch=False) == 25
    assert batch(25, source="target") == 23  # 22.5: validation samples are missing
    assert batch(25, source=f"dataset:{data_name}") == 25  # its own protocol


def test_the_default_memory_is_that_of_the_target_scaled(data_name: str, backwards: dict[str, Any]) -> None:
    """E = 20 x 10 = 200, M = E + the 2 x 20 samples of phase 1."""
    tasks = make_tasks(data_name, backwards, {"memory": {"budget": None, "exemplars": None}})
    budget = tasks.task(TaskKey(0, "full")).budget
    assert (budget.amount, budget.exemplars) == (130, 108)  # 129.6 and 108


def test_several_numbers_of_phases_task_by_task(data_name: str, backwards: dict[str, Any]) -> None:
    tasks = make_tasks(data_name, backwards, phases=[1, 3])
    assert [tasks.task(TaskKey(number, "full")).length for number in range(4)] == [1, 3, 1, 3]


def test_a_target_without_a_large_phase_0_has_tasks_without_one(data_name: str, backwards: dict[str, Any]) -> None:
    def sizes(base: int | None) -> list[int]:
        target = {"scenario": {**backwards["scenario"], "base_classes": base, "phases": 2}}
        task = make_tasks(data_name, target, phases=(3,)).task(TaskKey(0, "full"))
        return [len(phase.classes) for phase in task.scenario.phases]

    assert sizes(0) == [1, 1, 1, 1]  # of the target's 4, 3 and 3 classes
    assert sizes(4) == [2, 1, 1]  # half of the 4 classes first


def test_short_runs_have_fewer_epochs_after_phase_0(data_name: str, backwards: dict[str, Any]) -> None:
    tasks = make_tasks(data_name, backwards, {"train": {"epochs": 10}, "finetune": {"epochs": 1}}, short_share=0.25)
    tasks.task(TaskKey(0, "short"))
    config = tasks._prepared[TaskKey(0, "short")].config
    assert [config.train.epochs_of(phase) for phase in (0, 1, 2)] == [10, 2, 2]
    assert config.finetune.epochs == 1


@pytest.mark.parametrize(
    ("fidelity", "given", "epochs"), [("full", 8, 8), ("short", 8, 2), ("short", 1, 1), ("short", 0, 0), ("full", 0, 0)]
)
def test_short_runs_are_finetuned_for_a_share_of_the_epochs(
    fidelity: Fidelity, given: int, epochs: int, data_name: str, backwards: dict[str, Any]
) -> None:
    tasks = make_tasks(data_name, backwards, {"finetune": {"epochs": given}}, short_share=0.25)
    assert tasks._prepared[tasks.task(TaskKey(0, fidelity)).key].config.finetune.epochs == epochs


@pytest.mark.parametrize(("budget", "most"), [(Budget("fixed", 40), 40), (Budget("growing", 3), 3 * 6 + 18)])
def test_steps_of_an_epoch_by_hand(budget: Budget, most: int) -> None:
    """Four, two and two classes of 9 samples. A growing memory holds most in the last phase, with 6 old classes."""
    task = replace(make_task(), budget=budget)
    assert [steps_per_epoch(task, batch) for batch in (1, most - 1, most, most + 1)] == [most, 2, 1, 1]


def test_a_shortened_schedule_keeps_phase_0_and_at_least_one_epoch() -> None:
    train = compose_learning({"train": {"epochs": 10}}).target.train
    for share, epochs in ((0.25, 2), (0.35, 4), (0.01, 1), (1.0, 10)):  # 2.5 is rounded to even, 3.5 too
        short = shortened(train, share)
        assert (short.epochs_of(0), short.epochs_of(1)) == (10, epochs)


@pytest.mark.parametrize(
    ("epochs", "factor", "most", "short"),
    [
        (20, 0.1, 5, (5, 0.4)),
        (20, 0.1, 3, (4, 0.5)),  # three epochs would need 0.67 of the peak rate
        (20, 0.1, 100, (20, 0.1)),
        (3, 0.1, 0, (1, 0.3)),
        (8, 0.3, 1, (5, 0.48)),
        (8, 0.8, 1, (8, 0.8)),  # above half of the peak rate already
        (0, 0.1, 5, (0, 0.1)),
    ],
)
def test_a_shortened_fine_tuning_keeps_the_sum_of_its_rates(
    epochs: int, factor: float, most: int, short: tuple[int, float]
) -> None:
    tuning = shortened_tuning(FinetuneSettings(epochs=epochs, lr_factor=factor), most, scale=True)
    assert (tuning.epochs, tuning.lr_factor) == pytest.approx(short)
    assert tuning.epochs * tuning.lr_factor == pytest.approx(epochs * factor)


def test_a_fine_tuning_that_is_not_scaled_keeps_its_rate() -> None:
    tuning = shortened_tuning(FinetuneSettings(epochs=20), 3, scale=False)
    assert (tuning.epochs, tuning.lr_factor) == (3, 0.1)


@pytest.mark.parametrize(("fidelity", "epochs"), [("short", 5), ("features", 4), ("full", 20)])
@pytest.mark.parametrize("scale", [True, False])
def test_tasks_scale_the_rate_of_fine_tuning(
    fidelity: Fidelity, epochs: int, scale: bool, data_name: str, backwards: dict[str, Any]
) -> None:
    learn = {"short_share": 0.25, "features_steps": 12, "scale_finetune": scale}  # three steps in an epoch
    sizes = {"memory": {"budget": 75, "exemplars": 30}, "train": {"batch_size": 25}, "finetune": {"epochs": 20}}
    tasks = make_tasks(data_name, backwards, sizes, **learn)
    tuning = tasks._prepared[tasks.task(TaskKey(0, fidelity)).key].config.finetune
    assert tuning.epochs == epochs
    assert tuning.lr_factor == pytest.approx(2 / epochs if scale else 0.1)


def test_a_head_on_features_takes_no_more_steps_than_allowed(data_name: str, backwards: dict[str, Any]) -> None:
    """M = 41 in batches of 14: three steps in an epoch, so that seven steps are two epochs."""
    sizes = {"memory": {"budget": 75, "exemplars": 30}, "train": {"batch_size": 25, "epochs": 4}}
    for allowed, epochs in ((7, (2, 2)), (2, (1, 1)), (100, (4, 3))):
        tasks = make_tasks(data_name, backwards, sizes, {"finetune": {"epochs": 3}}, features_steps=allowed)
        config = tasks._prepared[tasks.task(TaskKey(0, "features")).key].config
        assert (config.train.epochs_of(1), config.finetune.epochs) == epochs
        assert config.train.epochs_of(0) == 4


def test_a_task_of_features_has_the_phases_and_rows_of_the_full_one(data_name: str, backwards: dict[str, Any]) -> None:
    tasks = make_tasks(data_name, backwards)
    whole, task = tasks.task(TaskKey(1, "full")), tasks.task(TaskKey(1, "features"))
    assert task.scenario.bank.shape == (8,)  # the width of the network
    assert task.scenario.class_order == whole.scenario.class_order
    assert task.budget == whole.budget
    assert task.reward == "accuracy_cnn"
    augment = tasks._prepared[task.key].config.augment
    assert (augment.kind, augment.pad, augment.flip, augment.brightness) == ("none", 0, False, 0.0)
    sizes = [[len(rows) for rows in phase.train.values()] for phase in whole.scenario.phases]
    assert [[len(rows) for rows in phase.train.values()] for phase in task.scenario.phases] == sizes
    train = np.concatenate([rows for phase in task.scenario.phases for rows in phase.train.values()])
    evaluated = np.concatenate([phase.eval_samples.rows for phase in task.scenario.phases])
    assert sorted([*train.tolist(), *evaluated.tolist()]) == list(range(120))
    assert tasks.trained == 1  # phase 0 of the whole task, once
    again = make_tasks(data_name, backwards).task(TaskKey(1, "features"))
    assert again.scenario.fingerprint == task.scenario.fingerprint
    assert tasks.path_task(TaskKey(1, "features")).scenario is whole.scenario


def test_frozen_features_are_learned_with_the_method_beneath_branches() -> None:
    config = compose_learning({"method": {"name": "lucir-aanets", "less_forget": 3.0}}).target
    core = core_settings(config)
    assert (core.name, core.model_dump()["less_forget"]) == ("lucir", 3.0)
    assert core_settings(compose_learning({"method": {"name": "icarl"}}).target).name == "icarl"


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        ({"method": {"name": "joint"}}, "method: joint given, but it shares no memory"),
        ({"train": {"devices": 2}}, "train.devices: 2 given; a policy's runs have one device each"),
        ({"scenario": {"base_classes": 1}}, "1 class to make pseudo tasks of; expected at least 2"),
        ({"memory": {"budget": 10, "exemplars": 1}}, "budget: 7 samples are less than one for each of the 8 classes"),
    ],
)
def test_mistakes_are_reported_before_training(layer: dict[str, Any], message: str, data_name: str) -> None:
    base = {"scenario": {"base_classes": 8, "phases": 2}}
    with pytest.raises(InputError, match=message):
        make_tasks(data_name, base, layer).check()


def test_steps_per_epoch_are_those_of_the_largest_phase_under_a_budget() -> None:
    """Phase 0 is exempt. growing:5 gives 5 x 3 + 20 = 35 samples in phase 1 and 5 x 4 + 10 = 30 in phase 2."""
    arriving = {0: (3, 90), 1: (1, 20), 2: (1, 10)}
    phases = [SimpleNamespace(index=i, classes=range(n), arriving=rows) for i, (n, rows) in arriving.items()]
    task: Any = SimpleNamespace(scenario=SimpleNamespace(phases=phases), budget=Budget("growing", 5))
    assert [steps_per_epoch(task, batch) for batch in (35, 34, 8)] == [1, 2, 5]


def test_features_after_a_share_of_phase_0(npz: Path) -> None:
    """Its own phase 0 with fewer epochs; full runs and the heads keep all epochs of the target."""
    layer = {"train": {"epochs": 8, "batch_size": 16}}
    tasks = PseudoTasks(learn_config(npz, layer, fidelity="features", phase0_share=0.25), MemorySnapshotCache(10**8))
    key = TaskKey(0, "features")
    tasks.task(key)
    trained = {task: prepared.config.train.epochs for task, prepared in tasks._prepared.items()}
    base = TaskKey(0, "full", " phase 0")
    assert trained == {TaskKey(0, "full"): 8, base: 2, key: 8}
    assert tasks._prepared[base].config.train.epochs_of(1) == 8
    whole = PseudoTasks(learn_config(npz, layer, fidelity="features"), MemorySnapshotCache(10**8))
    whole.task(key)
    assert set(whole._prepared) == {TaskKey(0, "full"), key}
    rows = np.arange(5)
    different = whole.task(key).scenario.bank.read(rows) != tasks.task(key).scenario.bank.read(rows)
    assert different.any()
