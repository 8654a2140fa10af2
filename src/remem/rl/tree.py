"""Shared prefixes: the runs of a task form a tree of episodes, and no node of it is trained twice."""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from remem.episode import Episode, Snapshot
from remem.rl.paths import Node, Path, Task, TaskKey
from remem.types import Action


class Shelf(Protocol):
    """Where the episodes of inner nodes wait for their branches; what is gone is trained again."""

    def put(self, node: Node, snapshot: Snapshot) -> None: ...

    def find(self, node: Node) -> Snapshot | None: ...


class MemoryShelf:
    """Snapshots in memory up to a limit; those not used for longest go first."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._snapshots: OrderedDict[Node, Snapshot] = OrderedDict()
        self.held_bytes = 0

    def put(self, node: Node, snapshot: Snapshot) -> None:
        self._drop(node)
        self._snapshots[node] = snapshot
        self.held_bytes += size_of(snapshot)
        while self.held_bytes > self._limit and self._snapshots:
            self._drop(next(iter(self._snapshots)))

    def find(self, node: Node) -> Snapshot | None:
        if node in self._snapshots:
            self._snapshots.move_to_end(node)
        return self._snapshots.get(node)

    def _drop(self, node: Node) -> None:
        snapshot = self._snapshots.pop(node, None)
        if snapshot is not None:
            self.held_bytes -= size_of(snapshot)


def size_of(snapshot: Snapshot) -> int:
    """Bytes of a snapshot's tensors; the facts beside them are small."""
    return sum(tensor.nbytes for tensor in snapshot.tensors.values())


class Grower:
    """Trains nodes, each from its parent: the episode at hand if it stands there, else the nearest snapshot."""

    def __init__(self, open_episode: Callable[[Task], Episode], shelf: Shelf) -> None:
        self._open = open_episode
        self._shelf = shelf
        self._at: Node | None = None
        self._episode: Episode | None = None
        self.trained = 0  # phases, those that had to be repeated included

    def grow(self, task: Task, path: Path) -> dict[Path, float]:
        """The reward of the path's last phase, and of every ancestor that had to be trained for it."""
        start = self._nearest(task, path)
        return {path[:depth]: self._advance(task, path[:depth]) for depth in range(start + 1, len(path) + 1)}

    def snapshot(self, task: Task, path: Path) -> Snapshot:
        """The episode after a path, trained if need be."""
        found = self._shelf.find((task.key, path))
        if found is None:
            self.grow(task, path)
            assert self._episode is not None
            found = self._episode.snapshot()
        return found

    def _nearest(self, task: Task, path: Path) -> int:
        """Stands on the deepest ancestor that is there; its depth, -1 before phase 0."""
        parent = path[:-1]
        if path and self._at == (task.key, parent):
            return len(parent)
        self._at, self._episode = None, self._open(task)
        for depth in range(len(path) - 1, -1, -1):
            snapshot = self._shelf.find((task.key, path[:depth]))
            if snapshot is not None:
                self._episode.restore(snapshot)
                self._at = (task.key, path[:depth])
                return depth
        return -1

    def _advance(self, task: Task, path: Path) -> float:
        episode, phase = self._episode, task.scenario.phases[len(path)]
        assert episode is not None
        self._at = None  # an interrupted phase leaves an episode that nobody may use
        action = Action(old_tenths=path[-1][0], level2_tenths=path[-1][1]) if path else None
        result = episode.advance(phase, action)
        reward = result.accuracy if task.reward == "accuracy" else result.accuracy_cnn  # r_i, on validation samples
        self._at = (task.key, path)
        self.trained += 1
        if len(path) < task.length:  # nothing grows from a leaf
            self._shelf.put(self._at, episode.snapshot())
        return reward


Grow = Callable[[Sequence[Node]], Iterator[tuple[Node, float]]]  # nodes in, parents first; rewards out


class Forest:
    """The rewards of all tasks so far, kept for ever; whoever grows trees is asked for what is missing."""

    def __init__(self, grow: Grow, known: Mapping[Node, float] | None = None) -> None:
        self._grow = grow
        self.known: dict[Node, float] = dict(known or {})

    def rewards(self, runs: Sequence[Node]) -> list[tuple[float, ...]]:
        """For every run, a task and a whole path, the rewards of phases 0..N."""
        for node, reward in self._grow(missing(runs, self.known)):
            self.known[node] = reward
        return [tuple(self.known[key, path[:depth]] for depth in range(len(path) + 1)) for key, path in runs]


def missing(runs: Iterable[Node], known: Mapping[Node, float]) -> list[Node]:
    """The nodes that are not known yet, once each, task by task and depth first: an order that restores little."""
    paths: dict[TaskKey, set[Path]] = {}
    for key, path in runs:
        prefixes = (path[:depth] for depth in range(len(path) + 1))
        paths.setdefault(key, set()).update(prefix for prefix in prefixes if (key, prefix) not in known)
    return [(key, path) for key, wanted in paths.items() for path in sorted(wanted)]


def serial(train: Callable[[TaskKey, Path], Mapping[Path, float]]) -> Grow:
    """Grows one node after another in this process; `train` also returns the ancestors that it had to train."""

    def grow(nodes: Sequence[Node]) -> Iterator[tuple[Node, float]]:
        done: set[Node] = set()
        for key, path in nodes:
            if (key, path) not in done:
                for trained, reward in train(key, path).items():
                    done.add((key, trained))
                    yield (key, trained), reward

    return grow
