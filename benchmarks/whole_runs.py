"""Whole runs: peak memory, the cost of applying the policy, and how cheap runs on frozen features are."""

import tempfile
import time
from pathlib import Path

from benchmarks.shared_prefixes import counts
from benchmarks.table import Row
from benchmarks.timing import child, shown
from remem.action import Action
from remem.rl.config import LearnConfig, compose_learning
from remem.rl.paths import ActionPath, TaskKey
from remem.rl.pseudo_tasks import PseudoTasks
from remem.rl.snapshot_cache import DiskSnapshotCache

SETTINGS = {
    "data": {"name": "cifar100"},
    "scenario": {"order": "lucir", "phases": 5},
    "memory": {"budget": 7000},
    "method": {"name": "icarl"},
    "train": {"epochs": 1, "epochs_later": 15},  # as the preset, but for phase 0, which is not measured
}
PATH: ActionPath = (Action(6, 5),) * 5  # old share 0.6 in all five phases


def short_run_rows() -> list[Row]:
    found = child("benchmarks.short_run")
    return [
        Row(
            "peak memory of a CIFAR-100 run",
            found["peak"] / 1e9,
            "GB",
            "under 1.5 GB",
            "resident, preset small, icarl, N = 5",
        ),
        Row(
            "applying the policy, share of a run",
            100 * found["policy"] / found["all"],
            "%",
            "under 0.1%",
            f"{shown(found['policy'])} of {shown(found['all'])}, a run of one epoch in every phase",
        ),
    ]


def features_row(config: LearnConfig) -> Row:
    """CPU seconds of phases 1..N of one path through one pseudo task; phase 0 and its features are shared by all."""
    took = {}
    with tempfile.TemporaryDirectory() as folder:
        tasks = PseudoTasks(config, DiskSnapshotCache(Path(folder), 10**9))
        for fidelity in ("full", "features"):
            key = TaskKey(0, fidelity)
            tasks.train(key, ())
            started = time.process_time()
            for depth in range(1, len(PATH) + 1):
                tasks.train(key, PATH[:depth])
            took[fidelity] = time.process_time() - started
    ratio = took["full"] / took["features"]
    detail = f"{shown(took['features'])} against {shown(took['full'])} of CPU time, phases 1 to 5"
    return Row("a `features` run, cheaper than a full one", ratio, "x", "at least 100x", detail)


def prefix_rows() -> list[Row]:
    """Phases that shared prefixes leave to be trained; counted, since what a phase costs is not the question."""
    return [
        Row(
            f"phases trained, {row.name}",
            row.ratio,
            "x",
            "at least 1.2x" if row.name.startswith("uniform") else "",
            f"{row.shared} instead of {row.alone}; K = 2, Z = 8, N = 5, pool 4, 10 epochs",
        )
        for row in counts()
    ]


def rows() -> list[Row]:
    return [*short_run_rows(), features_row(compose_learning(SETTINGS)), *prefix_rows()]
