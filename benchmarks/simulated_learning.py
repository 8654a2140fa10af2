"""Settings of REINFORCE on a problem with a known best path: `python -m benchmarks.simulated_learning`.

No network is trained. The reward of a path is a curve over old shares and splits, fitted to runs of `lwf` on glyphs,
plus noise that depends on the task and the path; tasks differ in difficulty. The table shows the regret: how far the
most probable path is below the best one, in points of average accuracy.
"""

import argparse
from collections.abc import Iterator, Sequence
from itertools import product
from statistics import fmean

import torch

from benchmarks.shared_prefixes import PHASES, make_tasks, sample_runs
from remem.action import Action
from remem.policies.rmm import PolicySettings, TwoLevelPolicy
from remem.rl.paths import Node, Task, sample_path
from remem.rl.prefix_tree import RewardCache
from remem.rl.reinforce import Reinforce
from remem.rl.settings import LearnSettings
from remem.seeding import Streams

BY_SHARE = (0.32, 0.40, 0.47, 0.53, 0.577, 0.623, 0.651, 0.643, 0.587)  # accuracy in a phase, old shares 0.1 ... 0.9
BEST_SPLIT, SPLIT_LOSS = 5.4, 0.0015  # for each squared tenth away from it
HARDER = 0.02  # each task is so much easier than the one before
NOISE = 0.015  # of a whole path's return


def accuracy(action: Action) -> float:
    return BY_SHARE[action.old_tenths - 1] - SPLIT_LOSS * (action.level2_tenths - BEST_SPLIT) ** 2


def reward(node: Node) -> float:
    """Of one phase; noise is added at the end of the path."""
    key, path = node
    if not path:
        return 0.8 + HARDER * key.number
    if len(path) < PHASES:
        return accuracy(path[-1])
    keys = tuple(action.key() for action in path)
    return accuracy(path[-1]) + float(Streams(0, f"noise {key.number}").numpy(0, str(keys)).normal(0, NOISE))


def regret(policy: TwoLevelPolicy, task: Task) -> float:
    """In points of average accuracy over phases 0..N, without the noise."""
    path, _ = sample_path(task, policy, None)
    best = max(accuracy(Action(*values)) for values in product(*Action.grid()))
    return 100 * sum(best - accuracy(action) for action in path) / (PHASES + 1)


def learned(tasks: Sequence[Task], settings: LearnSettings, seed: int, *, plain_start: bool) -> TwoLevelPolicy:
    policy = TwoLevelPolicy(PolicySettings(hidden=settings.hidden), seed=seed)
    if plain_start:
        torch.manual_seed(seed)
        for layer in (policy.eta[0], policy.phi[0]):
            assert isinstance(layer, torch.nn.Linear)
            layer.reset_parameters()
    reinforce = Reinforce(policy, settings)

    def train_nodes(nodes: Sequence[Node]) -> Iterator[tuple[Node, float]]:
        return iter([(node, reward(node)) for node in nodes])

    rewards = RewardCache(train_nodes)
    for epoch in range(settings.epochs):
        reinforce.step(sample_runs(tasks, policy, rewards, epoch, settings, seed))
    return policy


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--seeds", type=int, default=6)
    seeds = parser.parse_args().seeds
    tasks = make_tasks()
    kinds: dict[str, dict[str, object]] = {
        "defaults": {},
        "moving average as baseline": {"baseline": "average"},
        "entropy bonus of 0.05": {"entropy": 0.05},
        "entropy bonus, moving average": {"entropy": 0.05, "baseline": "average"},
        "entropy bonus, rates of 0.005": {"entropy": 0.05, "lr_eta": 0.005, "lr_phi": 0.005},
        "entropy bonus, rates of 0.1": {"entropy": 0.05, "lr_eta": 0.1, "lr_phi": 0.1},
        "entropy bonus, 40 epochs": {"entropy": 0.05, "epochs": 40},
        "torch's first layer": {},
        "torch's first layer, entropy bonus": {"entropy": 0.05},
        "torch's first layer, entropy bonus, 40 epochs": {"entropy": 0.05, "epochs": 40},
        "torch's first layer, entropy bonus, rates of 0.1": {"entropy": 0.05, "lr_eta": 0.1, "lr_phi": 0.1},
    }
    print(f"{'learning':<48} {'mean regret':>11} {'worst':>6}   ({seeds} seeds, points of average accuracy)")
    for name, changes in kinds.items():
        settings, plain = LearnSettings.model_validate(changes), name.startswith("torch")
        found = [regret(learned(tasks, settings, seed, plain_start=plain), tasks[0]) for seed in range(seeds)]
        print(f"{name:<48} {fmean(found):>11.2f} {max(found):>6.2f}", flush=True)


if __name__ == "__main__":
    main()
