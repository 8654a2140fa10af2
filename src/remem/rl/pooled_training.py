"""Trains nodes of the prefix tree in a worker pool: each node once, children after their parents.

Nodes on frozen features are trained together: a job has all nodes of a task, or of one first action if there are many.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from remem.action import Action
from remem.parallel.jobs import Job
from remem.parallel.pool import WorkerPool
from remem.rl.config import LearnConfig
from remem.rl.paths import Node, TaskKey

NODE, NODES = "remem.rl.jobs:node", "remem.rl.jobs:nodes"  # the job kinds
MANY = 100  # nodes of a task on frozen features that are worth more than one job


class PooledTraining:
    """Trains nodes in a pool; `batches` says of which tasks together. Workers share snapshots through a folder."""

    def __init__(
        self,
        pool: WorkerPool,
        config: LearnConfig,
        snapshots: Path,
        batches: Callable[[TaskKey], bool],
        shared: Path | None = None,
    ) -> None:
        self._pool, self._batches = pool, batches
        self._folder = snapshots.absolute()
        self._payload = {
            "config": config.model_dump_json(),
            "snapshots": str(self._folder),
            "shared": None if shared is None else str(shared.absolute()),
        }
        self._threads = config.target.train.threads
        self.trained = 0  # phases

    def train_nodes(self, nodes: Sequence[Node]) -> Iterator[tuple[Node, float]]:
        """Yields rewards as they arrive."""
        alone = [node for node in nodes if not self._batches(node[0])]
        names = {name_of(node) for node in alone}
        jobs = [self._job(node, names) for node in alone]
        jobs += self._batch_jobs([node for node in nodes if self._batches(node[0])])
        for job, answer in self._pool.run(jobs):
            self.trained += answer["trained"]
            key = TaskKey(**job.payload["task"])
            for path, reward in answer["rewards"]:
                yield (key, tuple(map(Action.from_key, path))), reward

    def _job(self, node: Node, names: set[str]) -> Job:
        """One node. It waits for its nearest ancestor among the jobs, from whose snapshot it starts."""
        key, path = node
        actions = [action.key() for action in path]
        ancestors = (name_of((key, path[:depth])) for depth in range(len(path) - 1, -1, -1))
        after = tuple(name for name in ancestors if name in names)[:1]
        payload = {**self._payload, "task": asdict(key), "path": actions}
        return Job(name_of(node), NODE, payload, after, (key, *actions), self._threads, self._folder)

    def _batch_jobs(self, nodes: Sequence[Node]) -> Iterator[Job]:
        """Jobs of many nodes. The first one of a task trains its phase 0, which the others need."""
        by_task: dict[TaskKey, list[Node]] = {}
        for node in nodes:
            by_task.setdefault(node[0], []).append(node)
        for key, own in by_task.items():
            split = len(own) > MANY
            parts: dict[Any, list[Node]] = {}
            for node in own:
                parts.setdefault(node[1][:1] if split else (), []).append(node)
            first: tuple[str, ...] = ()
            for part in parts.values():
                job = self._nodes_job(key, part, first)
                first = first or (job.name,)
                yield job

    def _nodes_job(self, key: TaskKey, nodes: Sequence[Node], after: tuple[str, ...]) -> Job:
        paths = [[action.key() for action in path] for _, path in nodes]
        name = f"{name_of(nodes[0])} and {len(nodes) - 1} more"
        payload: Mapping[str, Any] = {**self._payload, "task": asdict(key), "paths": paths}
        return Job(name, NODES, payload, after, (key,), self._threads, self._folder)


def name_of(node: Node) -> str:
    """Returns the name of a node in messages."""
    key, path = node
    run = f" {key.run}" if key.run else ""
    return f"task {key.number} {key.fidelity}{run}, path {[action.key() for action in path]}"
