"""How well cheap rewards order action paths: `python results/fidelity.py CONFIG --out FILE.json`.

Random paths through one pseudo task, equally many for every first share, are run at every fidelity, and at full
fidelity a second time with other random draws: the correlation of the two is the most that a cheap reward can reach.
It can be stopped and started again; what has been trained is kept beside the file."""

import argparse
import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from remem.policies.rmm import TwoLevelPolicy
from remem.rl.paths import Path as Moves
from remem.rl.paths import Task, TaskKey, drawn
from remem.rl.prefix_tree import RewardCache
from remem.runs.trees import read_overrides
from remem.runs.presets import read_toml
from remem.parallel.pool import open_pool
from remem.rl.config import LearnConfig, compose_learning
from remem.rl.reward_log import Ledger, recorded
from remem.rl.jobs import PooledPrefixTrainer
from remem.rl.snapshot_cache import DiskSnapshotCache
from remem.rl.pseudo_tasks import PseudoTasks
from remem.seeding import Streams

KEYS = {
    "features": TaskKey(0, "features"),
    "short": TaskKey(0, "short"),
    "full": TaskKey(0, "full"),
    "full again": TaskKey(0, "full", run="again", fresh=True),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("config", help="a file or a name of `remem list configs`")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--each", type=int, default=4, help="paths for every first share")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE")
    options = parser.parse_args()
    config = compose_learning(read_toml(Path(options.config)), read_overrides(options.set))
    work = options.out.with_suffix(".work")
    work.mkdir(parents=True, exist_ok=True)
    found = measure(config, work, options.each, options.workers)
    options.out.write_text(json.dumps({"config": options.config, "set": options.set, **found}, indent=1) + "\n")
    print(summary(found))


def measure(config: LearnConfig, work: Path, each: int, workers: int) -> dict[str, Any]:
    """Rewards of all paths at all fidelities."""
    workplace = PseudoTasks(config, DiskSnapshotCache(work / "snapshots", 4 * 10**9))
    workplace.check()
    paths = random_paths(workplace.outline(KEYS["full"]), each, config.target.seed)
    ledger = Ledger(work)
    totals, seconds = {}, {}
    with open_pool(workers, None) as crew:

        def tell(share: float) -> None:
            print(f"{100 * share:.0f} % of this fidelity", end="\r", flush=True)

        grower = PooledPrefixTrainer(crew, config, work / "snapshots")
        forest = RewardCache(recorded(grower.grow, ledger, tell), ledger.read())
        for name, key in KEYS.items():
            started = time.perf_counter()
            totals[name] = [sum(rewards) for rewards in forest.rewards([(key, path) for path in paths])]
            seconds[name] = time.perf_counter() - started
    return {"task": asdict(KEYS["full"]), "paths": paths, "rewards": totals, "seconds": seconds}


def random_paths(task: Task, each: int, seed: int) -> list[Moves]:
    """So many for every feasible first share; everything else is drawn from the untrained policy."""
    policy, rng = TwoLevelPolicy(), Streams(seed, "fidelity").numpy(0, "paths")
    found: dict[int, list[Moves]] = {}
    for _ in range(10_000):
        path, _ = drawn(task, policy, rng)
        group = found.setdefault(path[0][0], [])
        if len(group) < each and path not in group:
            group.append(path)
    return [path for share in sorted(found) for path in found[share]]


def summary(found: dict[str, Any]) -> str:
    """Spearman's rank correlation with full rewards: over all paths, and among paths with the same first share; and
    what all paths together took, phase 0 included, in units of the full ones."""
    lines = ["| rewards | all paths | same first share | time |", "| :-- | --: | --: | --: |"]
    full = np.array(found["rewards"]["full"])
    first = np.array([path[0][0] for path in found["paths"]])
    for name in ("features", "short", "full again"):
        other = np.array(found["rewards"][name])
        within = spearmanr(_centred(other, first), _centred(full, first)).statistic
        cost = found["seconds"][name] / found["seconds"]["full"]
        lines.append(f"| {name} | {spearmanr(other, full).statistic:.2f} | {within:.2f} | {cost:.2f} |")
    return "\n".join(lines)


def _centred(rewards: NDArray[np.float64], groups: NDArray[np.int64]) -> NDArray[np.float64]:
    """Differences from the mean of the paths with the same first share."""
    means = {group: rewards[groups == group].mean() for group in np.unique(groups)}
    centres: NDArray[np.float64] = np.array([means[group] for group in groups])
    return rewards - centres


if __name__ == "__main__":
    main()
