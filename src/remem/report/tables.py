"""Tables with formatted cells, as text or Markdown, and those of single runs."""

from collections.abc import Sequence
from dataclasses import dataclass

from remem.report.groups import NOTHING, run_names
from remem.runs.results import PhaseRecord, RunResult


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
    """One row per phase of a run; with codecs and bytes where these are known."""
    header: tuple[str, ...] = ("phase", "classes", "accuracy %", "CNN %", "NME %", "old share", "held old", "held new")
    rows = [_phase_row(phase) for phase in run.phases]
    if any(phase.codec is not None for phase in run.phases):
        header = (*header, "codec", "kB held")
        rows = [(*row, *_stored(phase)) for row, phase in zip(rows, run.phases, strict=True)]
    return Table(header, tuple(rows))


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


def _stored(phase: PhaseRecord) -> tuple[str, str]:
    size = NOTHING if phase.held_bytes is None else f"{phase.held_bytes / 1000:.1f}"
    return phase.codec or NOTHING, size
