"""Jobs of many nodes on frozen features: which nodes go together, and that workers give the same rewards."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

import pytest

from parallel.fakes import FakeBackend, FakeWorker
from remem.parallel.backend import Message
from remem.parallel.jobs import Job, find_handler
from remem.parallel.pool import WorkerPool, open_pool
from remem.rl import jobs
from remem.rl.config import compose_learning
from remem.rl.learn import learn_in_folder
from remem.rl.paths import Node, TaskKey
from remem.rl.pooled_training import MANY, NODES, PooledTraining
from remem.rl.prefix_tree import missing
from remem.rl.pseudo_tasks import PseudoTasks
from remem.rl.snapshot_cache import MemorySnapshotCache
from rl_factories import assert_same_learning, learn_config, make_path

KEYS = [TaskKey(number, "features") for number in (0, 1)]


def tree(key: TaskKey, shares: Iterable[int], splits: Iterable[int]) -> list[Node]:
    """All nodes of runs of two phases with these first shares, and these splits in the second phase."""
    runs = [(key, make_path((share, 5), (share, split))) for share in shares for split in splits]
    return missing(runs, {})


def batch_jobs(nodes: list[Node]) -> list[Job]:
    training = PooledTraining(cast(WorkerPool, None), compose_learning({}), Path("snapshots"), lambda key: True)
    return list(training._batch_jobs(nodes))


def test_a_job_has_all_nodes_of_a_task() -> None:
    found = batch_jobs(tree(KEYS[0], (5, 6), (4, 5)) + tree(KEYS[1], (7,), (5,)))
    assert [(job.kind, len(job.payload["paths"]), job.after) for job in found] == [(NODES, 7, ()), (NODES, 3, ())]
    assert found[0].payload["paths"][:3] == [[], [(5, 5)], [(5, 5), (5, 4)]]
    assert len({job.name for job in found}) == 2


def test_many_nodes_are_divided_by_their_first_action_and_wait_for_phase_0() -> None:
    nodes = tree(KEYS[0], range(1, 10), range(1, 10))
    extra = [(KEYS[0], make_path((9, 5), (8, split))) for split in range(1, 10)]
    extra += [(KEYS[0], make_path((8, 5), (7, split))) for split in range(1, 10)]
    assert len(nodes + extra) > MANY
    found = batch_jobs(nodes + extra)
    assert [len(job.payload["paths"]) for job in found] == [1, *[10] * 7, 19, 19]
    assert found[0].payload["paths"] == [[]]
    assert [job.after for job in found] == [(), *[(found[0].name,)] * 9]


def test_rewards_of_a_job_are_those_of_its_task() -> None:
    def answer(worker: FakeWorker, job: Job) -> Iterable[Message | None]:
        rewards: list[Any] = [[path, 0.1 * len(path)] for path in job.payload["paths"]]
        return [{"done": {"rewards": rewards, "trained": len(rewards)}}]

    nodes = tree(KEYS[0], (5,), (4,)) + tree(KEYS[1], (6,), (5,))
    with WorkerPool(FakeBackend(2, answer)) as pool:
        training = PooledTraining(pool, compose_learning({}), Path("snapshots"), lambda key: True)
        found = dict(training.train_nodes(nodes))
    assert found == {node: 0.1 * len(node[1]) for node in nodes}
    assert training.trained == len(nodes)


def test_a_job_gives_the_rewards_of_this_process(npz: Path, tmp_path: Path) -> None:
    config = learn_config(npz, fidelity="features")
    nodes = tree(KEYS[0], (6,), (4, 5))
    expected = dict(PseudoTasks(config, MemorySnapshotCache(10**8)).train_nodes(nodes))
    paths = [[action.key() for action in path] for _, path in nodes]
    task = {"number": 0, "fidelity": "features"}
    payload = {
        "config": config.model_dump_json(),
        "snapshots": str(tmp_path),
        "shared": None,
        "task": task,
        "paths": paths,
    }
    answer = find_handler(NODES)(payload, lambda event: None)
    jobs._tasks.cache_clear()
    assert answer["rewards"] == [(list(path), expected[node]) for path, node in zip(paths, nodes, strict=True)]
    assert answer["trained"] == len(nodes) + 1  # and phase 0 of the whole task


@pytest.mark.parametrize("learn", [{}, {"search": "exhaustive", "levels": 1}], ids=["reinforce", "exhaustive"])
def test_two_workers_learn_what_one_process_learns(npz: Path, tmp_path: Path, learn: dict[str, Any]) -> None:
    config = learn_config(npz, fidelity="features", **learn)
    alone, pooled = tmp_path / "alone", tmp_path / "pooled"
    learn_in_folder(config, alone, lambda event: None)
    with open_pool(2, None) as pool:
        learn_in_folder(config, pooled, lambda event: None, pool)
    if learn:
        assert (pooled / "policy.json").read_bytes() == (alone / "policy.json").read_bytes()
    else:
        assert_same_learning(pooled, alone)
