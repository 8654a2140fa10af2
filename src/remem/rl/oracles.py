"""Cross-validated fixed shares: the best one on pseudo tasks is an honest choice, on the target it is an oracle."""

from collections.abc import Mapping, Sequence
from statistics import fmean

from remem.action import EVEN, TENTHS
from remem.memory.allocator import follow
from remem.policies.fixed import Fixed
from remem.rl.config import LearnSettings, task_key
from remem.rl.paths import ActionPath, Task, TaskSource, follow_path
from remem.rl.prefix_tree import RewardCache


def fixed_paths(tasks: Sequence[Task]) -> dict[int, list[ActionPath]]:
    """The path of every fixed share, in tenths, through each task.

    Where a share is not feasible the nearest one is taken, as in any run; a share that is feasible in no phase of any
    task would always be another one, and is left out.
    """
    any_path = Fixed(EVEN).act  # which shares are feasible depends on no earlier action
    steps = [step for task in tasks for step in follow(task.budget, task.phases, any_path)]
    somewhere = {tenths for step in steps for tenths in step.state.feasible}
    shares = (tenths for tenths in TENTHS if tenths in somewhere)
    return {tenths: [follow_path(task, Fixed(tenths).act) for task in tasks] for tenths in shares}


def best_fixed(rewards: Mapping[int, Sequence[float]]) -> int:
    """The share with the highest mean total reward over tasks; ties to the one nearest to 0.5, then to the lower."""
    means = {tenths: fmean(totals) for tenths, totals in rewards.items()}
    return max(means, key=lambda tenths: (means[tenths], -abs(tenths - EVEN), -tenths))


def compare_fixed(
    learn: LearnSettings, tasks: TaskSource, rewards: RewardCache
) -> tuple[Fixed, list[dict[str, float]]]:
    """Every fixed share on every task of the pool: the best one, and what each of them got."""
    numbers = range(learn.pool)
    paths = fixed_paths([tasks.path_task(task_key(learn, number, 0, "")) for number in numbers])
    runs = [
        (task_key(learn, number, 0, f"fixed.{tenths}"), path)
        for tenths, ways in paths.items()
        for number, path in zip(numbers, ways, strict=True)
    ]
    got = iter(rewards.of(runs))
    by_share = {tenths: [next(got) for _ in numbers] for tenths in paths}
    shares = [
        {"old_share": tenths / 10, "reward": fmean(map(sum, runs)), "accuracy": fmean(map(fmean, runs))}
        for tenths, runs in by_share.items()
    ]
    return Fixed(best_fixed({tenths: [sum(run) for run in runs] for tenths, runs in by_share.items()})), shares
