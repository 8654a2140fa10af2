"""batched/: many runs on frozen features at once, against the episodes of the same runs one by one."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from factories import blobs, write_npz
from remem.errors import BudgetError, InputError
from remem.policies.rmm import TwoLevelPolicy
from remem.rl.batched import runs as batched_runs
from remem.rl.batched.nodes import BatchedNodes
from remem.rl.batched.runs import chunk_size
from remem.rl.config import LearnConfig
from remem.rl.paths import Node, TaskKey, sample_path
from remem.rl.prefix_tree import missing
from remem.rl.pseudo_tasks import PseudoTasks
from remem.rl.snapshot_cache import MemorySnapshotCache
from rl_factories import learn_config

KEYS = [TaskKey(number, "features") for number in (0, 1)]
# A float32 sum of some dozens of terms is off by about 1e-6. Some hundred steps at a rate at which training does not
# amplify differences leave ten times that; a wrong weight or a missed step is off by 1e-2 and more.
CLOSE = 2e-5


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fourteen classes of very different sizes, so that runs hold different numbers of samples."""
    path = tmp_path_factory.mktemp("data") / "blobs.npz"
    write_npz(path, blobs(classes=14, per_class=40, spread=2.0))
    return path


def config(npz: Path, method: dict[str, Any] | None = None, *, batched: bool, **layer: Any) -> LearnConfig:
    """Tasks of 5 + 3 + 2 classes; several batches in every stage, the last one of them short."""
    settings: dict[str, Any] = {
        "scenario": {"phases": 2, "base_classes": 10, "order": "natural"},
        "memory": {"budget": 140},
        "train": {"epochs": 2, "batch_size": 20, "lr": 0.05, "lr_later": 0.05},
        "finetune": {"epochs": 2},
        "method": method or {"name": "lucir"},
        "seed": 3,
    }
    for section, values in layer.items():
        settings[section] = {**settings.get(section, {}), **values}
    return learn_config(npz, settings, fidelity="features", batched=batched)


def random_nodes(tasks: PseudoTasks, count: int) -> list[Node]:
    policy, rng = TwoLevelPolicy(), np.random.default_rng(0)
    return [(key, sample_path(tasks.path_task(key), policy, rng)[0]) for key in KEYS for _ in range(count)]


def open_tasks(config: LearnConfig) -> PseudoTasks:
    return PseudoTasks(config, MemorySnapshotCache(10**8))


def rewards_of(config: LearnConfig, count: int = 6) -> dict[Node, float]:
    tasks = open_tasks(config)
    return dict(tasks.train_nodes(missing(random_nodes(tasks, count), {})))


METHODS: dict[str, dict[str, Any]] = {
    "finetune": {"name": "finetune"},
    "lwf": {"name": "lwf"},
    "lwf-cosine": {"name": "lwf", "head": "cosine", "weight": 2.0},
    "icarl": {"name": "icarl"},
    "icarl-sigmoid": {"name": "icarl", "loss": "sigmoid"},
    "lucir": {"name": "lucir"},
    "lucir-all-rows": {"name": "lucir", "freeze_old": False, "top": 1},
    "podnet": {"name": "podnet", "proxies": 3},
    "lucir-aanets": {"name": "lucir-aanets"},
}


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_rewards_and_heads_are_those_of_one_run_at_a_time(many: Path, method: dict[str, Any]) -> None:
    """Rewards to the sample, and every weight of every head."""
    together, alone = open_tasks(config(many, method, batched=True)), open_tasks(config(many, method, batched=False))
    nodes = missing(random_nodes(together, 6), {})
    assert dict(together.train_nodes(nodes)) == dict(alone.train_nodes(nodes))
    inner = [node for node in nodes if len(node[1]) < 2]
    assert len(inner) > 6
    for key, path in inner:
        state = together._batched._states.held[key, path]
        snapshot = alone._trainer.snapshot(alone.task(key), path)
        for name, value in state.head.state_dict().items():
            expected = snapshot.tensors[f"network/head.{name}"]
            torch.testing.assert_close(value, expected, rtol=0, atol=CLOSE)
        held = snapshot.tensors["memory/rows"].numpy()
        assert np.array_equal(np.concatenate([state.held[label] for label in sorted(state.held)]), held)


@pytest.mark.parametrize(
    "layer",
    [
        {"finetune": {"epochs": 0}},
        {"memory": {"selection": "uniform", "budget": 140}},
        {"train": {"schedule": "step", "momentum": 0.5, "nesterov": False}},
        {"train": {"schedule": "cosine", "weight_decay": 0.0, "batch_size": 400}},
        {"memory": {"budget": "growing:6", "exemplars": None}},
    ],
    ids=["no-fine-tuning", "uniform", "plain-momentum", "one-batch", "growing"],
)
def test_other_settings_give_equal_rewards_too(many: Path, layer: dict[str, Any]) -> None:
    assert rewards_of(config(many, batched=True, **layer)) == rewards_of(config(many, batched=False, **layer))


