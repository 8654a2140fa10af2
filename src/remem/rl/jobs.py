"""Nodes of the prefix tree as jobs of a worker pool: no node goes to two workers, and a child follows its parent."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any

from remem.action import Action
from remem.events import Event
from remem.parallel.jobs import Job, job_kind
from remem.parallel.pool import WorkerPool
from remem.rl.config import LearnConfig
from remem.rl.paths import Node, TaskKey
from remem.rl.pseudo_tasks import PseudoTasks
from remem.rl.snapshot_cache import DiskSnapshotCache

NODE = "remem.rl.jobs:node"


class PooledTraining:
    """Trains nodes in a pool; the snapshots that they start from are in a folder that all workers see."""

    def __init__(self, pool: WorkerPool, config: LearnConfig, snapshots: Path) -> None:
        self._pool = pool
        self._folder = snapshots.absolute()
        self._payload = {"config": config.model_dump_json(), "snapshots": str(self._folder)}
        self._threads = config.target.train.threads
        self.trained = 0  # phases

    def train_nodes(self, nodes: Sequence[Node]) -> Iterator[tuple[Node, float]]:
        """Rewards as they come in; a node waits for its nearest ancestor, whose snapshot it starts from."""
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
    """A node in messages."""
    key, path = node
    run = f" {key.run}" if key.run else ""
    return f"task {key.number} {key.fidelity}{run}, path {[action.key() for action in path]}"


@job_kind("node")
def train_node(payload: Mapping[str, Any], emit: Callable[[Event], None]) -> dict[str, Any]:
    """Trains one node in a worker, and whatever ancestors it needs."""
    tasks = _tasks(payload["config"], payload["snapshots"])
    before = tasks.trained
    path = tuple(map(Action.from_key, payload["path"]))
    rewards = tasks.train(TaskKey(**payload["task"]), path)
    found = [([action.key() for action in trained], reward) for trained, reward in rewards.items()]
    return {"rewards": found, "trained": tasks.trained - before}


@lru_cache(maxsize=1)
def _tasks(config: str, snapshots: str) -> PseudoTasks:
    """Data and tasks of one learning, kept from job to job."""
    learning = LearnConfig.model_validate_json(config)
    return PseudoTasks(learning, DiskSnapshotCache(Path(snapshots), int(learning.learn.disk_gigabytes * 1e9)))
