"""The numbers behind figures: means over seeds, phase by phase, with 95 % intervals."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from remem.evaluation.metrics import mean_interval
from remem.report.groups import Group, paired
from remem.runs.results import PhaseRecord, RunResult

Point = tuple[int, float]  # phase, value
PerClass = Callable[[PhaseRecord, PhaseRecord], tuple[float, float]]  # a phase and the one before it -> old, new


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


def gain_series(group: Group, reference: Group) -> Series | None:
    """Accuracy minus that of a reference after every phase, paired by seed; None without a common seed."""
    size = min(len(run.phases) for run in (*group.runs, *reference.runs))
    found = [paired(group, reference, lambda run, phase=phase: run.phases[phase].accuracy) for phase in range(size)]  # type: ignore[misc]
    spreads = [spread for spread in found if spread is not None]
    if not spreads:
        return None
    return Series(tuple(range(size)), tuple(s.mean for s in spreads), tuple(s.half_width for s in spreads))


def held_series(group: Group, per_class: PerClass | None = None) -> tuple[Series, Series]:
    """Samples, or bytes, held per old class and per new class in every phase that has both."""
    count = per_class or samples_per_class
    held = {id(run): [(now.phase, count(prior, now)) for prior, now in steps(run)] for run in group.runs}
    old, new = (
        over_seeds(group, lambda run, age=age: [(phase, pair[age]) for phase, pair in held[id(run)]])  # type: ignore[misc]
        for age in (0, 1)
    )
    return old, new


def samples_per_class(prior: PhaseRecord, now: PhaseRecord) -> tuple[float, float]:
    """Samples held per old class and per new class in a phase, given the phase before it."""
    old_classes = prior.classes_seen
    return now.held_old / old_classes, now.held_new / max(1, now.classes_seen - old_classes)


def kilobytes_per_class(prior: PhaseRecord, now: PhaseRecord) -> tuple[float, float]:
    """The same in kB as stored: the samples times the mean size of a sample in that phase."""
    each = (now.held_bytes or 0) / max(1, now.held_old + now.held_new) / 1000
    old, new = samples_per_class(prior, now)
    return each * old, each * new


def counts_bytes(group: Group) -> bool:
    """Whether bytes are known in all phases after phase 0."""
    later = [now for run in group.runs for _, now in steps(run)]
    return bool(later) and all(phase.held_bytes is not None for phase in later)


def share_series(group: Group) -> Series:
    """The nominal old share in every phase in which one was chosen."""
    return over_seeds(group, lambda run: [(p.phase, p.action.old_share) for p in run.phases if p.action is not None])


def split_series(group: Group) -> Series:
    """The harder half's share, where there was something to split."""
    return over_seeds(
        group,
        lambda run: [
            (p.phase, p.action.level2) for p in run.phases if p.action is not None and p.action.level2 is not None
        ],
    )


def codecs_by_phase(group: Group) -> dict[int, list[str]]:
    """The codecs of every phase after phase 0, one per seed; empty where samples are stored as they are."""
    found: dict[int, list[str]] = {}
    for run in group.runs:
        for _, phase in steps(run):
            if phase.codec is not None:
                found.setdefault(phase.phase, []).append(phase.codec)
    return found


def codecs_in_order(groups: Sequence[Group]) -> list[str]:
    """All codecs of these groups, the largest bytes per sample first."""
    sizes: dict[str, list[float]] = {}
    for run in (run for group in groups for run in group.runs):
        for _, phase in steps(run):
            if phase.codec is not None:
                held = max(1, phase.held_old + phase.held_new)
                sizes.setdefault(phase.codec, []).append((phase.held_bytes or 0) / held)
    return sorted(sizes, key=lambda codec: -float(np.mean(sizes[codec])))


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
