"""Cross-validation of fixed shares and codecs. The best on pseudo tasks is a valid choice, on the target an oracle."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

from remem.action import EVEN, TENTHS
from remem.memory.allocator import follow
from remem.policies.fixed import Fixed
from remem.rl.paths import ActionPath, Task, TaskSource, follow_path, task_key
from remem.rl.prefix_tree import RewardCache
from remem.rl.settings import LearnSettings


class Pair(NamedTuple):
    """An old share in tenths, and a rung of the ladder of codecs."""

    old_tenths: int
    rung: int = 0


def fixed_paths(tasks: Sequence[Task]) -> dict[Pair, list[ActionPath]]:
    """Returns the path of every fixed share through each task, with every codec of the ladder.

    An infeasible share becomes the nearest feasible one, as in any run. A share that is feasible in no phase of any
    task is left out, since it would always become another one.
    """
    pairs = [pair for rung in range(tasks[0].budget.rungs) for pair in _feasible(tasks, rung)]
    return {pair: [follow_path(task, Fixed(pair.old_tenths, rung=pair.rung).act) for task in tasks] for pair in pairs}


def _feasible(tasks: Sequence[Task], rung: int) -> list[Pair]:
    any_path = Fixed(EVEN, rung=rung).act  # feasibility does not depend on earlier shares
    steps = [step for task in tasks for step in follow(task.budget, task.phases, any_path)]
    somewhere = {tenths for step in steps if step.decision.rung == rung for tenths in step.state.at(rung).feasible}
    return [Pair(tenths, rung) for tenths in TENTHS if tenths in somewhere]


def best_fixed(rewards: Mapping[Pair, Sequence[float]]) -> Pair:
    """Returns the pair with the highest mean total reward.

    Ties go to the more exact codec, then to the share nearest to 0.5, then to the lower.
    """
    means = {pair: fmean(totals) for pair, totals in rewards.items()}
    return max(means, key=lambda pair: (means[pair], -pair.rung, -abs(pair.old_tenths - EVEN), -pair.old_tenths))


def compare_fixed(
    learn: LearnSettings, tasks: TaskSource, rewards: RewardCache
) -> tuple[Fixed, list[dict[str, float]]]:
    """Runs every fixed share on every task of the pool. Returns the best share and the results of all."""
    numbers = range(learn.pool)
    paths = fixed_paths([tasks.path_task(task_key(learn, number, 0, "")) for number in numbers])
    runs = [
        (task_key(learn, number, 0, f"fixed.{pair.old_tenths}" + (f".{pair.rung}" if pair.rung else "")), path)
        for pair, ways in paths.items()
        for number, path in zip(numbers, ways, strict=True)
    ]
    got = iter(rewards.of(runs))
    by_pair = {pair: [next(got) for _ in numbers] for pair in paths}
    several = any(pair.rung for pair in paths)
    results: list[dict[str, float]] = [
        {
            "old_share": pair.old_tenths / 10,
            **({"rung": pair.rung} if several else {}),
            "reward": fmean(map(sum, runs)),
            "accuracy": fmean(map(fmean, runs)),
        }
        for pair, runs in by_pair.items()
    ]
    best = best_fixed({pair: [sum(run) for run in runs] for pair, runs in by_pair.items()})
    return Fixed(best.old_tenths, rung=best.rung), results
