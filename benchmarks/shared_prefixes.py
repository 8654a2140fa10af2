"""Phases trained with and without shared prefixes, counted on sampled paths; nothing is trained."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from remem.data.arrays import from_arrays
from remem.data.pseudo import pseudo_scenario
from remem.data.settings import ScenarioSettings
from remem.memory.budget import Budget
from remem.policies.network import PolicyNetwork
from remem.policies.rmm import PolicySettings, TwoLevelPolicy
from remem.rl.paths import ActionPath, Node, Task, TaskKey, sample_path
from remem.rl.prefix_tree import RewardCache
from remem.rl.reinforce import Reinforce, Run
from remem.rl.settings import LearnSettings
from remem.seeding import Streams

LEARN = LearnSettings(tasks=2, runs=8, pool=4, epochs=10)  # K, Z, P, m
PHASES = 5
# The pseudo task of CIFAR-100's phase 0: 50 classes with 450 training samples left, M = 7000 x 22500 / 50000.
CLASSES, SAMPLES, BUDGET, EXEMPLARS = 50, 500, 3150, 900


@dataclass(frozen=True)
class Count:
    """Phases that a whole learning trains."""

    name: str
    shared: int
    alone: int

    @property
    def ratio(self) -> float:
        return self.alone / self.shared


def fake_reward(path: ActionPath) -> float:
    """An accuracy of 0.7, minus 0.02 (share - 6)^2 and 0.005 (split - 7)^2 of the last action, in tenths."""
    if not path:
        return 0.7
    last = path[-1]
    return 0.7 - 0.02 * (last.old_tenths - 6) ** 2 - 0.005 * (last.level2_tenths - 7) ** 2


def make_tasks() -> list[Task]:
    """The pool."""
    labels = np.repeat(np.arange(CLASSES), SAMPLES)
    nothing = np.zeros((len(labels), 1), np.float32)
    dataset = from_arrays(nothing, labels, nothing, labels)
    budget = Budget("fixed", BUDGET, EXEMPLARS)
    tasks = []
    for number in range(LEARN.pool):
        streams = Streams(0, f"pseudo {number}")
        scenario = pseudo_scenario(dataset, range(CLASSES), ScenarioSettings(phases=PHASES), streams)
        tasks.append(Task(TaskKey(number, "full"), scenario, budget))
    return tasks


def count(tasks: Sequence[Task], *, levels: int, learning: bool) -> Count:
    """All epochs of Algorithm 1 with fake rewards; a policy that does not learn stays uniform."""
    reinforce = Reinforce(TwoLevelPolicy(PolicySettings(levels=levels)), LEARN)
    alone = 0

    def train_nodes(nodes: Sequence[Node]) -> Iterator[tuple[Node, float]]:
        return iter([(node, fake_reward(node[1])) for node in nodes])

    rewards = RewardCache(train_nodes)
    for epoch in range(LEARN.epochs):
        runs = sample_runs(tasks, reinforce.policy, rewards, epoch, LEARN)
        alone += sum(len(run.rewards) for run in runs)
        if learning:
            reinforce.step(runs)
    name = f"{'learning' if learning else 'uniform'} policy, {levels} level{'s' if levels > 1 else ''}"
    return Count(name, len(rewards.known), alone)


def sample_runs(
    tasks: Sequence[Task],
    policy: PolicyNetwork,
    rewards: RewardCache,
    epoch: int,
    settings: LearnSettings,
    seed: int = 0,
) -> list[Run]:
    """The K x Z runs of an epoch."""
    nodes, choices = list[Node](), []
    for place, number in enumerate(settings.tasks_of(epoch)):
        for run in range(settings.runs):
            rng = Streams(seed, "policy").numpy(epoch, f"task {place} run {run}")
            path, chosen = sample_path(tasks[number], policy, rng)
            nodes.append((tasks[number].key, path))
            choices.append(chosen)
    numbers = (str(key.number) for key, _ in nodes)
    return [Run(*parts) for parts in zip(numbers, choices, rewards.of(nodes), strict=True)]


def counts() -> list[Count]:
    tasks = make_tasks()
    return [count(tasks, levels=levels, learning=learning) for levels in (2, 1) for learning in (False, True)]


def main() -> None:
    print(
        f"phases trained; K = {LEARN.tasks}, Z = {LEARN.runs}, N = {PHASES}, pool {LEARN.pool}, {LEARN.epochs} epochs"
    )
    for row in counts():
        print(f"{row.name:<26} {row.alone:>5} alone {row.shared:>5} shared {row.ratio:>6.2f}x")


if __name__ == "__main__":
    main()
