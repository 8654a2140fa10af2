"""Trains nodes of the prefix tree on frozen features, level by level: all nodes of a level together."""

from collections.abc import Callable, Iterator, Sequence

from remem.recent import Recent
from remem.rl.batched.runs import FeatureTask, RunState, train_phase
from remem.rl.paths import Node, TaskKey

STATES_BYTES = 2**28  # states that later nodes continue from; evicted ones are trained again


class BatchedNodes:
    """Trains each node from its parent's state, which is kept or, if it was evicted, trained again."""

    def __init__(self, task: Callable[[TaskKey], FeatureTask], limit_bytes: int = STATES_BYTES) -> None:
        self._task = task
        self._states = Recent[Node, RunState](limit_bytes, lambda state: state.nbytes)
        self.trained = 0  # phases, including repeated ones

    def train(self, nodes: Sequence[Node]) -> Iterator[tuple[Node, float]]:
        """Yields the rewards of all nodes, and of ancestors that had to be trained again."""
        levels, known = self._levels(nodes)
        found: dict[Node, RunState] = {}
        for depth, level in enumerate(levels):
            before, found = known | found, {}
            for members in self._alike(depth, level).values():
                runs = [
                    (self._task(key), before[key, path[:-1]] if path else None, path[-1] if path else None)
                    for key, path in members
                ]
                for node, (state, reward) in zip(members, train_phase(depth, runs), strict=True):
                    if not self._is_leaf(node):
                        found[node] = state
                    self.trained += 1
                    yield node, reward
            for node, state in found.items():
                self._states.put(node, state)

    def _levels(self, nodes: Sequence[Node]) -> tuple[list[list[Node]], dict[Node, RunState]]:
        """The nodes by depth with all ancestors whose states are missing, and the states that they start from."""
        wanted, known = dict.fromkeys(nodes), dict[Node, RunState]()
        for key, path in nodes:
            for depth in range(len(path) - 1, -1, -1):
                ancestor = key, path[:depth]
                if (state := self._states.find(ancestor)) is not None:
                    known[ancestor] = state
                if ancestor in wanted or ancestor in known:
                    break
                wanted[ancestor] = None
        deepest = max((len(path) for _, path in wanted), default=-1)
        return [[node for node in wanted if len(node[1]) == depth] for depth in range(deepest + 1)], known

    def _alike(self, depth: int, level: Sequence[Node]) -> dict[tuple[object, ...], list[Node]]:
        """Nodes whose phases have equal sizes; those of a task one after another."""
        groups: dict[tuple[object, ...], list[Node]] = {}
        for node in sorted(level, key=lambda node: (node[0].number, node[0].run)):
            groups.setdefault(self._task(node[0]).signature(depth), []).append(node)
        return groups

    def _is_leaf(self, node: Node) -> bool:
        """Whether it has no children, so that its state is of no use."""
        key, path = node
        return len(path) == self._task(key).task.length
