"""Fixed shares compared: the best one on pseudo tasks is an honest choice, on the target itself it is an oracle."""

from collections.abc import Mapping, Sequence
from statistics import fmean

from remem.memory.allocation import TENTHS
from remem.policies.fixed import Fixed
from remem.policies.rmm import MIDDLE
from remem.rl.paths import Path, Task, state_before, walk


def fixed_paths(tasks: Sequence[Task]) -> dict[int, list[Path]]:
    """The path of every fixed share, in tenths, through each task.

    Where a share is not feasible the nearest one is taken, as in any run; a share that is feasible in no phase of any
    task would always be another one, and is left out.
    """
    somewhere = {
        tenths for task in tasks for i in range(1, task.length + 1) for tenths in state_before(task, i, 0).feasible
    }
    return {tenths: [walk(task, Fixed(tenths).act) for task in tasks] for tenths in TENTHS if tenths in somewhere}


def best_fixed(rewards: Mapping[int, Sequence[float]]) -> int:
    """The share with the highest mean total reward over tasks; ties to the one nearest to 0.5, then to the lower."""
    means = {tenths: fmean(totals) for tenths, totals in rewards.items()}
    return max(means, key=lambda tenths: (means[tenths], -abs(tenths - MIDDLE), -tenths))
