"""A study in numbers: means over seeds with 95 % intervals, and paired differences to its first policy."""

from collections.abc import Mapping, Sequence
from typing import Any

import remem
from remem.evaluation.metrics import mean_interval
from remem.runs.results import RunResult
from remem.studies.grid import METHOD, PATHS, PHASES, POLICY, SEED, Study, StudyRun

FORMAT = 1
NUMBERS = ("average_accuracy", "last_accuracy", "forgetting")
COMPARED = ("average_accuracy", "last_accuracy")  # with the first policy

Cell = tuple[tuple[str, int], ...]  # numbers of the values on all axes but the seed


def summarise_study(study: Study, results: Mapping[str, RunResult]) -> dict[str, Any]:
    """What `summary.json` says: a row for everything but the seed, and every run."""
    groups: dict[Cell, list[StudyRun]] = {}
    for run in study.runs:
        groups.setdefault(_cell(run), []).append(run)
    rows = []
    for cell, runs in groups.items():
        base = groups[tuple((key, 0 if key == POLICY else number) for key, number in cell)]
        rows.append(_row(study, runs, base, results))
    return {
        "format": FORMAT,
        "remem": remem.__version__,
        "rows": rows,
        "runs": [_run(study, run, results[run.name]) for run in study.runs],
    }


def _cell(run: StudyRun) -> Cell:
    return tuple((key, number) for key, number in run.place.items() if key != SEED)


def _row(
    study: Study, runs: Sequence[StudyRun], base: Sequence[StudyRun], results: Mapping[str, RunResult]
) -> dict[str, Any]:
    data = [results[run.name] for run in runs]
    against = [results[run.name] for run in base]  # the same seeds in the same order
    row: dict[str, Any] = {
        **_place(study, runs[0]),
        "oracle": any(one.oracle for one in data),
        "policy_saw_classes": any(one.policy_saw_classes for one in data),
        "seeds": [run.config.seed for run in runs],
        **{name: _spread([getattr(one, name) for one in data]) for name in NUMBERS},
        "difference": None,
    }
    if runs[0].place[POLICY]:
        pairs = list(zip(data, against, strict=True))
        differences = {
            name: _spread([getattr(one, name) - getattr(other, name) for one, other in pairs]) for name in COMPARED
        }
        row["difference"] = {"policy": _word(study, base[0], POLICY), **differences}
    return row


def _run(study: Study, run: StudyRun, result: RunResult) -> dict[str, Any]:
    facts = {name: getattr(result, name) for name in ("oracle", "policy_saw_classes", *NUMBERS)}
    return {"name": run.name, **_place(study, run), "seed": run.config.seed, **facts}


def _place(study: Study, run: StudyRun) -> dict[str, Any]:
    """Where a run stands in the grid, apart from its seed; no path of the machine."""
    return {
        "method": run.config.method.name,
        "policy": _word(study, run, POLICY),
        "phases": run.config.scenario.phases,
        "settings": {
            axis.key: (axis.words if axis.key in PATHS else axis.values)[run.place[axis.key]]
            for axis in study.axes
            if axis.key not in (SEED, METHOD, PHASES, POLICY)
        },
    }


def _word(study: Study, run: StudyRun, key: str) -> str:
    return next(axis.words[run.place[key]] for axis in study.axes if axis.key == key)


def _spread(values: Sequence[float]) -> dict[str, float | None]:
    mean, half = mean_interval(values)
    return {"mean": mean, "half_width": half}
