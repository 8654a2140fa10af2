"""Nodes of the prefix tree as jobs, with fake workers: every node is trained once, after its parent."""

from collections.abc import Iterable
from pathlib import Path

from parallel.fakes import FakeBackend, FakeWorker
from remem.action import Action
from remem.parallel.backend import Message
from remem.parallel.jobs import Job
from remem.parallel.pool import WorkerPool
from remem.rl.config import compose_learning
from remem.rl.paths import Node, TaskKey
from remem.rl.pooled_training import NODE, PooledTraining
from remem.rl.prefix_tree import missing

TASKS = [TaskKey(number, "short") for number in range(3)]
PATHS = [((6, 5), (6, 5)), ((6, 5), (7, 5)), ((8, 2), (8, 5))]
RUNS: list[Node] = [(task, tuple(map(Action.from_key, path))) for task in TASKS for path in PATHS]


def reward(path: Iterable[Iterable[int]]) -> float:
    return sum(map(sum, path)) / 1000


def trained(worker: FakeWorker, job: Job) -> Iterable[Message | None]:
    assert job.kind == NODE
    path = job.payload["path"]
    return [{"done": {"rewards": [[path, reward(path)]], "trained": 1}}]


def test_every_node_is_trained_once_and_after_its_parent(tmp_path: Path) -> None:
    backend, known = FakeBackend(2, trained), dict[Node, float]()
    with WorkerPool(backend) as pool:
        training = PooledTraining(pool, compose_learning({}), tmp_path, lambda key: False)
        for runs in (RUNS[:6], RUNS):  # as in two epochs
            wanted = missing(runs, known)
            for node, value in training.train_nodes(wanted):
                key, path = node
                assert not path or (key, path[:-1]) in known
                known[node] = value
    assert known == {(key, path): reward(action.key() for action in path) for key, path in missing(RUNS, {})}
    assert training.trained == len(backend.submitted) == len(set(backend.submitted)) == len(known) == 18
