"""The job kinds of policy training: one node of a prefix tree, or many nodes on frozen features."""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from remem.action import Action
from remem.events import Emit
from remem.parallel.jobs import job_kind
from remem.rl.config import LearnConfig
from remem.rl.paths import TaskKey
from remem.rl.pseudo_tasks import PseudoTasks
from remem.rl.shared_phase0 import SharedPhase0
from remem.rl.snapshot_cache import DiskSnapshotCache
from remem.types import Json


@job_kind("node")
def train_node(payload: Mapping[str, Any], emit: Emit) -> Json:
    """Trains one node, and any ancestors that it needs."""
    tasks = _tasks(payload["config"], payload["snapshots"], payload["shared"])
    before = tasks.trained
    path = tuple(map(Action.from_key, payload["path"]))
    rewards = tasks.train(TaskKey(**payload["task"]), path)
    found = [([action.key() for action in trained], reward) for trained, reward in rewards.items()]
    return {"rewards": found, "trained": tasks.trained - before}


@job_kind("nodes")
def train_nodes(payload: Mapping[str, Any], emit: Emit) -> Json:
    """Trains nodes of one task, parents first, and any ancestors that they need."""
    tasks = _tasks(payload["config"], payload["snapshots"], payload["shared"])
    before, key = tasks.trained, TaskKey(**payload["task"])
    nodes = [(key, tuple(map(Action.from_key, path))) for path in payload["paths"]]
    found = [([action.key() for action in path], reward) for (_, path), reward in tasks.train_nodes(nodes)]
    return {"rewards": found, "trained": tasks.trained - before}


@lru_cache(maxsize=1)
def _tasks(config: str, snapshots: str, shared: str | None) -> PseudoTasks:
    """Returns the data and tasks of one policy training, cached between jobs."""
    learning = LearnConfig.model_validate_json(config)
    cache = DiskSnapshotCache(Path(snapshots), int(learning.learn.disk_gigabytes * 1e9))
    return PseudoTasks(learning, cache, None if shared is None else SharedPhase0(Path(shared)))
