"""jobs.py: a node as a job, in this process."""

from dataclasses import asdict
from pathlib import Path

from remem.events import ignore
from remem.parallel.jobs import find_handler
from remem.rl import jobs
from remem.rl.paths import TaskKey
from remem.rl.pooled_training import NODE
from remem.rl.pseudo_tasks import PseudoTasks
from remem.rl.snapshot_cache import MemorySnapshotCache
from rl_factories import learn_config, make_path


def test_a_job_trains_a_node_and_the_ancestors_that_it_needs(npz: Path, tmp_path: Path) -> None:
    """A second job for the same node starts from the snapshot of its parent."""
    config, key, path = learn_config(npz), TaskKey(0, "full"), make_path((6, 5))
    expected = PseudoTasks(config, MemorySnapshotCache(10**8)).train(key, path)
    payload = {
        "config": config.model_dump_json(),
        "snapshots": str(tmp_path),
        "shared": None,
        "task": asdict(key),
        "path": [(6, 5)],
    }
    first, second = (find_handler(NODE)(payload, ignore) for _ in range(2))
    jobs._tasks.cache_clear()
    assert first == {"rewards": [([], expected[()]), ([(6, 5)], expected[path])], "trained": 2}
    assert second == {"rewards": [([(6, 5)], expected[path])], "trained": 1}
