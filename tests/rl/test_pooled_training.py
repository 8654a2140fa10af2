"""pooled_training.py: what a job is given, and which other job it waits for."""

from pathlib import Path
from typing import cast

import pytest

from remem.parallel.pool import WorkerPool
from remem.rl.config import compose_learning
from remem.rl.paths import ActionPath, Node, TaskKey
from remem.rl.pooled_training import NODE, PooledTraining, name_of
from rl_factories import make_path

KEY = TaskKey(2, "short", run="0.1.2")
PATH = make_path((6, 5), (7, 5), (8, 2))


def test_the_name_of_a_node() -> None:
    assert name_of((KEY, PATH[:2])) == "task 2 short 0.1.2, path [(6, 5), (7, 5)]"
    assert name_of((TaskKey(0, "full"), ())) == "task 0 full, path []"


@pytest.mark.parametrize(
    ("wanted", "after"),
    [
        ([(), PATH[:1], PATH[:2]], [PATH[:2]]),  # the parent
        ([(), PATH[:1]], [PATH[:1]]),
        ([()], [()]),
        ([], []),
        ([make_path((5, 5))], []),  # not on the way
    ],
)
def test_a_job_waits_for_its_nearest_ancestor(
    wanted: list[ActionPath], after: list[ActionPath], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = compose_learning({"train": {"threads": 3}})
    training = PooledTraining(cast(WorkerPool, None), config, Path("snapshots"), lambda key: False)
    nodes: list[Node] = [(KEY, path) for path in [*wanted, PATH]]
    job = training._job((KEY, PATH), {name_of(node) for node in nodes})
    assert (job.name, job.kind) == (name_of((KEY, PATH)), NODE)
    assert job.after == tuple(name_of((KEY, path)) for path in after)
    assert job.payload == {
        "config": config.model_dump_json(),
        "snapshots": str(tmp_path / "snapshots"),
        "shared": None,
        "task": {"number": 2, "fidelity": "short", "run": "0.1.2", "fresh": False},
        "path": [(6, 5), (7, 5), (8, 2)],
    }
    assert job.threads == 3
