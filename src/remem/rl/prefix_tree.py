"""Shared prefixes: the runs of a task form a tree of episodes, and each node is trained only once."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from remem import interrupts
from remem.episode import Episode
from remem.rl.node_keeper import NodeKeeper
from remem.rl.paths import ActionPath, Node, Task, TaskKey
from remem.rl.snapshot_cache import SnapshotCache
from remem.storage.tensorfile import Snapshot


class PrefixTrainer:
    """Trains nodes, each from its parent: the current episode if it is the parent, else the nearest cached ancestor."""

    def __init__(
        self, open_episode: Callable[[Task], Episode], cache: SnapshotCache, keeper: NodeKeeper | None = None
    ) -> None:
        self._open = open_episode
        self._cache, self._keeper = cache, keeper
        self._at: Node | None = None
        self._episode: Episode | None = None
        self.trained = 0  # phases, including repeated ones

    def train(self, task: Task, path: ActionPath) -> dict[ActionPath, float]:
        """Returns the rewards of the path's last phase and of every ancestor that had to be trained."""
        start = self._restore_nearest(task, path)
        return {path[:depth]: self._advance(task, path[:depth]) for depth in range(start + 1, len(path) + 1)}

    def snapshot(self, task: Task, path: ActionPath) -> Snapshot:
        """Returns the snapshot after a path, and trains it if it is not cached."""
        found = self._cache.find((task.key, path))
        if found is None:
            self.train(task, path)
            assert self._episode is not None
            found = self._episode.snapshot()
        return found

    def _restore_nearest(self, task: Task, path: ActionPath) -> int:
        """Restores the deepest cached ancestor and returns its depth, or -1 for a new episode."""
        parent = path[:-1]
        if path and self._at == (task.key, parent):
            return len(parent)
        self._at, self._episode = None, self._open(task)
        for depth in range(len(path) - 1, -1, -1):
            snapshot = self._cache.find((task.key, path[:depth]))
            if snapshot is not None:
                self._episode.restore(snapshot)
                self._at = (task.key, path[:depth])
                return depth
        return -1

    def _advance(self, task: Task, path: ActionPath) -> float:
        """Trains and evaluates the last phase of the path: Algorithm 1, lines 12-19. Returns the reward."""
        if self._keeper is None:
            return self._train_node(task, path)
        self._keeper.enter((task.key, path))
        with interrupts.deferred():  # a signal stops training between two steps, where all can be saved
            reward = self._train_node(task, path)
            interrupts.stop_if_requested()
            return reward

    def _train_node(self, task: Task, path: ActionPath) -> float:
        episode, phase = self._episode, task.scenario.phases[len(path)]
        assert episode is not None
        self._at = None  # an interrupted phase leaves an episode that must not be used again
        result = episode.advance(phase, path[-1] if path else None)
        reward = result.accuracy if task.reward == "accuracy" else result.accuracy_cnn  # r_i, on validation samples
        self._at = (task.key, path)
        self.trained += 1
        if len(path) < task.length:  # a leaf has no children
            self._cache.put(self._at, episode.snapshot())
        return reward


TrainNodes = Callable[[Sequence[Node]], Iterator[tuple[Node, float]]]  # takes nodes, parents first; yields rewards


class RewardCache:
    """The rewards of all trained nodes, never evicted. `train_nodes` trains the missing ones."""

    def __init__(self, train_nodes: TrainNodes, known: Mapping[Node, float] | None = None) -> None:
        self._train_nodes = train_nodes
        self.known: dict[Node, float] = dict(known or {})

    def of(self, runs: Sequence[Node]) -> list[tuple[float, ...]]:
        """Returns the rewards of phases 0..N of every run, given as a task and a full path."""
        for node, reward in self._train_nodes(missing(runs, self.known)):
            self.known[node] = reward
        return [tuple(self.known[key, path[:depth]] for depth in range(len(path) + 1)) for key, path in runs]


def missing(runs: Iterable[Node], known: Mapping[Node, float]) -> list[Node]:
    """Returns the unknown nodes, each once, by task and depth first, so that few snapshots are restored."""
    paths: dict[TaskKey, set[ActionPath]] = {}
    for key, path in runs:
        prefixes = (path[:depth] for depth in range(len(path) + 1))
        paths.setdefault(key, set()).update(prefix for prefix in prefixes if (key, prefix) not in known)
    return [(key, path) for key, wanted in paths.items() for path in sorted(wanted)]


def one_by_one(train: Callable[[TaskKey, ActionPath], Mapping[ActionPath, float]]) -> TrainNodes:
    """Trains nodes one by one in this process. `train` also returns the ancestors that it had to train."""

    def train_nodes(nodes: Sequence[Node]) -> Iterator[tuple[Node, float]]:
        done: set[Node] = set()
        for key, path in nodes:
            if (key, path) not in done:
                for trained, reward in train(key, path).items():
                    done.add((key, trained))
                    yield (key, trained), reward

    return train_nodes
