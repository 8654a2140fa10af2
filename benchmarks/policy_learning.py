"""What learning a policy costs on CIFAR-100, against one target run and against one run at a time.

CPU seconds of one thread. To stay within minutes, one phase 0 of the pool is measured for all (they are alike), the
first ten epochs of the search for all epochs (later ones train fewer phases), and phases 0 and 1 of the target for all
phases (the budget is the same in each).
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.table import Row
from benchmarks.timing import CpuClock, child, shown
from remem.events import ignore
from remem.methods import podnet
from remem.rl.config import LearnConfig, compose_learning
from remem.rl.paths import TaskKey
from remem.rl.prefix_tree import RewardCache
from remem.rl.pseudo_tasks import PseudoTasks
from remem.rl.snapshot_cache import MemorySnapshotCache
from remem.rl.trainer import PolicyTrainer
from remem.runs.build import open_episode, prepare
from remem.runs.config import RunConfig
from remem.runs.devices import limit_threads, open_fabric
from remem.runs.heap import keep_freed_memory

ONCE = 2  # epochs in which each of the 4 tasks is used for the first time
MEASURED = 10  # epochs; the rest is counted like the last four of them, and trains fewer phases
MB = 2**20
LITTLE = {"epochs": 1, "features_steps": 4}  # enough to measure memory


def config(method: str, phases: int, **learn: Any) -> LearnConfig:
    tree = {"data": {"name": "cifar100"}, "scenario": {"phases": phases}, "method": {"name": method}}
    return compose_learning(tree, {"learn": learn})


def target_seconds(target: RunConfig) -> float:
    """One target run under `static`."""
    prepared = prepare(target)
    episode, clock = open_episode(prepared, open_fabric(prepared.config.train), ignore), CpuClock()
    first, second = prepared.scenario.phases[:2]
    with clock("first"):
        episode.advance(first, None)
    with clock("later"):
        episode.advance(second, prepared.policy.act(episode.observe(second)))
    return clock.seconds["first"] + (len(prepared.scenario.phases) - 1) * clock.seconds["later"]


def learning_seconds(config: LearnConfig) -> dict[str, float]:
    """The pool's phases 0 with their features, and the search."""
    tasks, clock, learn = PseudoTasks(config, MemorySnapshotCache(10**9)), CpuClock(), config.learn
    with clock("pool"):
        tasks.task(TaskKey(0, "features"))
    # The other tasks get their features from an untrained network: the heads cost the same.
    quick = config.model_copy(update={"learn": learn.model_copy(update={"phase0_share": 1e-9})})
    cheap = PseudoTasks(quick, MemorySnapshotCache(10**9))
    for number in range(learn.pool):
        cheap.task(TaskKey(number, "features"))
    trainer = PolicyTrainer(quick, cheap, RewardCache(cheap.train_nodes))
    epochs = trainer.train()
    with clock("once"):
        for _ in range(ONCE):
            next(epochs)
    with clock("early"):
        for _ in range(ONCE, MEASURED - 4):
            next(epochs)
    with clock("late"):
        for _ in range(4):
            next(epochs)
    search = clock.seconds["once"] + clock.seconds["early"] + (learn.epochs - MEASURED + 4) / 4 * clock.seconds["late"]
    return {"pool": learn.pool * clock.seconds["pool"], "search": search}


def one_by_one_seconds(method: str, phases: int) -> tuple[float, float]:
    """The search part of the first epoch: all runs together, and one run at a time, as before. CPU seconds of each."""
    import sklearn.cluster  # noqa: F401  (k-means loads it on first use, which is no part of the search)

    took = []
    for batched in (True, False):
        settings = config(method, phases, batched=batched, phase0_share=1e-9, epochs=1)
        tasks = PseudoTasks(settings, MemorySnapshotCache(10**9))
        rewards = RewardCache(tasks.train_nodes)
        roots = [(TaskKey(number, "features"), ()) for number in settings.learn.tasks_of(0)]
        rewards.of(roots)  # both sides start from trained heads of phase 0
        podnet.forget_centres()  # and compute their own k-means centres
        started = time.process_time()
        next(iter(PolicyTrainer(settings, tasks, rewards).train()))
        took.append(time.process_time() - started)
    return took[0], took[1]


def cost_row(method: str, phases: int) -> Row:
    found = child("benchmarks.policy_learning", "cost", method, str(phases))
    learning = found["pool"] + found["search"]
    parts = f"{shown(found['pool'])} for the pool's phases 0, {shown(found['search'])} for the search"
    return Row(
        f"learning a policy, in target runs, {method}, N = {phases}",
        learning / found["target"],
        "runs",
        "under 1 run",
        f"{parts}; the target run takes {shown(found['target'])}",
    )


