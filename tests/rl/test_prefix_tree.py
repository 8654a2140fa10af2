"""The tree: no node is trained twice, what was dropped is trained again with equal rewards, known rewards never."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path as Folder
from typing import cast

import numpy as np
import pytest
import torch

from remem.episode import Episode
from remem.storage.tensorfile import Snapshot
from remem.policies.rmm import TwoLevelPolicy
from remem.rl.paths import Node, Path, Task, drawn
from remem.rl.prefix_tree import RewardCache, PrefixTrainer, MemorySnapshotCache, SnapshotCache, missing, serial, size_of
from remem.rl.snapshot_cache import DiskSnapshotCache
from remem.types import Phase
from remem.action import Action
from rl_factories import made_task

SIZE = 1000  # bytes of a snapshot's tensors


def made_of(moves: list[list[int]]) -> float:
    """A number in [0, 1) that hangs on every move."""
    return float(np.random.default_rng(np.ravel(moves)).random())


class Judged:
    """Two accuracies, as a phase reports them."""

    def __init__(self, accuracy: float) -> None:
        self.accuracy, self.accuracy_cnn = accuracy, accuracy / 2


class Walker:
    """An episode without learning: its accuracy is a number made of all moves so far."""

    restored = 0

    def __init__(self) -> None:
        self.moves: list[list[int]] = []

    def advance(self, phase: Phase, action: Action | None) -> Judged:
        assert phase.index == len(self.moves)
        assert (action is None) == (phase.index == 0)
        self.moves.append([0, 0] if action is None else [action.old_tenths or 0, action.level2_tenths])
        return Judged(made_of(self.moves))

    def snapshot(self) -> Snapshot:
        return Snapshot({"moves": [list(move) for move in self.moves]}, {"x": torch.zeros(SIZE, dtype=torch.uint8)})

    def restore(self, snapshot: Snapshot) -> None:
        Walker.restored += 1
        self.moves = [list(move) for move in snapshot.facts["moves"]]


def grower(shelf: SnapshotCache) -> PrefixTrainer:
    return PrefixTrainer(lambda task: cast(Episode, Walker()), shelf)


def forest_of(tasks: dict[str, Task], trained: PrefixTrainer) -> RewardCache:
    return RewardCache(serial(lambda key, path: trained.grow(tasks[key.run], path)))


def some_runs(task: Task, count: int = 12) -> list[Node]:
    policy = TwoLevelPolicy()
    return [(task.key, drawn(task, policy, np.random.default_rng(seed))[0]) for seed in range(count)]


def plain_rewards(path: Path) -> tuple[float, ...]:
    """The rewards of a run that starts from nothing."""
    moves = [[0, 0], *(list(move) for move in path)]
    depths = range(1, len(moves) + 1)
    return tuple(made_of(moves[:depth]) for depth in depths)


A, B, C = ((6, 5), (6, 5)), ((6, 5), (7, 5)), ((8, 2), (7, 5))


def test_missing_nodes_come_once_each_depth_first_and_without_those_known() -> None:
    key = made_task().key
    wanted = missing([(key, A), (key, B), (key, A), (key, C)], {})
    assert wanted == [(key, p) for p in [(), A[:1], A, B, C[:1], C]]
    assert missing([(key, A), (key, B)], dict.fromkeys([(key, ()), (key, A[:1]), (key, A)], 0.5)) == [(key, B)]
    other = made_task(1).key
    assert missing([(key, A), (other, A), (key, B)], {})[3:] == [(key, B), *((other, A[:d]) for d in range(3))]


def test_every_node_is_trained_once_and_rewards_are_those_of_runs_from_nothing() -> None:
    task, worker = made_task(phases=4), grower(MemorySnapshotCache(10**9))
    forest, runs = forest_of({"": task}, worker), some_runs(made_task(phases=4))
    rewards = forest.rewards(runs)
    assert rewards == [plain_rewards(path) for _, path in runs]
    nodes = {path[:depth] for _, path in runs for depth in range(5)}
    assert worker.trained == len(nodes) == len(forest.known)
    assert len(nodes) < 5 * len(runs)
    assert forest.rewards(runs) == rewards
    assert worker.trained == len(nodes)  # known rewards never cost anything again


def test_known_rewards_are_used_even_where_no_snapshot_is_left() -> None:
    task, worker = made_task(), grower(MemorySnapshotCache(0))
    known = {(task.key, ()): 0.25, (task.key, A[:1]): 0.5, (task.key, A): 0.75}
    forest = RewardCache(serial(lambda key, path: worker.grow(task, path)), known)
    assert forest.rewards([(task.key, A)]) == [(0.25, 0.5, 0.75)]
    assert worker.trained == 0


@pytest.mark.parametrize("limit", [0, SIZE, 3 * SIZE])
@pytest.mark.parametrize("kind", ["memory", "disk"])
def test_what_was_dropped_is_trained_again_with_equal_rewards(kind: str, limit: int, tmp_path: Folder) -> None:
    task, runs = made_task(phases=4), some_runs(made_task(phases=4))
    room = limit if kind == "memory" else 2 * limit  # a file is its tensors and a few hundred bytes
    shelf: SnapshotCache = MemorySnapshotCache(room) if kind == "memory" else DiskSnapshotCache(tmp_path / "shelf", room)
    worker = grower(shelf)
    assert forest_of({"": task}, worker).rewards(runs) == [plain_rewards(path) for _, path in runs]
    assert worker.trained > len({path[:depth] for _, path in runs for depth in range(5)})
    if isinstance(shelf, MemorySnapshotCache):
        assert shelf.held_bytes <= room
    else:
        assert sum(file.stat().st_size for file in (tmp_path / "shelf").glob("*")) <= room


def test_going_deeper_restores_nothing() -> None:
    task, worker = made_task(phases=4), grower(MemorySnapshotCache(10**9))
    before = Walker.restored
    path: Path = ((6, 5), (6, 5), (6, 5), (5, 5))
    for depth in range(5):
        assert list(worker.grow(task, path[:depth])) == [path[:depth]]
    assert Walker.restored == before
    assert list(worker.grow(task, (*path[:3], (7, 5)))) == [(*path[:3], (7, 5))]  # a sibling starts from the snapshot
    assert Walker.restored == before + 1
    assert worker.trained == 6


def test_leaves_are_not_kept_and_a_snapshot_can_be_asked_for() -> None:
    task, shelf = made_task(), MemorySnapshotCache(10**9)
    worker = grower(shelf)
    worker.grow(task, A)
    assert shelf.held_bytes == 2 * SIZE  # phase 0 and phase 1
    assert shelf.find((task.key, A)) is None
    assert worker.snapshot(task, A[:1]).facts["moves"] == [[0, 0], [6, 5]]
    assert worker.trained == 3
    assert worker.snapshot(task, C[:1]).facts["moves"] == [[0, 0], [8, 2]]
    assert worker.trained == 4


def test_an_interrupted_phase_is_not_built_upon(monkeypatch: pytest.MonkeyPatch) -> None:
    task, worker = made_task(), grower(MemorySnapshotCache(10**9))
    worker.grow(task, ())
    whole: Callable[[Walker, Phase, Action | None], Judged] = Walker.advance

    def cut_off(self: Walker, phase: Phase, action: Action | None) -> Judged:
        whole(self, phase, action)
        raise KeyboardInterrupt

    monkeypatch.setattr(Walker, "advance", cut_off)
    with pytest.raises(KeyboardInterrupt):
        worker.grow(task, A[:1])
    monkeypatch.setattr(Walker, "advance", whole)
    assert worker.grow(task, A[:1]) == {A[:1]: plain_rewards(A)[1]}


def test_the_reward_is_that_of_the_head_which_the_task_names() -> None:
    task = replace(made_task(), reward="accuracy_cnn")
    assert grower(MemorySnapshotCache(0)).grow(task, ()) == {(): plain_rewards(())[0] / 2}


def test_the_shelf_drops_what_was_not_used_for_longest() -> None:
    task, shelf = made_task(), MemorySnapshotCache(2 * SIZE)
    nodes = [(task.key, path) for path in ((), A[:1], C[:1])]
    shelf.put(nodes[0], Walker().snapshot())
    shelf.put(nodes[1], Walker().snapshot())
    assert shelf.find(nodes[0]) is not None
    shelf.put(nodes[2], Walker().snapshot())
    assert [shelf.find(node) is not None for node in nodes] == [True, False, True]
    assert shelf.held_bytes == 2 * SIZE
    shelf.put(nodes[2], Walker().snapshot())
    assert shelf.held_bytes == 2 * SIZE
    assert size_of(Walker().snapshot()) == SIZE


def test_a_damaged_file_on_the_shelf_is_as_good_as_none(tmp_path: Folder) -> None:
    task, shelf = made_task(), DiskSnapshotCache(tmp_path, 10**9)
    worker = grower(shelf)
    worker.grow(task, A[:1])
    for file in tmp_path.glob("*"):
        file.write_bytes(file.read_bytes()[:-7])
    assert shelf.find((task.key, A[:1])) is None
    again = grower(shelf)
    assert again.grow(task, A) == dict(zip([(), A[:1], A], plain_rewards(A), strict=True))
    assert again.trained == 3
