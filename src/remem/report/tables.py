"""Tables of runs: what they say is made here once, and written as text, Markdown or (in page.py) HTML."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from remem.evaluation.metrics import mean_interval
from remem.runs.results import PhaseRecord, RunResult

NOTHING = "-"
ROW_NAMES = ("seed", "policy")  # settings that never need a column of their own; those of the method have none either
ORACLE = " (oracle)"


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
        last = run.phases[-1] if run.phases else None
        held = (NOTHING, NOTHING) if last is None else (str(last.held_old), str(last.held_new))
        numbers = (run.average_accuracy, run.last_accuracy, run.forgetting)
        rows.append((name, *(hundredths(value) for value in numbers), *held))
    header = ("run", "average %", "last %", "forgetting", "old samples held", "new samples held")
    return Table(header, tuple(rows), labels=1)


def phase_table(run: RunResult) -> Table:
    """One row per phase of a run."""
    header = ("phase", "classes", "accuracy %", "CNN %", "NME %", "old share", "held old", "held new")
    return Table(header, tuple(_phase_row(phase) for phase in run.phases))


def totals_line(run: RunResult) -> str:
    """Average, last accuracy and forgetting in words, and what they were evaluated on if that was no test data."""
    evaluated = f", evaluated on a share of the training data ({validation(run):g})" if validation(run) else ""
    return (
        f"average accuracy {hundredths(run.average_accuracy)} %, last {hundredths(run.last_accuracy)} %, "
        f"forgetting {hundredths(run.forgetting)} points{evaluated}"
    )


def validation(run: RunResult) -> float:
    """The share of the training data that the run was evaluated on; 0: it was evaluated on test data."""
    return float(run.config["scenario"]["validation"])


def by_settings(results: Sequence[RunResult]) -> list[list[RunResult]]:
    """Runs that differ in nothing but the seed belong together."""
    groups: dict[str, list[RunResult]] = {}
    for run in results:
        groups.setdefault(_group_of(run), []).append(run)
    return list(groups.values())


def group_names(results: Sequence[RunResult]) -> list[str]:
    """What to call each of `by_settings`: method and policy, and whatever else tells them apart. No two are equal."""
    extra = varying_settings(results)
    groups = by_settings(results)
    names = []
    for runs, (method, policy) in zip(groups, _method_and_policy(groups), strict=True):
        oracle = ORACLE if runs[0].oracle else ""
        others = (f"{key} {_word(runs[0], key)}" for key in extra)
        names.append(", ".join([f"{method} / {policy}{oracle}", *others]))
    return names


def run_names(results: Sequence[RunResult]) -> list[str]:
    """What to call each run: its group, and its seed if the group has several runs."""
    groups = by_settings(results)
    named = {_group_of(runs[0]): (name, len(runs)) for name, runs in zip(group_names(results), groups, strict=True)}
    names = []
    for run in results:
        name, count = named[_group_of(run)]
        names.append(f"{name}, seed {run.config['seed']}" if count > 1 else name)
    return names


def varying_settings(results: Sequence[RunResult]) -> list[str]:
    """Dotted names of the settings that tell these runs apart, beyond seed, policy, method and the method's own."""
    return [key for key in _differing(results) if key not in ROW_NAMES and not key.startswith("method.")]


def flat(config: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """{'seed': 1, 'train': {'epochs': 5}} -> ('seed', 1), ('train.epochs', 5); tables deeper down are values."""
    for key, value in config.items():
        if isinstance(value, Mapping):
            yield from ((f"{key}.{name}", inner) for name, inner in value.items())
        else:
            yield key, value


def hundredths(share: float | None) -> str:
    """0.49153 -> '49.15'."""
    return NOTHING if share is None else f"{100 * share:.2f}"


def plus_minus(mean: float, half: float | None, sign: str = "") -> str:
    """0.49153, 0.0031 -> '49.15 ± 0.31'; with the sign '+' a difference always has one."""
    return f"{100 * mean:{sign}.2f}" + ("" if half is None else f" ± {hundredths(half)}")


def _phase_row(phase: PhaseRecord) -> tuple[str, ...]:
    accuracies = (phase.accuracy, phase.accuracy_cnn, phase.accuracy_nme)
    share = NOTHING if phase.action is None else f"{phase.action.old_share:.2f}"
    counts = (str(phase.held_old), str(phase.held_new))
    return (str(phase.phase), str(phase.classes_seen), *(hundredths(value) for value in accuracies), share, *counts)


def _over_seeds(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return NOTHING
    return plus_minus(*mean_interval(known))


def _group_of(run: RunResult) -> str:
    return json.dumps({key: value for key, value in run.config.items() if key != "seed"}, sort_keys=True)


def _method_and_policy(groups: Sequence[Sequence[RunResult]]) -> list[tuple[str, str]]:
    """`finetune (replay=false)` and `static` for every group.

    A method's own settings are compared among its own runs: what another method has is no difference. The policy is
    one of them where it decides nothing, since the label then has no place for it.
    """
    firsts = [runs[0] for runs in groups]
    labels = [run.label.removesuffix(ORACLE).split(" / ", 1) for run in firsts]
    kin: dict[str, list[RunResult]] = {}
    idle: dict[str, list[RunResult]] = {}
    for run, (method, policy) in zip(firsts, labels, strict=True):
        kin.setdefault(method, []).append(run)
        if policy == NOTHING:
            idle.setdefault(method, []).append(run)
    own = {method: [key for key in _differing(runs) if key.startswith("method.")] for method, runs in kin.items()}
    unheard = {method for method, runs in idle.items() if "policy" in _differing(runs)}
    names = []
    for run, (method, policy) in zip(firsts, labels, strict=True):
        keys = [*own[method], *(["policy"] if policy == NOTHING and method in unheard else [])]
        words = ", ".join(f"{key.removeprefix('method.')}={_word(run, key)}" for key in keys)
        names.append((f"{method} ({words})" if words else method, policy))
    return names


def _differing(runs: Sequence[RunResult]) -> list[str]:
    """Dotted names of the settings that are not the same in all of these runs; one that a run lacks differs too."""
    keys = dict.fromkeys(key for run in runs for key, _ in flat(run.config))
    return [key for key in keys if len({_word(run, key) for run in runs}) > 1]


def _word(run: RunResult, key: str) -> str:
    """A setting as it is shown; one that the run lacks is `-`."""
    section, dot, name = key.partition(".")
    table, last = (run.config.get(section, {}), name) if dot else (run.config, section)
    if last not in table:
        return NOTHING
    value = table[last]
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)
