"""The table of a study's summary, and notes on how to read it."""

from remem.report.groups import NOTHING, ORACLE
from remem.report.tables import Table, plus_minus
from remem.runs.results import Spread
from remem.studies.summary import StudySummary, SummaryRow


def study_table(summary: StudySummary) -> Table:
    """The rows of a summary, with a column for every varied setting and for every comparison."""
    rows = summary.rows
    first = rows[0].policy
    phases = ["phases"] if len({row.phases for row in rows}) > 1 else []
    varied = [key for key in rows[0].settings if len({str(row.settings[key]) for row in rows}) > 1]
    compares = len({row.policy for row in rows}) > 1
    cells = []
    for row in rows:
        places = [row.phases] * len(phases) + [row.settings[key] for key in varied]
        words = [row.method, row.policy + (ORACLE if row.oracle else ""), *map(str, places)]
        numbers = [_text(row.average_accuracy), _text(row.last_accuracy)]
        differences = _differences(row) if compares else []
        saw = "yes" if row.policy_saw_classes else "no"
        cells.append((*words, str(len(row.seeds)), *numbers, *differences, saw))
    against = (f"average - {first}", f"last - {first}") if compares else ()
    header = ("method", "policy", *phases, *varied, "seeds", "average %", "last %", *against, "saw classes")
    return Table(header, tuple(cells), labels=2 + len(phases) + len(varied))


def notes(summary: StudySummary) -> list[str]:
    """How to read the table."""
    lines = list(summary.memory)
    if any(len(row.seeds) > 1 for row in summary.rows):
        lines.append("mean over seeds ± half of its 95 % interval (Student's t); differences are paired by seed")
    if any(row.oracle for row in summary.rows):
        lines.append("oracle: it saw what no honest run may keep or see")
    if any(row.policy_saw_classes for row in summary.rows):
        lines.append("saw classes: the policy was learned on classes that arrive after phase 0")
    return lines


def _differences(row: SummaryRow) -> list[str]:
    if row.difference is None:
        return [NOTHING, NOTHING]
    return [_text(spread, sign="+") for spread in (row.difference.average_accuracy, row.difference.last_accuracy)]


def _text(spread: Spread, sign: str = "") -> str:
    return plus_minus(spread.mean, spread.half_width, sign)
