"""Phases trained with and without shared prefixes: counted on the paths that a policy draws, nothing is trained."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from remem.data.arrays import from_arrays
from remem.data.pseudo import pseudo_scenario
from remem.data.settings import ScenarioSettings
from remem.memory.budget import Budget
from remem.policies.rmm import PolicySettings, TwoLevelPolicy
from remem.rl.paths import Node, Path, Task, TaskKey, drawn
from remem.rl.reinforce import Reinforce, Run
from remem.rl.prefix_tree import RewardCache
from remem.rl.config import LearnSettings
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


def fake_reward(path: Path) -> float:
    """In the place of an accuracy: 0.7, less 0.02 for each squared tenth away from old shares of 0.6, and 0.005 for
    each squared tenth away from splits of 0.7."""
    if not path:
        return 0.7
    share, split = path[-1]
    return 0.7 - 0.02 * (share - 6) ** 2 - 0.005 * (split - 7) ** 2


def pool() -> list[Task]:
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
    """All epochs of Algorithm 1 with rewards made of paths; a policy that does not learn stays uniform."""
    ascent = Reinforce(TwoLevelPolicy(PolicySettings(levels=levels)), LEARN)
    alone = 0

    def grow(nodes: Sequence[Node]) -> Iterator[tuple[Node, float]]:
        return iter([(node, fake_reward(node[1])) for node in nodes])

    forest = RewardCache(grow)
    for epoch in range(LEARN.epochs):
        runs = epoch_of_runs(tasks, ascent.policy, forest, epoch, LEARN)
        alone += sum(len(run.rewards) for run in runs)
        if learning:
            ascent.step(runs)
    name = f"{'learning' if learning else 'uniform'} policy, {levels} level{'s' if levels > 1 else ''}"
    return Count(name, len(forest.known), alone)


def epoch_of_runs(
    tasks: Sequence[Task], policy: TwoLevelPolicy, forest: RewardCache, epoch: int, settings: LearnSettings, seed: int = 0
) -> list[Run]:
    """K x Z runs of a policy, with rewards from whoever grows the forest."""
    nodes, choices = list[Node](), []
    for place, number in enumerate(settings.tasks_of(epoch)):
        for run in range(settings.runs):
            rng = Streams(seed, "policy").numpy(epoch, f"task {place} run {run}")
            path, chosen = drawn(tasks[number], policy, rng)
            nodes.append((tasks[number].key, path))
            choices.append(chosen)
    numbers = (str(key.number) for key, _ in nodes)
    return [Run(*parts) for parts in zip(numbers, choices, forest.rewards(nodes), strict=True)]


def counts() -> list[Count]:
    tasks = pool()
    return [count(tasks, levels=levels, learning=learning) for levels in (2, 1) for learning in (False, True)]


def main() -> None:
    print(
        f"phases trained; K = {LEARN.tasks}, Z = {LEARN.runs}, N = {PHASES}, pool {LEARN.pool}, {LEARN.epochs} epochs"
    )
    for row in counts():
        print(f"{row.name:<26} {row.alone:>5} alone {row.shared:>5} shared {row.ratio:>6.2f}x")


if __name__ == "__main__":
    main()
