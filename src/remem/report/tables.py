"""Tables of runs, written as text, as Markdown or, in page.py, as HTML."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from remem.evaluation.metrics import mean_interval
from remem.runs.results import PhaseRecord, RunResult

NOTHING = "-"
ROW_NAMES = ("seed", "policy")  # settings that name a row; neither they nor those of the method have a column
ORACLE = " (oracle)"


@dataclass(frozen=True)
class Table:
    """Formatted cells; the first `labels` columns are words, the others numbers."""

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
    """One row per setting; for several seeds the mean and its 95 % interval."""
    extra = varying_settings(results)
    groups = by_settings(results)
    rows = []
    for runs, (method, policy) in zip(groups, _method_and_policy(groups), strict=True):
        oracle = ORACLE if runs[0].oracle else ""
        cells = [method + oracle, policy, *(_word(runs[0], key) for key in extra)]
        numbers = [_over_seeds([getattr(run, name) for run in runs]) for name in ("average_accuracy", "last_accuracy")]
        lost = _over_seeds([run.forgetting for run in runs])
        peak = max(run.samples_peak for run in runs)
        rows.append((*cells, str(len(runs)), *numbers, lost, str(peak)))
    header = ("method", "policy", *extra, "runs", "average %", "last %", "forgetting", "peak samples")
    return Table(header, tuple(rows), labels=2 + len(extra))


def comparison_table(results: Sequence[RunResult]) -> Table:
    """One row per run, with the memory of the last phase."""
    rows = []
    for run, name in zip(results, run_names(results), strict=True):
        held = (str(run.phases[-1].held_old), str(run.phases[-1].held_new))
        numbers = (run.average_accuracy, run.last_accuracy, run.forgetting)
        rows.append((name, *(hundredths(value) for value in numbers), *held))
    header = ("run", "average %", "last %", "forgetting", "old samples held", "new samples held")
    return Table(header, tuple(rows), labels=1)


def phase_table(run: RunResult) -> Table:
    """One row per phase of a run."""
    header = ("phase", "classes", "accuracy %", "CNN %", "NME %", "old share", "held old", "held new")
    return Table(header, tuple(_phase_row(phase) for phase in run.phases))


def totals_line(run: RunResult) -> str:
    """Average, last accuracy and forgetting in words, and a note if they are not from test data."""
    evaluated = f", evaluated on a share of the training data ({validation(run):g})" if validation(run) else ""
    return (
        f"average accuracy {hundredths(run.average_accuracy)} %, last {hundredths(run.last_accuracy)} %, "
        f"forgetting {hundredths(run.forgetting)} points{evaluated}"
    )


def validation(run: RunResult) -> float:
    """The share of the training data that the run was evaluated on; 0: it was evaluated on test data."""
    return float(run.config["scenario"]["validation"])


def by_settings(results: Sequence[RunResult]) -> list[list[RunResult]]:
    """Groups of runs that differ only in the seed."""
    groups: dict[str, list[RunResult]] = {}
    for run in results:
        groups.setdefault(_group_of(run), []).append(run)
    return list(groups.values())


def group_names(results: Sequence[RunResult]) -> list[str]:
    """A unique name for each group of `by_settings`: method, policy and whatever else tells them apart."""
    extra = varying_settings(results)
    groups = by_settings(results)
    names = []
    for runs, (method, policy) in zip(groups, _method_and_policy(groups), strict=True):
        oracle = ORACLE if runs[0].oracle else ""
        others = (f"{key} {_word(runs[0], key)}" for key in extra)
        names.append(", ".join([f"{method} / {policy}{oracle}", *others]))
    return names


def run_names(results: Sequence[RunResult]) -> list[str]:
    """A name for each run: its group's, with the seed if the group has several runs."""
    groups = by_settings(results)
    named = {_group_of(runs[0]): (name, len(runs)) for name, runs in zip(group_names(results), groups, strict=True)}
    names = []
    for run in results:
        name, count = named[_group_of(run)]
        names.append(f"{name}, seed {run.config['seed']}" if count > 1 else name)
    return names


def varying_settings(results: Sequence[RunResult]) -> list[str]:
    """Dotted names of the settings that differ between runs, except seed, policy and those of the method."""
    return [key for key in _differing(results) if key not in ROW_NAMES and not key.startswith("method.")]


def flat(config: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """{'seed': 1, 'train': {'epochs': 5}} -> ('seed', 1), ('train.epochs', 5); deeper tables are values."""
    for key, value in config.items():
        if isinstance(value, Mapping):
            yield from ((f"{key}.{name}", inner) for name, inner in value.items())
        else:
            yield key, value


def hundredths(share: float | None) -> str:
    """0.49153 -> '49.15'."""
    return NOTHING if share is None else f"{100 * share:.2f}"


def plus_minus(mean: float, half: float | None, sign: str = "") -> str:
    """0.49153, 0.0031 -> '49.15 ± 0.31'; with sign='+' positive numbers have a plus sign."""
    return f"{100 * mean:{sign}.2f}" + ("" if half is None else f" ± {hundredths(half)}")


def _phase_row(phase: PhaseRecord) -> tuple[str, ...]:
    accuracies = (phase.accuracy, phase.accuracy_cnn, phase.accuracy_nme)
    share = NOTHING if phase.action is None else f"{phase.action.old_share:.2f}"
    counts = (str(phase.held_old), str(phase.held_new))
    return (str(phase.phase), str(phase.classes_seen), *(hundredths(value) for value in accuracies), share, *counts)


def _over_seeds(values: Sequence[float]) -> str:
    return plus_minus(*mean_interval(values))


def _group_of(run: RunResult) -> str:
    return json.dumps({key: value for key, value in run.config.items() if key != "seed"}, sort_keys=True)


def _method_and_policy(groups: Sequence[Sequence[RunResult]]) -> list[tuple[str, str]]:
    """`finetune (replay=false)` and `static` for every group.

    Settings of a method are compared among its own runs only. Where the policy decides nothing, the label does not
    show it, and it counts as one of these settings.
    """
    firsts = [runs[0] for runs in groups]
    labels = [run.label.removesuffix(ORACLE).split(" / ", 1) for run in firsts]
    by_method: dict[str, list[RunResult]] = {}
    without_policy: dict[str, list[RunResult]] = {}
    for run, (method, policy) in zip(firsts, labels, strict=True):
        by_method.setdefault(method, []).append(run)
        if policy == NOTHING:
            without_policy.setdefault(method, []).append(run)
    own = {method: [key for key in _differing(runs) if key.startswith("method.")] for method, runs in by_method.items()}
    named_by_policy = {method for method, runs in without_policy.items() if "policy" in _differing(runs)}
    names = []
    for run, (method, policy) in zip(firsts, labels, strict=True):
        keys = [*own[method], *(["policy"] if policy == NOTHING and method in named_by_policy else [])]
        words = ", ".join(f"{key.removeprefix('method.')}={_word(run, key)}" for key in keys)
        names.append((f"{method} ({words})" if words else method, policy))
    return names


def _differing(runs: Sequence[RunResult]) -> list[str]:
    """Dotted names of the settings that differ between these runs; a missing one differs too."""
    keys = dict.fromkeys(key for run in runs for key, _ in flat(run.config))
    return [key for key in keys if len({_word(run, key) for run in runs}) > 1]


def _word(run: RunResult, key: str) -> str:
    """A setting as text; `-` if the run lacks it."""
    section, dot, name = key.partition(".")
    table, last = (run.config.get(section, {}), name) if dot else (run.config, section)
    if last not in table:
        return NOTHING
    value = table[last]
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)