def search_row(method: str, phases: int) -> Row:
    found = child("benchmarks.policy_learning", "search", method, str(phases))
    detail = f"{shown(found['together'])} against {shown(found['alone'])} of one run at a time, first epoch"
    what = f"search, all runs of an epoch at once, {method}, N = {phases}"
    return Row(what, found["alone"] / found["together"], "x", "at least 8x", detail)


def exhaustive_row() -> Row:
    """The command itself, with two processes, phases 0 included."""
    with tempfile.TemporaryDirectory() as folder:
        flags = ["--dataset", "cifar100", "--phases", "5", "--method", "lucir", "--search", "exhaustive"]
        command = [sys.executable, "-m", "remem", "learn-policy", *flags, "--levels", "1", "--workers", "2", "--quiet"]
        started = time.perf_counter()
        subprocess.run([*command, "--out", str(Path(folder) / "out")], check=True, stdout=subprocess.DEVNULL)
        minutes = (time.perf_counter() - started) / 60
    return Row("all paths of level 1, lucir, N = 5, 4 tasks", minutes, "min", "under 5 min", "2 processes, wall clock")


def memory_rows() -> list[Row]:
    """Peak memory that batched runs add to that of their features: CIFAR-100 with N = 25, and 1000 classes."""
    rows = []
    for classes, per_class, width, phases, method in ((100, 500, 64, 25, "pod-aanets"), (1000, 20, 512, 10, "podnet")):
        arguments = [str(value) for value in (classes, per_class, width, phases, method)]
        found = child("benchmarks.policy_learning", "memory", *arguments)
        detail = f"{found['runs']} runs, features of {found['features']:.0f} MB not counted"
        what = f"memory of batched runs, {method}, {classes} classes, N = {phases}"
        rows.append(Row(what, found["added"], "MB", "under 1024 MB", detail))
    return rows


def batched_memory(classes: int, per_class: int, width: int, phases: int, method: str) -> dict[str, float]:
    """Runs of an untrained policy on made-up features."""
    import numpy as np

    with tempfile.TemporaryDirectory() as folder:
        rng = np.random.default_rng(0)
        labels = np.repeat(np.arange(classes), per_class)
        centres = rng.normal(size=(classes, width)).astype(np.float32)
        features = centres[labels] + rng.normal(size=(len(labels), width)).astype(np.float32)
        path = Path(folder) / "features.npz"
        np.savez(path, x_train=features, y_train=labels, x_test=features[:classes], y_test=np.arange(classes))
        tree: dict[str, Any] = {
            "data": {"name": f"npz:{path}"},
            "scenario": {"phases": phases},
            "method": {"name": method},
            "net": {"name": "identity"},
            "train": {"epochs": 1, "epochs_later": 1},
            "finetune": {"epochs": 1},
        }
        tasks = PseudoTasks(compose_learning(tree, {"learn": LITTLE}), MemorySnapshotCache(10**9))
        trainer_config = compose_learning(tree, {"learn": LITTLE})
        keys = [TaskKey(number, "features") for number in trainer_config.learn.tasks_of(0)]
        for key in keys:
            tasks._feature_task(key)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for _ in PolicyTrainer(trainer_config, tasks, RewardCache(tasks.train_nodes)).train():
            pass
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    runs = trainer_config.learn.tasks * trainer_config.learn.runs
    return {"added": (after - before) / 1024, "features": 2 * features.nbytes / MB, "runs": runs}


def cost_rows() -> list[Row]:
    return [cost_row(method, phases) for method in ("lucir", "pod-aanets") for phases in (5, 25)]


def search_rows() -> list[Row]:
    return [search_row("lucir", 5), search_row("pod-aanets", 5)]


def exhaustive_rows() -> list[Row]:
    return [exhaustive_row()]


def main() -> None:
    limit_threads(1)
    keep_freed_memory()
    kind, *arguments = sys.argv[1:]
    if kind == "memory":
        classes, per_class, width, phases, method = arguments
        found = batched_memory(int(classes), int(per_class), int(width), int(phases), method)
    elif kind == "search":
        together, alone = one_by_one_seconds(arguments[0], int(arguments[1]))
        found = {"together": together, "alone": alone}
    else:
        settings = config(arguments[0], int(arguments[1]))
        found = {**learning_seconds(settings), "target": target_seconds(settings.target)}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
