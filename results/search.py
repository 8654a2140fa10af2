"""How well searches find a path, and at what cost: `python results/search.py CONFIG --seeds 0 1 --out FILE.json`.

`--searches NAME...` runs some of them; what a seed already has is kept.

Every search sees the tasks of the pool only. What it finds is also run on tasks that no search has seen. All searches
of a seed share one reward cache, so phases are counted by search, not trained twice.
"""

import argparse
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from remem.evaluation.metrics import mean_interval
from remem.policies.fixed import Fixed
from remem.policies.policy import Policy
from remem.rl.config import LearnConfig, compose_learning
from remem.rl.oracles import compare_fixed
from remem.rl.paths import Node, TaskKey, follow_path
from remem.rl.prefix_tree import RewardCache
from remem.rl.pseudo_tasks import PseudoTasks
from remem.rl.search import PathSearch
from remem.rl.snapshot_cache import MemorySnapshotCache
from remem.rl.trainer import PolicyTrainer
from remem.runs.devices import limit_threads
from remem.runs.presets import read_toml
from remem.runs.trees import merged

HELD_OUT = 2  # tasks after those of the pool
SEARCHES: dict[str, dict[str, Any]] = {
    "reinforce, 100 epochs, no entropy bonus": {"epochs": 100, "entropy": 0.0},
    "reinforce": {},
    "random": {"search": "random"},
    "tpe": {"search": "tpe"},
    "reinforce, level 1": {"levels": 1},
    "random, level 1": {"search": "random", "levels": 1},
    "tpe, level 1": {"search": "tpe", "levels": 1},
    "exhaustive, level 1": {"search": "exhaustive", "levels": 1},
    "best fixed share": {"crossval_fixed": True},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("config", help="a file or a name of `remem list configs`")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--searches", nargs="+", choices=SEARCHES, default=list(SEARCHES), metavar="NAME")
    options = parser.parse_args()
    limit_threads(1)
    for seed in options.seeds:
        found = read(options.out, options.config)
        known = found["seeds"].get(str(seed), {})
        left = [name for name in options.searches if name not in known]
        if left:
            results = known | compare(read_toml(Path(options.config)), seed, left)
            found = read(options.out, options.config)  # another process may have written
            found["seeds"][str(seed)] = {name: results[name] for name in SEARCHES if name in results}
            options.out.write_text(json.dumps(found, separators=(",", ":")) + "\n")
    print(summary(json.loads(options.out.read_text())))


def read(path: Path, config: str) -> dict[str, Any]:
    """What is known so far."""
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"config": config, "seeds": {}}
    return found


def compare(tree: Mapping[str, Any], seed: int, names: Sequence[str]) -> dict[str, Any]:
    """Runs some searches for one seed and class order."""
    own = {"seed": seed, "scenario": {"order": f"seed:{seed}"}}
    tasks = PseudoTasks(compose_learning(tree, own), MemorySnapshotCache(10**9))
    shared = RewardCache(tasks.train_nodes)
    results = {}
    for name in names:
        learn = SEARCHES[name]
        started = time.process_time()
        config = compose_learning(tree, own, merged({}, {"learn": learn}))
        counted = Counted(shared)
        policy = search(config, tasks, RewardCache(counted.train_nodes))
        seconds = time.process_time() - started
        pool, fresh = (average(policy, tasks, shared, numbers) for numbers in task_numbers(config))
        results[name] = {"phases": len(counted.seen), "pool": pool, "held_out": fresh, "seconds": round(seconds, 1)}
        print(seed, name, results[name], flush=True)
    return results


def task_numbers(config: LearnConfig) -> tuple[range, range]:
    pool = config.learn.pool
    return range(pool), range(pool, pool + HELD_OUT)


class Counted:
    """Counts the nodes that one search needs; rewards that another one has paid for come from the shared cache."""

    def __init__(self, shared: RewardCache) -> None:
        self._shared = shared
        self.seen: set[Node] = set()

    def train_nodes(self, nodes: Sequence[Node]) -> Iterator[tuple[Node, float]]:
        self.seen.update(nodes)
        rewards = self._shared.of(nodes)
        return ((node, own[-1]) for node, own in zip(nodes, rewards, strict=True))


def search(config: LearnConfig, tasks: PseudoTasks, rewards: RewardCache) -> Policy:
    """The policy or path that a search finds on the pool."""
    if config.learn.crossval_fixed:
        return compare_fixed(config.learn, tasks, rewards)[0]
    if config.learn.search != "reinforce":
        found = PathSearch(config, tasks, rewards)
        for _ in found.rounds():
            pass
        return found.policy
    trainer = PolicyTrainer(config, tasks, rewards)
    for _ in trainer.train():
        pass
    return Greedy(trainer)


class Greedy:
    """The most probable actions of a trained policy."""

    name, oracle = "rmm", False

    def __init__(self, trainer: PolicyTrainer) -> None:
        self._policy = trainer.policy

    def act(self, state: Any) -> Any:
        return self._policy.choose(state)[0]

    def provenance(self) -> dict[str, object]:
        return {"name": self.name}


def average(policy: Policy | Fixed, tasks: PseudoTasks, rewards: RewardCache, numbers: Sequence[int]) -> float:
    """Average accuracy in % of a policy's runs through some tasks."""
    keys = [TaskKey(number, "features") for number in numbers]
    runs = rewards.of([(key, follow_path(tasks.path_task(key), policy.act)) for key in keys])
    return 100 * fmean(fmean(run) for run in runs)


def summary(found: Mapping[str, Any]) -> str:
    """Means over the seeds that have a search. Differences are paired by seed: from the exhaustive one on the pool, and
    from the first row on held-out tasks.
    """
    lines = [
        "| search | seeds | phases trained | pool: average % | behind exhaustive level 1 | held out % | - first row |",
        "| :-- | --: | --: | --: | --: | --: | --: |",
    ]
    first = next(iter(SEARCHES))
    for name in SEARCHES:
        seeds = [seed for seed in found["seeds"].values() if name in seed]
        if not seeds:
            continue
        rows = [seed[name] for seed in seeds]
        exact = [seed for seed in seeds if "exhaustive, level 1" in seed]
        behind = [seed["exhaustive, level 1"]["pool"] - seed[name]["pool"] for seed in exact]
        gains = [seed[name]["held_out"] - seed[first]["held_out"] for seed in seeds if first in seed]
        pool, fresh = fmean(row["pool"] for row in rows), fmean(row["held_out"] for row in rows)
        phases = fmean(row["phases"] for row in rows)
        last = "-" if name == first else _interval(gains)
        lines.append(
            f"| {name} | {len(rows)} | {phases:.0f} | {pool:.2f} | {_interval(behind)} | {fresh:.2f} | {last} |"
        )
    return "\n".join(lines)


def _interval(values: Sequence[float]) -> str:
    mean, half = mean_interval(values)
    return f"{mean:+.2f}" + ("" if half is None else f" ± {half:.2f}")


if __name__ == "__main__":
    main()