def test_a_run_does_not_depend_on_the_others(many: Path) -> None:
    """Bit for bit: alone, with all others, in small chunks, and if every state has to be trained again."""
    tasks = open_tasks(config(many, batched=True))
    nodes = missing(random_nodes(tasks, 6), {})
    together = dict(tasks.train_nodes(nodes))
    heads = {node: state.head.state_dict() for node, state in tasks._batched._states.held.items()}
    forgetful = BatchedNodes(tasks._feature_task, limit_bytes=0)
    for node in nodes:
        assert dict(forgetful.train([node]))[node] == together[node]
    assert not forgetful._states.held
    assert forgetful.trained == sum(len(path) + 1 for _, path in nodes)
    single = BatchedNodes(tasks._feature_task)
    for node in nodes:
        dict(single.train([node]))
    for node, head in heads.items():
        for name, value in single._states.held[node].head.state_dict().items():
            torch.testing.assert_close(value, head[name], rtol=0, atol=1e-6)  # kernels differ with the number of runs


def test_chunks_change_nothing(many: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = rewards_of(config(many, batched=True))
    sizes: list[int] = []
    train = batched_runs.Chunk.train

    def counted(chunk: batched_runs.Chunk) -> Any:
        sizes.append(len(chunk._runs))
        return train(chunk)

    monkeypatch.setattr(batched_runs.Chunk, "train", counted)
    monkeypatch.setattr(batched_runs, "WORTHWHILE", 5)
    assert rewards_of(config(many, batched=True)) == whole
    assert max(sizes) == 5
    monkeypatch.setattr(batched_runs, "CHUNK_BYTES", 1000)  # less than one run: still one at a time, one task each
    assert rewards_of(config(many, batched=True)) == whole
    assert sizes[-1] == 1


def test_chunks_get_smaller_with_more_classes(many: Path) -> None:
    tasks = open_tasks(config(many, batched=True))
    task = tasks._feature_task(KEYS[0])
    few = chunk_size(2, task)
    wide = open_tasks(config(many, {"name": "podnet", "proxies": 4000}, batched=True))._feature_task(KEYS[0])
    assert few == batched_runs.WORTHWHILE
    assert 1 <= chunk_size(2, wide) < few


def test_chunks_count_the_weights_of_heads(many: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All copies of the weights of the runs of a chunk fit the limit, here those of 60 runs."""
    task, phase = open_tasks(config(many, batched=True))._feature_task(KEYS[0]), 2
    classes = sum(len(past.classes) for past in task.phases[: phase + 1])
    per_run = 4 * 10**6 * classes * math.prod(task.head.row)
    monkeypatch.setattr(batched_runs, "HEAD_COPIES", 10**6)
    monkeypatch.setattr(batched_runs, "CHUNK_BYTES", 60 * per_run)
    assert 50 <= chunk_size(phase, task) <= 60


@pytest.mark.parametrize(
    ("method", "layer", "expected"),
    [
        ({"name": "lucir"}, {}, True),
        ({"name": "mnemonics"}, {}, True),  # on frozen features it is lucir
        ({"name": "podnet", "nca": "margin"}, {}, False),
        ({"name": "lucir"}, {"train": {"optimizer": "adam"}}, False),
    ],
)
def test_what_cannot_be_batched_is_trained_one_by_one(
    many: Path, method: dict[str, Any], layer: dict[str, Any], expected: bool
) -> None:
    tasks = open_tasks(config(many, method, batched=True, **layer))
    assert tasks.batches(KEYS[0]) is expected
    assert not tasks.batches(TaskKey(0, "full"))
    [(node, reward)] = list(tasks.train_nodes([(KEYS[0], ())]))
    assert node == (KEYS[0], ())
    assert 0 <= reward <= 1
    assert tasks._batched.trained == int(expected)


def test_more_samples_than_the_budget_are_refused(many: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = open_tasks(config(many, batched=True))
    load = batched_runs.Chunk._load

    def cheat(chunk: Any, run: Any, allocation: Any) -> None:
        if allocation is not None:
            object.__setattr__(allocation, "budget", allocation.budget - 1)
        load(chunk, run, allocation)

    monkeypatch.setattr(batched_runs.Chunk, "_load", cheat)
    with pytest.raises(BudgetError, match="samples are held, but the budget is"):
        dict(tasks.train_nodes(missing(random_nodes(tasks, 1), {})))


def test_a_rate_that_is_too_high_is_named(many: Path) -> None:
    high = config(many, {"name": "lwf"}, batched=True, train={"lr_later": 1e30})
    with pytest.raises(InputError, match=r"train.lr: training diverged in phase 1, stage main; expected a lower rate"):
        rewards_of(high, 1)


def test_no_state_of_a_leaf_is_kept_and_the_oldest_go_first(many: Path) -> None:
    tasks = open_tasks(config(many, batched=True))
    nodes = missing(random_nodes(tasks, 6), {})
    first = BatchedNodes(tasks._feature_task)
    dict(first.train(nodes))
    assert {len(path) for _, path in first._states.held} == {0, 1}
    assert first._states.held_bytes == sum(state.nbytes for state in first._states.held.values())
    half = BatchedNodes(tasks._feature_task, limit_bytes=first._states.held_bytes // 2)
    dict(half.train(nodes))
    assert 0 < half._states.held_bytes <= first._states.held_bytes // 2
    assert set(half._states.held) == set(list(first._states.held)[-len(half._states.held) :])


def assert_parents_first(nodes: Sequence[Node], yielded: Sequence[Node]) -> None:
    done: set[Node] = set()
    for key, path in yielded:
        assert not path or (key, path[:-1]) in done
        done.add((key, path))
    assert done == set(nodes)


def test_rewards_come_level_by_level(many: Path) -> None:
    tasks = open_tasks(config(many, batched=True))
    nodes = missing(random_nodes(tasks, 4), {})
    assert_parents_first(nodes, [node for node, _ in tasks.train_nodes(nodes)])
