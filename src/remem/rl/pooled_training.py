"""Trains nodes of the prefix tree in a worker pool: each node once, children after their parents."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from remem.action import Action
from remem.parallel.jobs import Job
from remem.parallel.pool import WorkerPool
from remem.rl.config import LearnConfig
from remem.rl.paths import Node

NODE = "remem.rl.jobs:node"  # the job kind


class PooledTraining:
    """Trains nodes in a pool. Workers share snapshots through a folder."""

    def __init__(self, pool: WorkerPool, config: LearnConfig, snapshots: Path) -> None:
        self._pool = pool
        self._folder = snapshots.absolute()
        self._payload = {"config": config.model_dump_json(), "snapshots": str(self._folder)}
        self._threads = config.target.train.threads
        self.trained = 0  # phases

    def train_nodes(self, nodes: Sequence[Node]) -> Iterator[tuple[Node, float]]:
        """Yields rewards as they arrive. A node waits for its nearest ancestor, from whose snapshot it starts."""
        by_name = {name_of(node): node for node in nodes}
        for job, answer in self._pool.run([self._job(node, by_name) for node in nodes]):
            self.trained += answer["trained"]
            for path, reward in answer["rewards"]:
                yield (by_name[job.name][0], tuple(map(Action.from_key, path))), reward

    def _job(self, node: Node, by_name: Mapping[str, Node]) -> Job:
        key, path = node
        actions = [action.key() for action in path]
        ancestors = (name_of((key, path[:depth])) for depth in range(len(path) - 1, -1, -1))
        after = tuple(name for name in ancestors if name in by_name)[:1]
        payload = {**self._payload, "task": asdict(key), "path": actions}
        return Job(name_of(node), NODE, payload, after, (key, *actions), self._threads, self._folder)


def name_of(node: Node) -> str:
    """Returns the name of a node in messages."""
    key, path = node
    run = f" {key.run}" if key.run else ""
    return f"task {key.number} {key.fidelity}{run}, path {[action.key() for action in path]}"
