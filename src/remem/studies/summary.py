"""A study in numbers: means over seeds with 95 % intervals, and paired differences to its first policy."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

import remem
from remem.runs.results import Record, RunResult, Spread
from remem.studies.grid import METHOD, PATHS, PHASES, POLICY, SEED, Study, StudyRun

Cell = tuple[tuple[str, int], ...]  # numbers of the values on all axes but the seed


class Place(Record):
    """The position of a run in the grid, apart from its seed; no path of the machine."""

    method: str
    policy: str
    phases: int
    settings: dict[str, Any]  # of all other axes

    @classmethod
    def of(cls, study: Study, run: StudyRun) -> Self:
        others = [axis for axis in study.axes if axis.key not in (SEED, METHOD, PHASES, POLICY)]
        values = {axis.key: (axis.words if axis.key in PATHS else axis.values)[run.place[axis.key]] for axis in others}
        return cls(
            method=run.config.method.name,
            policy=policy_word(study, run),
            phases=run.config.scenario.phases,
            settings=values,
        )


class Difference(Record):
    """Paired differences to the first policy of the study."""

    policy: str
    average_accuracy: Spread
    last_accuracy: Spread


class SummaryRow(Place):
    """All seeds of one cell of the grid."""

    oracle: bool
    policy_saw_classes: bool
    seeds: tuple[int, ...]
    average_accuracy: Spread
    last_accuracy: Spread
    forgetting: Spread
    difference: Difference | None


class SummaryRun(Place):
    """One run."""

    name: str
    seed: int
    oracle: bool
    policy_saw_classes: bool
    average_accuracy: float
    last_accuracy: float
    forgetting: float


class StudySummary(Record):
    """`summary.json`."""

    format: Literal[1]
    remem: str
    memory: tuple[str, ...] = ()  # M and E in words; several if budgets are varied
    rows: tuple[SummaryRow, ...]
    runs: tuple[SummaryRun, ...]


def summarise_study(study: Study, results: Mapping[str, RunResult]) -> StudySummary:
    """A row for everything but the seed, and every run."""
    groups: dict[Cell, list[StudyRun]] = {}
    for run in study.runs:
        groups.setdefault(_cell(run), []).append(run)
    rows = []
    for cell, runs in groups.items():
        # a study of parts need not have the first policy everywhere
        base = groups.get(tuple((key, 0 if key == POLICY else number) for key, number in cell), [])
        rows.append(_row(study, runs, base, results))
    listed = tuple(_run(study, run, results[run.name]) for run in study.runs)
    memory = tuple(dict.fromkeys(results[run.name].memory for run in study.runs if results[run.name].memory))
    return StudySummary(format=1, remem=remem.__version__, memory=memory, rows=tuple(rows), runs=listed)


def policy_word(study: Study, run: StudyRun) -> str:
    return next(axis.words[run.place[POLICY]] for axis in study.axes if axis.key == POLICY)


def _cell(run: StudyRun) -> Cell:
    return tuple((key, number) for key, number in run.place.items() if key != SEED)


def _row(
    study: Study, runs: Sequence[StudyRun], base: Sequence[StudyRun], results: Mapping[str, RunResult]
) -> SummaryRow:
    own = [results[run.name] for run in runs]
    return SummaryRow(
        **Place.of(study, runs[0]).model_dump(),
        oracle=any(result.oracle for result in own),
        policy_saw_classes=any(result.policy_saw_classes for result in own),
        seeds=tuple(run.config.seed for run in runs),
        average_accuracy=Spread.of([result.average_accuracy for result in own]),
        last_accuracy=Spread.of([result.last_accuracy for result in own]),
        forgetting=Spread.of([result.forgetting for result in own]),
        difference=_difference(study, base, runs, results) if runs[0].place[POLICY] else None,
    )


def _difference(
    study: Study, base: Sequence[StudyRun], runs: Sequence[StudyRun], results: Mapping[str, RunResult]
) -> Difference | None:
    """Differences over the seeds that both have; None if there are none."""
    firsts = {run.place[SEED]: run for run in base}
    both = [(run, firsts[run.place[SEED]]) for run in runs if run.place[SEED] in firsts]
    pairs = [(results[run.name], results[first.name]) for run, first in both]
    if not pairs:
        return None
    return Difference(
        policy=policy_word(study, base[0]),
        average_accuracy=Spread.of([one.average_accuracy - other.average_accuracy for one, other in pairs]),
        last_accuracy=Spread.of([one.last_accuracy - other.last_accuracy for one, other in pairs]),
    )


def _run(study: Study, run: StudyRun, result: RunResult) -> SummaryRun:
    return SummaryRun(
        **Place.of(study, run).model_dump(),
        name=run.name,
        seed=run.config.seed,
        oracle=result.oracle,
        policy_saw_classes=result.policy_saw_classes,
        average_accuracy=result.average_accuracy,
        last_accuracy=result.last_accuracy,
        forgetting=result.forgetting,
    )
