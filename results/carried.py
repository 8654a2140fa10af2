"""How well policies carry over to tasks they never saw: `python results/carried.py --out FILE.json [POLICY...]`.

POLICY is a name or a policy folder; `static`, `proportional` and all fixed shares are always compared. Pseudo tasks of
two data sets, two methods and three numbers of phases, at preset `tiny` and from class orders of no table, are run at
fidelity `features`: rewards are accuracies on training data that was set aside. What a file already has is kept. This
chooses the policy that ships as `rmm`.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

from remem.action import TENTHS
from remem.evaluation.metrics import mean_interval
from remem.policies.fixed import Fixed
from remem.policies.policy import Policy
from remem.policies.table import resolve_policy
from remem.rl.config import compose_learning
from remem.rl.paths import TaskKey, follow_path
from remem.rl.prefix_tree import RewardCache
from remem.rl.pseudo_tasks import PseudoTasks
from remem.rl.snapshot_cache import MemorySnapshotCache
from remem.runs.devices import limit_threads

SEED = 101  # of class order and run; policies were learned with others
TASKS = 1  # of every kind
RULES = ("static", "proportional")
DATA, METHODS, PHASES = ("cifar100", "mini-imagenet"), ("lucir", "podnet"), (5, 10, 25)
Found = dict[str, dict[str, list[float]]]  # place -> policy -> average accuracy in % of every task


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("policies", nargs="*", metavar="POLICY")
    parser.add_argument("--without-finetuning", action="store_true", help="no balanced fine-tuning")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    limit_threads(1)
    base = {"preset": "tiny", **({"finetune": {"epochs": 0}} if options.without_finetuning else {})}
    policies: dict[str, Policy] = {f"fixed-0.{tenths}": Fixed(tenths) for tenths in TENTHS}
    policies |= {Path(name).name: resolve_policy(name, SEED) for name in (*RULES, *options.policies)}
    found: Found = json.loads(options.out.read_text()) if options.out.exists() else {}
    for data, method in product(DATA, METHODS):
        places = {place_name(data, method, phases): phases for phases in PHASES}
        if all(set(policies) <= set(found.get(place, {})) for place in places):
            continue
        for place, own in measure(base, data, method, policies).items():
            found.setdefault(place, {}).update(own)
        options.out.write_text(json.dumps(found, separators=(",", ":")) + "\n")
        print(data, method, flush=True)
    print(summary(found))


def place_name(data: str, method: str, phases: int) -> str:
    return f"{data}, {method}, N = {phases}"


def measure(base: Mapping[str, Any], data: str, method: str, policies: Mapping[str, Policy]) -> Found:
    """Runs all policies through tasks of every N. Tasks number 0, 3, ... have the first N, and so on."""
    tree: dict[str, Any] = {**base, "seed": SEED, "data": {"name": data}, "method": {"name": method}}
    tree["scenario"] = {"order": f"seed:{SEED}", "phases": PHASES[0]}
    learn = {"phases": list(PHASES), "pool": TASKS * len(PHASES)}
    tasks = PseudoTasks(compose_learning(tree, {"learn": learn}), MemorySnapshotCache(10**9))
    rewards, found = RewardCache(tasks.train_nodes), {}
    for place, phases in enumerate(PHASES):
        keys = [TaskKey(place + number * len(PHASES), "features") for number in range(TASKS)]
        nodes = {
            name: [(key, follow_path(tasks.path_task(key), policy.act)) for key in keys]
            for name, policy in policies.items()
        }
        totals = iter(rewards.of([node for own in nodes.values() for node in own]))
        found[place_name(data, method, phases)] = {
            name: [round(100 * fmean(next(totals)), 4) for _ in own] for name, own in nodes.items()
        }
    return found


def summary(found: Found) -> str:
    """Means over tasks, and how far every policy is behind the best fixed share of each place, in hindsight."""
    names = [name for name in next(iter(found.values())) if not name.startswith("fixed-")]
    shares = [f"fixed-0.{tenths}" for tenths in TENTHS]
    common = max(shares, key=lambda name: fmean(fmean(own[name]) for own in found.values()))
    columns = [common, *names]
    lines = [
        f"| tasks | best share | its average % | {' | '.join(columns)} |",
        f"| :-- |{' --: |' * (2 + len(columns))}",
    ]
    behind: dict[str, list[float]] = {name: [] for name in columns}
    for place, own in found.items():
        best = max(shares, key=lambda name: fmean(own[name]))
        gains = {name: fmean(own[name]) - fmean(own[best]) for name in columns}
        for name, gain in gains.items():
            behind[name].append(gain)
        cells = " | ".join(f"{gain:+.2f}" for gain in gains.values())
        lines.append(f"| {place} | {best.removeprefix('fixed-')} | {fmean(own[best]):.2f} | {cells} |")
    lines.append(f"| all | - | - | {' | '.join(map(_interval, behind.values()))} |")
    return "\n".join(lines)


def _interval(values: Sequence[float]) -> str:
    mean, half = mean_interval(values)
    return f"{mean:+.2f}" + ("" if half is None else f" ± {half:.2f}")


if __name__ == "__main__":
    main()
