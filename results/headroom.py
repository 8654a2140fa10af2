"""How much a policy that adapts to its task could gain over one path for all: `python results/headroom.py --out FILE`.

The paper's state follows from the actions alone, so its policies follow one path through every task of a size. Tasks
of several kinds are made from the real CIFAR-100 (other methods, budgets, long tails) at preset `tiny`, N = 3, and
every path of level 1 is run on each of them at fidelity `features`. A path is chosen on one half of a task's
validation samples and evaluated on the other half, both ways, so that luck in choosing does not count. No policy with
feedback can do better on average than the best path of each task by itself.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

from remem.evaluation.metrics import mean_interval
from remem.policies.path import FixedPath
from remem.rl.batched.nodes import BatchedNodes
from remem.rl.batched.runs import FeatureTask
from remem.rl.config import compose_learning
from remem.rl.paths import ActionPath, Node, Task, TaskKey, follow_path
from remem.rl.prefix_tree import RewardCache
from remem.rl.pseudo_tasks import PseudoTasks
from remem.rl.search import level1_paths
from remem.rl.snapshot_cache import MemorySnapshotCache
from remem.runs.devices import limit_threads

BASE: dict[str, Any] = {"preset": "tiny", "data": {"name": "cifar100"}, "method": {"name": "lucir"}}
KINDS: dict[str, dict[str, Any]] = {
    "lucir": {},
    "lwf": {"method": {"name": "lwf"}},
    "podnet": {"method": {"name": "podnet"}},
    "scarce": {"memory": {"budget": 2500}},
    "long tail": {"data": {"name": "cifar100", "imbalance": 20}},
}
TASKS = 2  # of every kind
HALVES = ("a", "b")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    limit_threads(1)
    for seed in options.seeds:
        found = json.loads(options.out.read_text()) if options.out.exists() else {}
        if str(seed) not in found:
            found[str(seed)] = measure(seed)
            options.out.write_text(json.dumps(found, separators=(",", ":")) + "\n")
    print(summary(json.loads(options.out.read_text())))


def measure(seed: int) -> dict[str, Any]:
    """Average accuracies in % by kind: of the path that is best for all tasks, for the kind, and for each task."""
    halves: dict[tuple[str, int, str], FeatureTask] = {}
    for kind, tree in KINDS.items():
        own = {"seed": seed, "scenario": {"order": f"seed:{seed}", "phases": 3}}
        tasks = PseudoTasks(compose_learning(BASE, tree, own), MemorySnapshotCache(10**9))
        for number in range(TASKS):
            whole = tasks._feature_task(TaskKey(number, "features"))
            for half in HALVES:
                halves[kind, number, half] = half_of(whole, tasks, half)
        print(seed, kind, "features", flush=True)
    paths = sorted({path for task in halves.values() for path in level1_paths(task.task)})
    values = {key: totals(task, paths) for key, task in halves.items()}
    return {kind: compare(kind, values, paths) for kind in KINDS}


def half_of(whole: FeatureTask, tasks: PseudoTasks, half: str) -> FeatureTask:
    """The same task, evaluated on every second validation sample."""
    start, task = HALVES.index(half), whole.task
    phases = tuple(
        replace(phase, eval_samples=phase.eval_samples.take(slice(start, None, 2))) for phase in task.scenario.phases
    )
    key = replace(task.key, run=half)
    return FeatureTask(
        replace(task, key=key, scenario=replace(task.scenario, phases=phases)), tasks._prepared[task.key]
    )


def totals(feature_task: FeatureTask, paths: Sequence[ActionPath]) -> list[float]:
    """Average accuracy in % of every path; an infeasible action becomes the nearest feasible one."""
    task: Task = feature_task.task
    nodes: list[Node] = [(task.key, follow_path(task, FixedPath(path).act)) for path in paths]
    rewards = RewardCache(BatchedNodes(lambda key: feature_task).train).of(nodes)
    return [100 * fmean(run) for run in rewards]


Values = Mapping[tuple[str, int, str], Sequence[float]]


def compare(kind: str, values: Values, paths: Sequence[ActionPath]) -> dict[str, float]:
    """Chooses on one half and evaluates on the other, both ways."""
    fixed = [place for place, path in enumerate(paths) if len({action.old_tenths for action in path}) == 1]
    everything = range(len(paths))
    found: dict[str, list[float]] = {"best for all": [], "best for the kind": [], "best for the task": [], "fixed": []}
    for choose, judge in (HALVES, HALVES[::-1]):
        of_half = {key: own for key, own in values.items() if key[2] == choose}
        of_kind = [own for key, own in of_half.items() if key[0] == kind]
        common, fitting = best(list(of_half.values()), everything), best(of_kind, everything)
        share = best(list(of_half.values()), fixed)
        for number in range(TASKS):
            judged = values[kind, number, judge]
            found["best for all"].append(judged[common])
            found["best for the kind"].append(judged[fitting])
            found["best for the task"].append(judged[best([of_half[kind, number, choose]], everything)])
            found["fixed"].append(judged[share])
    return {name: fmean(own) for name, own in found.items()}


def best(tasks: Sequence[Sequence[float]], places: Sequence[int]) -> int:
    """The place of the path with the highest mean over tasks."""
    return max(places, key=lambda place: fmean(task[place] for task in tasks))


def summary(found: Mapping[str, Any]) -> str:
    """Means over seeds, and differences to the path that is best for all tasks, paired by seed."""
    lines = [
        "| tasks | best path for all % | best fixed share | best for the kind | best for each task |",
        "| :-- | --: | --: | --: | --: |",
    ]
    for kind in [*KINDS, "all"]:
        seeds = [_mean(seed) if kind == "all" else seed[kind] for seed in found.values()]
        first = [seed["best for all"] for seed in seeds]
        names = ("fixed", "best for the kind", "best for the task")
        gains = [_interval([seed[name] - seed["best for all"] for seed in seeds]) for name in names]
        lines.append(f"| {kind} | {fmean(first):.2f} | {' | '.join(gains)} |")
    return "\n".join(lines)


def _mean(seed: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    return {name: fmean(own[name] for own in seed.values()) for name in next(iter(seed.values()))}


def _interval(values: Sequence[float]) -> str:
    mean, half = mean_interval(values)
    return f"{mean:+.2f}" + ("" if half is None else f" ± {half:.2f}")


if __name__ == "__main__":
    main()
