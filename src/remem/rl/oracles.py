"""Cross-validation of fixed shares. The best share on pseudo tasks is a valid choice; on the target it is an oracle."""

from collections.abc import Mapping, Sequence
from statistics import fmean

from remem.action import EVEN, TENTHS
from remem.memory.allocator import follow
from remem.policies.fixed import Fixed
from remem.rl.paths import ActionPath, Task, TaskSource, follow_path, task_key
from remem.rl.prefix_tree import RewardCache
from remem.rl.settings import LearnSettings


def fixed_paths(tasks: Sequence[Task]) -> dict[int, list[ActionPath]]:
    """Returns the path of every fixed share, in tenths, through each task.

    An infeasible share becomes the nearest feasible one, as in any run. A share that is feasible in no phase of any
    task is left out, since it would always become another one.
    """
    any_path = Fixed(EVEN).act  # feasibility does not depend on earlier actions
    steps = [step for task in tasks for step in follow(task.budget, task.phases, any_path)]
    somewhere = {tenths for step in steps for tenths in step.state.feasible}
    shares = (tenths for tenths in TENTHS if tenths in somewhere)
    return {tenths: [follow_path(task, Fixed(tenths).act) for task in tasks] for tenths in shares}


def best_fixed(rewards: Mapping[int, Sequence[float]]) -> int:
    """Returns the share with the highest mean total reward. Ties go to the share nearest to 0.5, then to the lower."""
    means = {tenths: fmean(totals) for tenths, totals in rewards.items()}
    return max(means, key=lambda tenths: (means[tenths], -abs(tenths - EVEN), -tenths))


def compare_fixed(
    learn: LearnSettings, tasks: TaskSource, rewards: RewardCache
) -> tuple[Fixed, list[dict[str, float]]]:
    """Runs every fixed share on every task of the pool. Returns the best share and the results of all."""
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
