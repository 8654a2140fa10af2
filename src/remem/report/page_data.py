"""The numbers of a page as one JSON tree, from which its scripts draw."""

from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from remem.policies.policy import Policy
from remem.report.details import arrival, confusions, course, losses
from remem.report.groups import Group, group_runs, reference_of, run_names
from remem.report.inputs import StoredRun
from remem.report.plots import COLOURS, colour_of
from remem.report.policy_view import as_tree, codecs_of
from remem.report.series import (
    Series,
    accuracy_series,
    codecs_by_phase,
    codecs_in_order,
    counts_bytes,
    gain_series,
    held_series,
    kilobytes_per_class,
    matrix,
    scenarios,
    share_series,
    split_series,
)
from remem.runs.results import RunResult
from remem.types import Json

DIGITS = 4  # of accuracies, as fractions
MOST_CELLS = 60_000  # run x phase x class; what is beyond is left out, and the page says so
MOST_POLICIES = 8
DASHES = ("solid", "dash", "dot", "dashdot")


def page_data(runs: Sequence[StoredRun], policies: Mapping[str, Policy] | None = None) -> Json:
    """Groups, runs and policies. Runs that were stored without their folder have no losses and no confusion."""
    results = [run.result for run in runs]
    groups = group_runs(results)
    place = {id(run): number for number, group in enumerate(groups) for run in group.runs}
    names = run_names(results)
    titles = {id(run): title for title, own in scenarios(results).items() for run in own}
    detailed = _detailed(results)
    return {
        "scenarios": list(scenarios(results)),
        "codecs": codecs_in_order(groups),
        "groups": [
            {**_group(group, number, titles[id(group.runs[0])]), "gain": _gain(group, groups)}
            for number, group in enumerate(groups)
        ],
        "runs": [
            {"name": name, "group": place[id(run.result)], **_run(run, full=number in detailed)}
            for number, (run, name) in enumerate(zip(runs, names, strict=True))
        ],
        "left_out": len(results) - len(detailed),
        "policies": _policies(dict(list((policies or {}).items())[:MOST_POLICIES])),
    }


def _detailed(results: Sequence[RunResult]) -> set[int]:
    """Numbers of the runs whose classes are shown one by one: as many as there is room for, first seeds first."""
    order = sorted(range(len(results)), key=lambda number: results[number].config["seed"])
    chosen, room = set(), MOST_CELLS
    for number in order:
        cells = len(results[number].phases) * len(results[number].class_names)
        if cells <= room:
            chosen.add(number)
            room -= cells
    return chosen


def _group(group: Group, number: int, scenario: str) -> Json:
    old, new = held_series(group)
    return {
        "name": group.name,
        "scenario": scenario,
        "colour": colour_of(number),
        "dash": DASHES[number // len(COLOURS) % len(DASHES)],
        "oracle": group.oracle,
        "accuracy": _series(accuracy_series(group)),
        "old": _series(old),
        "new": _series(new),
        "bytes": [_series(one) for one in held_series(group, kilobytes_per_class)] if counts_bytes(group) else None,
        "share": _series(share_series(group)),
        "split": _series(split_series(group)),
        "codecs": {str(phase): codecs for phase, codecs in codecs_by_phase(group).items()},
        "matrix": [[_short(value) for value in row] for row in matrix(group).tolist()],
        "forgetting": [_short(value) for value in _forgetting(group)],
    }


def _gain(group: Group, groups: Sequence[Group]) -> Json | None:
    """Accuracy minus that of `static`, where there is one to compare with."""
    reference = reference_of(group, groups)
    gain = None if reference is None else gain_series(group, reference)
    return None if gain is None else _series(gain)


def _forgetting(group: Group) -> list[float]:
    """What the classes of every phase but the last have lost from their best to their last accuracy; over seeds."""
    size = min(len(run.phases) for run in group.runs)
    lost = []
    for run in group.runs:
        rows = [phase.accuracy_by_phase for phase in run.phases[:size]]
        lost.append([max(row[j] for row in rows[j:-1]) - rows[-1][j] for j in range(size - 1)])
    return [float(value) for value in np.mean(lost, axis=0)] if size > 1 else []


def _run(run: StoredRun, *, full: bool) -> Json:
    result = run.result
    tree: Json = {
        "seed": result.config["seed"],
        "path": str(run.path),
        "classes": list(result.class_names) if full else [],
        "arrival": arrival(result).tolist() if full else [],
        "losses": losses(run.folder) if full else [],
        "confusion": confusions(run.folder, result) if full else None,
    }
    if full:
        tree["accuracy"] = [_by_class(phase.accuracy_per_class) for phase in result.phases]
        tree["held"] = [_by_class(phase.held_per_class) for phase in result.phases]
    return tree


def _by_class(values: Mapping[str, Any]) -> list[Any]:
    """Values in class order; `null` for a class without one."""
    size = 1 + max((int(key) for key in values), default=-1)
    found: list[Any] = [None] * size
    for key, value in values.items():
        found[int(key)] = value if isinstance(value, int) else _short(value)
    return found


def _series(series: Series) -> Json:
    return {
        "x": list(series.phases),
        "y": [_short(mean) for mean in series.means],
        "half": [_short(half) for half in series.halves],
    }


def _policies(policies: Mapping[str, Policy]) -> list[Json]:
    """Policies by the shortest part of their paths that tells them apart: a list of choices has no room for more."""
    paths = [Path(name).parts for name in policies]
    alike = next(n for n in count() if len({own[: n + 1] for own in paths}) > 1) if len(paths) > 1 else -1
    short = ["/".join(own[alike:]) for own in paths]
    return [_policy(name, policy, shown) for (name, policy), shown in zip(policies.items(), short, strict=True)]


def _policy(name: str, policy: Policy, shown: str) -> Json:
    tree = as_tree(policy)
    kept = {key: value for key, value in tree.items() if key.startswith("level")}
    paths = [{"phases": path["phases"], "steps": [_step(step) for step in path["steps"]]} for path in tree["paths"]]
    codecs = list(codecs_of(policy))
    return {
        "name": shown,
        "oracle": policy.oracle,
        "course": course(Path(name)),
        "paths": paths,
        "codecs": codecs if len(codecs) > 1 else [],
        **kept,
    }


def _step(step: Json) -> Json:
    return {"share": step["old_share"], "split": step["level2"], "codec": step.get("codec")}


def _short(value: float | None) -> float | None:
    return None if value is None or not np.isfinite(value) else round(value, DIGITS)
