"""How well cheap rewards order action paths: `python results/fidelity.py CONFIG --out FILE.json`.

Random paths through one pseudo task, equally many for every first share, are run at every fidelity, and at full
fidelity a second time with other random streams; the correlation of the two bounds that of any cheap reward.
`--fixed` runs fixed shares instead: does a cheap reward choose the same share as a full one? `--fidelities` runs some.
It can be interrupted and resumed: rewards and snapshots are kept in a folder next to the file.
"""

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr  # type: ignore[import-untyped]

from remem.parallel.pool import open_pool
from remem.policies.rmm import TwoLevelPolicy
from remem.rl.config import LearnConfig, compose_learning
from remem.rl.oracles import fixed_paths
from remem.rl.paths import ActionPath, Task, TaskKey, sample_path
from remem.rl.pooled_training import PooledTraining
from remem.rl.prefix_tree import RewardCache
from remem.rl.pseudo_tasks import PseudoTasks
from remem.rl.reward_log import RewardLog, logged
from remem.rl.snapshot_cache import DiskSnapshotCache
from remem.runs.presets import read_toml
from remem.runs.trees import read_overrides
from remem.seeding import Streams

KEYS = {
    "features": TaskKey(0, "features"),
    "short": TaskKey(0, "short"),
    "full": TaskKey(0, "full"),
    "full again": TaskKey(0, "full", run="again", fresh=True),
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("config", help="a file or a name of `remem list configs`")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--each", type=int, default=4, help="paths for every first share")
    parser.add_argument("--fixed", action="store_true", help="one path for every fixed share")
    parser.add_argument("--fidelities", nargs="+", default=list(KEYS), choices=list(KEYS))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE")
    options = parser.parse_args(arguments)
    config = compose_learning(read_toml(Path(options.config)), read_overrides(options.set))
    work = options.out.with_suffix(".work")
    work.mkdir(parents=True, exist_ok=True)
    measured = measure(config, work, 0 if options.fixed else options.each, options.fidelities, options.workers)
    found = {"config": options.config, "set": options.set, **measured}
    options.out.write_text(json.dumps(found, separators=(",", ":")) + "\n")
    print(shares(found) if options.fixed else summary(found))


def measure(config: LearnConfig, work: Path, each: int, fidelities: Sequence[str], workers: int) -> dict[str, Any]:
    """Rewards of all paths at some fidelities: `each` random ones for every first share, or those of fixed shares."""
    tasks = PseudoTasks(config, DiskSnapshotCache(work / "snapshots", 4 * 10**9))
    tasks.check()
    task = tasks.path_task(KEYS["full"])
    paths = random_paths(task, each, config.target.seed) if each else [path for [path] in fixed_paths([task]).values()]
    log = RewardLog(work, {"learn": config.learn.model_dump(mode="json"), "target": config.target.public()})
    totals, seconds = {}, {}
    with open_pool(workers, None) as pool:
        training = PooledTraining(pool, config, work / "snapshots", tasks.batches)
        rewards = RewardCache(logged(training.train_nodes, log, print_progress), log.read())
        for name in fidelities:
            key, started = KEYS[name], time.perf_counter()
            totals[name] = [sum(run) for run in rewards.of([(key, path) for path in paths])]
            seconds[name] = time.perf_counter() - started
    keys = [[action.key() for action in path] for path in paths]
    return {"task": asdict(KEYS["full"]), "paths": keys, "rewards": totals, "seconds": seconds}


def print_progress(share: float) -> None:
    print(f"{100 * share:.0f} % of this fidelity", end="\r", flush=True)


def random_paths(task: Task, each: int, seed: int) -> list[ActionPath]:
    """`each` paths for every feasible first share, sampled from the untrained policy."""
    policy, rng = TwoLevelPolicy(), Streams(seed, "fidelity").numpy(0, "paths")
    found: dict[int, list[ActionPath]] = {}
    for _ in range(10_000):
        path, _ = sample_path(task, policy, rng)
        group = found.setdefault(path[0].old_tenths, [])
        if len(group) < each and path not in group:
            group.append(path)
    return [path for share in sorted(found) for path in found[share]]


def summary(found: dict[str, Any]) -> str:
    """Spearman's rank correlation with full rewards, over all paths and among those with the same first share.

    The time is that of all paths, phase 0 included, relative to the full ones.
    """
    lines = ["| rewards | all paths | same first share | time |", "| :-- | --: | --: | --: |"]
    full = np.array(found["rewards"]["full"])
    first = np.array([path[0][0] for path in found["paths"]])
    for name in ("features", "short", "full again"):
        other = np.array(found["rewards"][name])
        within = spearmanr(_centred(other, first), _centred(full, first)).statistic
        cost = found["seconds"][name] / found["seconds"]["full"]
        lines.append(f"| {name} | {spearmanr(other, full).statistic:.2f} | {within:.2f} | {cost:.2f} |")
    return "\n".join(lines)


def shares(*files: dict[str, Any]) -> str:
    """Average accuracy of every fixed share at every fidelity, in %; phase 0, which all share, included.

    Files of other settings give further columns, named after what they set.
    """
    columns = {
        ", ".join([name, *(f"`{item}`" for item in found["set"])]): totals
        for found in files
        for name, totals in found["rewards"].items()
    }
    lines = ["| old share | " + " | ".join(columns) + " |", "| --: |" + " --: |" * len(columns)]
    for place, path in enumerate(files[0]["paths"]):
        each = [100 * totals[place] / (1 + len(path)) for totals in columns.values()]
        lines.append(f"| {path[0][0] / 10} | " + " | ".join(f"{value:.2f}" for value in each) + " |")
    return "\n".join(lines)


def _centred(rewards: NDArray[np.float64], groups: NDArray[np.int64]) -> NDArray[np.float64]:
    """Differences from the mean of the paths with the same first share."""
    means = {group: rewards[groups == group].mean() for group in np.unique(groups)}
    centres: NDArray[np.float64] = np.array([means[group] for group in groups])
    return rewards - centres


if __name__ == "__main__":
    main()
