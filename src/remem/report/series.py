"""The numbers behind figures: means over seeds, phase by phase, with 95 % intervals."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from remem.evaluation.metrics import mean_interval
from remem.report.groups import Group
from remem.runs.results import PhaseRecord, RunResult

Point = tuple[int, float]  # phase, value


@dataclass(frozen=True)
class Series:
    """One line of a figure; a half is None where only one seed has the phase."""

    phases: tuple[int, ...]
    means: tuple[float, ...]
    halves: tuple[float | None, ...]


def over_seeds(group: Group, points: Callable[[RunResult], Sequence[Point]]) -> Series:
    values: dict[int, list[float]] = {}
    for run in group.runs:
        for phase, value in points(run):
            values.setdefault(phase, []).append(value)
    phases = tuple(sorted(values))
    spreads = [mean_interval(values[phase]) for phase in phases]
    return Series(phases, tuple(mean for mean, _ in spreads), tuple(half for _, half in spreads))


def accuracy_series(group: Group) -> Series:
    """Accuracy over all seen classes after every phase, as fractions."""
    return over_seeds(group, lambda run: [(phase.phase, phase.accuracy) for phase in run.phases])


def held_series(group: Group) -> tuple[Series, Series]:
    """Samples held per old class and per new class in every phase that has both."""
    held = {id(run): [(now.phase, samples_per_class(prior, now)) for prior, now in steps(run)] for run in group.runs}
    old, new = (
        over_seeds(group, lambda run, age=age: [(phase, pair[age]) for phase, pair in held[id(run)]])  # type: ignore[misc]
        for age in (0, 1)
    )
    return old, new


def samples_per_class(prior: PhaseRecord, now: PhaseRecord) -> tuple[float, float]:
    """Samples held per old class and per new class in a phase, given the phase before it."""
    old_classes = prior.classes_seen
    return now.held_old / old_classes, now.held_new / max(1, now.classes_seen - old_classes)


def steps(run: RunResult) -> list[tuple[PhaseRecord, PhaseRecord]]:
    return list(zip(run.phases, run.phases[1:], strict=False))


def matrix(group: Group) -> NDArray[np.float64]:
    """Accuracy on the classes of phase j (columns) after phase i (rows), a mean over seeds; NaN above the diagonal."""
    size = min(len(run.phases) for run in group.runs)
    values = np.full((size, size), np.nan)
    for row in range(size):
        values[row, : row + 1] = np.mean([run.phases[row].accuracy_by_phase for run in group.runs], axis=0)
    return values


def scenarios(results: Sequence[RunResult]) -> dict[str, list[RunResult]]:
    """Runs by data set, number of classes and number of phases: only these share a plot."""
    found: dict[str, list[RunResult]] = {}
    for run in results:
        title = f"{run.config['data']['name']}, {len(run.class_names)} classes, N = {run.config['scenario']['phases']}"
        found.setdefault(title, []).append(run)
    return found
