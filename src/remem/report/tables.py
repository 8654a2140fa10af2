"""Tables of runs: what they say is made here once, and written as text, Markdown or (in page.py) HTML."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from remem.evaluation.metrics import mean_interval
from remem.runs.results import PhaseRecord, RunResult

NOTHING = "-"
ROW_NAMES = ("seed", "method.name", "policy")  # settings that never need a column of their own


@dataclass(frozen=True)
class Table:
    """Cells as they are read; the first `labels` columns are words, the others numbers."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    labels: int = 0

    def text(self) -> str:
        """Aligned columns: words to the left, numbers to the right."""
        widths = [max(len(row[column]) for row in (self.header, *self.rows)) for column in range(len(self.header))]
        lines = [self._aligned(self.header, widths), "  ".join("-" * width for width in widths)]
        return "\n".join([*lines, *(self._aligned(row, widths) for row in self.rows)])

    def markdown(self) -> str:
        rule = [":--" if column < self.labels else "--:" for column in range(len(self.header))]
        lines = [self.header, rule, *self.rows]
        return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)

    def _aligned(self, row: Sequence[str], widths: Sequence[int]) -> str:
        cells = (
            cell.ljust(width) if column < self.labels else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        return "  ".join(cells).rstrip()


def summary_table(results: Sequence[RunResult]) -> Table:
    """A row for every setting that was run; over several seeds the mean and its 95 % interval."""
    extra = varying_settings(results)
    rows = []
    for runs in by_settings(results):
        config = runs[0].data["config"]
        settings = dict(flat(config))
        oracle = " (oracle)" if runs[0].data["oracle"] else ""
        cells = [config["method"]["name"] + oracle, config["policy"], *(_word(settings.get(key)) for key in extra)]
        numbers = [_over_seeds([run.data[name] for run in runs]) for name in ("average_accuracy", "last_accuracy")]
        lost = _over_seeds([run.data["forgetting"] for run in runs])
        peak = max(run.data["samples_peak"] for run in runs)
        rows.append((*cells, str(len(runs)), *numbers, lost, str(peak)))
    header = ("method", "policy", *extra, "runs", "average %", "last %", "forgetting", "peak samples")
    return Table(header, tuple(rows), labels=2 + len(extra))


def comparison_table(results: Sequence[RunResult]) -> Table:
    """One row per run, with the memory of the last phase."""
    rows = []
    for run in results:
        last = run.phases[-1] if run.phases else None
        held = (NOTHING, NOTHING) if last is None else (str(last.held_old), str(last.held_new))
        numbers = (run.data["average_accuracy"], run.data["last_accuracy"], run.data["forgetting"])
        rows.append((run.label, *(hundredths(value) for value in numbers), *held))
    header = ("run", "average %", "last %", "forgetting", "old samples held", "new samples held")
    return Table(header, tuple(rows), labels=1)


def phase_table(run: RunResult) -> Table:
    """One row per phase of a run."""
    header = ("phase", "classes", "accuracy %", "CNN %", "NME %", "old share", "held old", "held new")
    return Table(header, tuple(_phase_row(phase) for phase in run.phases))


def totals_line(run: RunResult) -> str:
    """Average, last accuracy and forgetting in words."""
    data = run.data
    return (
        f"average accuracy {hundredths(data['average_accuracy'])} %, last {hundredths(data['last_accuracy'])} %, "
        f"forgetting {hundredths(data['forgetting'])} points"
    )


def by_settings(results: Sequence[RunResult]) -> list[list[RunResult]]:
    """Runs that differ in nothing but the seed belong together."""
    groups: dict[str, list[RunResult]] = {}
    for run in results:
        settings = {key: value for key, value in run.data["config"].items() if key != "seed"}
        groups.setdefault(json.dumps(settings, sort_keys=True), []).append(run)
    return list(groups.values())


def group_names(results: Sequence[RunResult]) -> list[str]:
    """What to call each of `by_settings`: method and policy, and whatever else tells them apart."""
    extra = varying_settings(results)
    names = []
    for runs in by_settings(results):
        settings = dict(flat(runs[0].data["config"]))
        names.append(", ".join([runs[0].label, *(f"{key} {_word(settings[key])}" for key in extra)]))
    return names


def varying_settings(results: Sequence[RunResult]) -> list[str]:
    """Dotted names of the settings that tell these runs apart, beyond method, policy and seed.

    What only one method has is no difference between runs of different methods.
    """
    trees = [dict(flat(run.data["config"])) for run in results]
    shared = [key for key in (trees[0] if trees else {}) if all(key in tree for tree in trees)]
    return [key for key in shared if key not in ROW_NAMES and any(tree[key] != trees[0][key] for tree in trees)]


def flat(tree: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """{'train': {'epochs': 5}} -> ('train.epochs', 5)."""
    for key, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from flat(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value


def hundredths(share: float | None) -> str:
    """0.49153 -> '49.15'."""
    return NOTHING if share is None else f"{100 * share:.2f}"


def _phase_row(phase: PhaseRecord) -> tuple[str, ...]:
    accuracies = (phase.accuracy, phase.accuracy_cnn, phase.accuracy_nme)
    share = NOTHING if phase.action is None else f"{phase.action['old_share']:.2f}"
    counts = (str(phase.held_old), str(phase.held_new))
    return (str(phase.phase), str(phase.classes_seen), *(hundredths(value) for value in accuracies), share, *counts)


def _over_seeds(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return NOTHING
    mean, half = mean_interval(known)
    return hundredths(mean) + ("" if half is None else f" ± {hundredths(half)}")


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
