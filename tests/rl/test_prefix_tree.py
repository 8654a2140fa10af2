"""prefix_tree.py: no node is trained twice, lost snapshots are trained again, and known rewards cost nothing."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from remem.action import Action
from remem.policies.rmm import TwoLevelPolicy
from remem.rl.paths import Node, Task, sample_path
from remem.rl.prefix_tree import RewardCache, missing, one_by_one
from remem.rl.snapshot_cache import DiskSnapshotCache, MemorySnapshotCache, SnapshotCache
from remem.types import Phase
from rl_factories import SNAPSHOT_BYTES, FakeEpisode, FakeResult, FakeTrainer, fake_rewards, make_path, make_task

A, B, C = make_path((6, 5), (6, 5)), make_path((6, 5), (7, 5)), make_path((8, 2), (7, 5))
UNLIMITED = 10**9


def reward_cache(task: Task, trainer: FakeTrainer) -> RewardCache:
    return RewardCache(one_by_one(lambda key, path: trainer.train(task, path)))


def some_runs(task: Task, count: int = 12) -> list[Node]:
    policy = TwoLevelPolicy()
    return [(task.key, sample_path(task, policy, np.random.default_rng(seed))[0]) for seed in range(count)]


def test_missing_nodes_come_once_each_depth_first_and_without_those_known() -> None:
    key = make_task().key
    wanted = missing([(key, A), (key, B), (key, A), (key, C)], {})
    assert wanted == [(key, path) for path in [(), A[:1], A, B, C[:1], C]]
    assert missing([(key, A), (key, B)], dict.fromkeys([(key, ()), (key, A[:1]), (key, A)], 0.5)) == [(key, B)]
    other = make_task(1).key
    assert missing([(key, A), (other, A), (key, B)], {})[3:] == [(key, B), *((other, A[:d]) for d in range(3))]


def test_every_node_is_trained_once_and_rewards_are_those_of_separate_runs() -> None:
    task, trainer = make_task(phases=4), FakeTrainer(MemorySnapshotCache(UNLIMITED))
    cache, runs = reward_cache(task, trainer), some_runs(task)
    rewards = cache.of(runs)
    assert rewards == [fake_rewards(path) for _, path in runs]
    nodes = {path[:depth] for _, path in runs for depth in range(5)}
    assert trainer.trained == len(nodes) == len(cache.known)
    assert len(nodes) < 5 * len(runs)
    assert cache.of(runs) == rewards
    assert trainer.trained == len(nodes)  # known rewards cost nothing


def test_known_rewards_are_used_even_where_no_snapshot_is_left() -> None:
    task, trainer = make_task(), FakeTrainer(MemorySnapshotCache(0))
    known = {(task.key, ()): 0.25, (task.key, A[:1]): 0.5, (task.key, A): 0.75}
    cache = RewardCache(one_by_one(lambda key, path: trainer.train(task, path)), known)
    assert cache.of([(task.key, A)]) == [(0.25, 0.5, 0.75)]
    assert trainer.trained == 0


def test_an_ancestor_that_had_to_be_trained_for_a_node_is_not_trained_again() -> None:
    """Without snapshots the first leaf trains its whole path; its ancestors, listed before it, are done by then."""
    task, trainer = make_task(), FakeTrainer(MemorySnapshotCache(0))
    train_nodes = one_by_one(lambda key, path: trainer.train(task, path))
    nodes = [(task.key, path) for path in (A, (), A[:1])]
    assert dict(train_nodes(nodes)) == dict(zip([nodes[1], nodes[2], nodes[0]], fake_rewards(A), strict=True))
    assert trainer.trained == 3


@pytest.mark.parametrize("limit", [0, SNAPSHOT_BYTES, 3 * SNAPSHOT_BYTES])
@pytest.mark.parametrize("kind", ["memory", "disk"])
def test_dropped_snapshots_are_trained_again_with_equal_rewards(kind: str, limit: int, tmp_path: Path) -> None:
    task = make_task(phases=4)
    runs = some_runs(task)
    room = limit if kind == "memory" else 2 * limit  # a file is its tensors and a few hundred bytes
    folder = tmp_path / "snapshots"
    cache: SnapshotCache = MemorySnapshotCache(room) if kind == "memory" else DiskSnapshotCache(folder, room)
    trainer = FakeTrainer(cache)
    assert reward_cache(task, trainer).of(runs) == [fake_rewards(path) for _, path in runs]
    assert trainer.trained > len({path[:depth] for _, path in runs for depth in range(5)})
    if isinstance(cache, MemorySnapshotCache):
        assert cache.held_bytes <= room
    else:
        assert sum(file.stat().st_size for file in folder.glob("*")) <= room


def test_a_child_continues_the_episode_at_hand_and_a_sibling_restores_a_snapshot() -> None:
    task, trainer = make_task(phases=4), FakeTrainer(MemorySnapshotCache(UNLIMITED))
    path = make_path((6, 5), (6, 5), (6, 5), (5, 5))
    for depth in range(5):
        assert list(trainer.train(task, path[:depth])) == [path[:depth]]
    assert (trainer.restored, len(trainer.episodes)) == (0, 1)
    sibling = (*path[:3], Action(7, 5))
    assert list(trainer.train(task, sibling)) == [sibling]
    assert (trainer.restored, len(trainer.episodes)) == (1, 2)
    assert trainer.trained == 6


def test_leaves_are_not_cached_and_missing_snapshots_are_trained() -> None:
    task, cache = make_task(), MemorySnapshotCache(UNLIMITED)
    trainer = FakeTrainer(cache)
    trainer.train(task, A)
    assert cache.held_bytes == 2 * SNAPSHOT_BYTES  # phase 0 and phase 1
    assert cache.find((task.key, A)) is None
    assert trainer.snapshot(task, A[:1]).facts["actions"] == [[0, 0], [6, 5]]
    assert trainer.trained == 3
    assert trainer.snapshot(task, C[:1]).facts["actions"] == [[0, 0], [8, 2]]
    assert trainer.trained == 4


def test_an_interrupted_phase_is_not_built_upon(monkeypatch: pytest.MonkeyPatch) -> None:
    task, trainer = make_task(), FakeTrainer(MemorySnapshotCache(UNLIMITED))
    trainer.train(task, ())
    whole: Callable[[FakeEpisode, Phase, Action | None], FakeResult] = FakeEpisode.advance

    def interrupted(self: FakeEpisode, phase: Phase, action: Action | None) -> FakeResult:
        whole(self, phase, action)
        raise KeyboardInterrupt

    monkeypatch.setattr(FakeEpisode, "advance", interrupted)
    with pytest.raises(KeyboardInterrupt):
        trainer.train(task, A[:1])
    monkeypatch.setattr(FakeEpisode, "advance", whole)
    assert trainer.train(task, A[:1]) == {A[:1]: fake_rewards(A)[1]}


def test_the_reward_is_the_accuracy_that_the_task_names() -> None:
    task = replace(make_task(), reward="accuracy_cnn")
    assert FakeTrainer(MemorySnapshotCache(0)).train(task, ()) == {(): fake_rewards(())[0] / 2}


def test_damaged_snapshot_files_are_trained_again(tmp_path: Path) -> None:
    task, cache = make_task(), DiskSnapshotCache(tmp_path, UNLIMITED)
    FakeTrainer(cache).train(task, A[:1])
    for file in tmp_path.glob("*"):
        file.write_bytes(file.read_bytes()[:-7])
    assert cache.find((task.key, A[:1])) is None
    again = FakeTrainer(cache)
    assert again.train(task, A) == dict(zip([(), A[:1], A], fake_rewards(A), strict=True))
    assert again.trained == 3
