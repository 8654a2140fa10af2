"""The summary of runs: one row per group, means over seeds with 95 % intervals, paired differences to `static`."""

from collections.abc import Sequence
from operator import attrgetter

from remem.report.groups import (
    NOTHING,
    ORACLE,
    REFERENCE,
    Group,
    Measure,
    group_runs,
    paired,
    reference_of,
    varying_settings,
)
from remem.report.sheet import Cell, Column, Sheet
from remem.report.tables import Table, validation
from remem.runs.results import RunResult

AVERAGE: Measure = attrgetter("average_accuracy")
LAST: Measure = attrgetter("last_accuracy")
FORGETTING: Measure = attrgetter("forgetting")


def summary_table(results: Sequence[RunResult]) -> Table:
    """The summary with formatted cells."""
    return summary_sheet(results).table()


def summary_sheet(results: Sequence[RunResult]) -> Sheet:
    """One row per group. Differences are shown if any group can be compared with `static`."""
    groups = group_runs(results)
    extra = varying_settings(groups)
    references = [reference_of(group, groups) for group in groups]
    compares = any(reference is not None for reference in references)
    in_bytes = any(run.bytes_peak is not None for run in results)
    rows = []
    for group, reference in zip(groups, references, strict=True):
        words: list[Cell] = [group.method + (ORACLE if group.oracle else ""), group.policy]
        words += [group.word(key) for key in extra]
        numbers: list[Cell] = [group.spread(measure) for measure in (AVERAGE, LAST, FORGETTING)]
        if compares:
            numbers += [None if reference is None else paired(group, reference, measure) for measure in (AVERAGE, LAST)]
        peaks: list[Cell] = [max(run.samples_peak for run in group.runs)]
        peaks += [_peak_kilobytes(group)] if in_bytes else []
        rows.append((*words, len(group.runs), *numbers, *peaks))
    columns = [
        *(Column((name,), "words") for name in ("method", "policy", *extra)),
        Column(("runs",), "count"),
        *(Column((name,)) for name in ("average %", "last %", "forgetting")),
        *(Column((f"{name} - {REFERENCE}",), "difference") for name in ("average", "last") if compares),
        *(Column((name,), "count") for name in ("peak samples", *(["peak kB"] if in_bytes else []))),
    ]
    return Sheet(tuple(columns), tuple(rows), notes=tuple(summary_notes(results, groups)))


def _peak_kilobytes(group: Group) -> str | None:
    known = [run.bytes_peak for run in group.runs if run.bytes_peak is not None]
    return f"{max(known) / 1000:.1f}" if known else None


def summary_notes(results: Sequence[RunResult], groups: Sequence[Group]) -> list[str]:
    """How to read the numbers, and every reason to read them with care."""
    notes = list(dict.fromkeys(run.memory for run in results if run.memory))
    if any(len(group.runs) > 1 for group in groups):
        notes.append("mean over seeds ± half of its 95 % interval (Student's t); differences are paired by seed")
    if any(group.oracle for group in groups):
        notes.append("oracle: it saw what no honest run may keep or see")
    if any(run.policy_saw_classes for run in results):
        names = [group.name for group in groups if any(run.policy_saw_classes for run in group.runs)]
        notes.append(f"saw classes: the policy was learned on classes that arrive after phase 0: {'; '.join(names)}")
    if any(map(validation, results)):
        notes.append("evaluated on a share of the training data, not on test data: " + _names(groups, validation))
    if not all(run.complete for run in results):
        notes.append("not complete, numbers so far: " + _names(groups, lambda run: not run.complete))
    return notes


def _names(groups: Sequence[Group], holds: "Measure") -> str:
    names = [group.name for group in groups if any(map(holds, group.runs))]
    return "all runs" if len(names) == len(groups) else "; ".join(names) or NOTHING
