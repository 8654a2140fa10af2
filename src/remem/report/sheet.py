"""Tables whose cells are values, written as text, Markdown, LaTeX, CSV or JSON."""

import csv
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal

from remem.report.groups import NOTHING
from remem.report.tables import Table, plus_minus
from remem.runs.results import Spread

Cell = str | int | Spread | None  # None: there is no such number
Kind = Literal["words", "count", "percent", "difference"]


@dataclass(frozen=True)
class Column:
    """A column under one or several heads, from the outermost to its own."""

    heads: tuple[str, ...]
    kind: Kind = "percent"

    @property
    def name(self) -> str:
        return " ".join(head for head in self.heads if head)


@dataclass(frozen=True)
class Sheet:
    """Columns, rows, the rows that begin a new block, and notes on how to read it. Spreads are fractions."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    blocks: frozenset[int] = frozenset()  # numbers of rows that have a rule above them
    notes: tuple[str, ...] = ()
    differences: frozenset[int] = frozenset()  # numbers of rows that are differences

    def table(self) -> Table:
        """The same with formatted cells."""
        words = sum(column.kind == "words" for column in self.columns)
        rows = (tuple(plain_cell(cell, sign) for cell, sign in self.signed(number)) for number in range(len(self.rows)))
        return Table(tuple(column.name for column in self.columns), tuple(rows), labels=words)

    def signed(self, row: int) -> list[tuple[Cell, str]]:
        """The cells of a row, each with the sign that positive numbers have there."""
        whole = row in self.differences
        signs = ("+" if whole or column.kind == "difference" else "" for column in self.columns)
        return list(zip(self.rows[row], signs, strict=True))


def plain_cell(cell: Cell, sign: str = "") -> str:
    """`49.15 ± 0.31`; `-` for a number that is missing."""
    if isinstance(cell, Spread):
        return plus_minus(cell.mean, cell.half_width, sign)
    return NOTHING if cell is None else str(cell)


def as_text(sheet: Sheet) -> str:
    """Aligned columns, a rule above every block, and the notes."""
    head, rule, *rows = sheet.table().text().splitlines()
    lines = [head, rule]
    for number, row in enumerate(rows):
        lines += [rule, row] if number in sheet.blocks else [row]
    return "\n".join([*lines, *([""] if sheet.notes else []), *sheet.notes])


def as_markdown(sheet: Sheet) -> str:
    notes = [f"- {note}" for note in sheet.notes]
    return "\n".join([sheet.table().markdown(), *([""] if notes else []), *notes])


def as_csv(sheet: Sheet) -> str:
    """Two columns for every number with an interval, both in percent; empty cells are missing numbers."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([name for column in sheet.columns for name in _csv_names(column)])
    for row in sheet.rows:
        writer.writerow(
            [value for column, cell in zip(sheet.columns, row, strict=True) for value in _csv(column, cell)]
        )
    return text.getvalue().rstrip("\n")


def as_json(sheet: Sheet) -> str:
    """Rows by the names of columns; numbers are fractions, as in `result.json`, and missing ones are null."""
    names = [column.name for column in sheet.columns]
    rows = [dict(zip(names, map(_json, row), strict=True)) for row in sheet.rows]
    return json.dumps({"columns": names, "rows": rows, "notes": list(sheet.notes)}, indent=1, ensure_ascii=False)


def as_latex(sheet: Sheet) -> str:
    """A tabular in the manner of booktabs; notes are comments below it."""
    letters = "".join("l" if column.kind == "words" else "r" for column in sheet.columns)
    lines = [r"% needs \usepackage{booktabs}", rf"\begin{{tabular}}{{{letters}}}", r"\toprule"]
    lines += _latex_heads(sheet.columns)
    lines.append(r"\midrule")
    for number in range(len(sheet.rows)):
        if number in sheet.blocks:
            lines.append(r"\midrule")
        lines.append(" & ".join(latex_cell(cell, sign) for cell, sign in sheet.signed(number)) + r" \\")
    lines += [r"\bottomrule", r"\end{tabular}"]
    return "\n".join([*lines, *(f"% {note}" for note in sheet.notes)])


FORMATS: dict[str, Callable[[Sheet], str]] = {
    "text": as_text,
    "md": as_markdown,
    "latex": as_latex,
    "csv": as_csv,
    "json": as_json,
}

ESCAPES = {character: f"\\{character}" for character in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "±": r"$\pm$",
}


def escape_latex(text: str) -> str:
    """Text that LaTeX prints as it is; a line break becomes a space."""
    return "".join(ESCAPES.get(character, character) for character in " ".join(text.split("\n")))


def latex_cell(cell: Cell, sign: str = "") -> str:
    if cell is None:
        return "--"
    if not isinstance(cell, Spread):
        indent = len(str(cell)) - len(str(cell).lstrip())
        return r"\quad " * (indent > 0) + escape_latex(str(cell).strip())
    half = "" if cell.half_width is None else rf" \pm {100 * cell.half_width:.2f}"
    return f"${100 * cell.mean:{sign}.2f}{half}$"


def _latex_heads(columns: Sequence[Column]) -> list[str]:
    """One line per level of heads; neighbours with equal heads share one, with a rule under it."""
    depth = max(len(column.heads) for column in columns)
    padded = [("",) * (depth - len(column.heads)) + column.heads for column in columns]
    lines = []
    for level in range(depth):
        cells, rules, place = [], [], 1
        for heads, same in groupby(padded, key=lambda heads: heads[: level + 1]):
            width = len(list(same))
            word = escape_latex(heads[level])
            joined = level < depth - 1 and bool(word)
            cells += [rf"\multicolumn{{{width}}}{{c}}{{{word}}}"] if joined else [word, *[""] * (width - 1)]
            rules += [rf"\cmidrule(lr){{{place}-{place + width - 1}}}"] if joined else []
            place += width
        lines.append(" & ".join(cells) + r" \\")
        lines += [" ".join(rules)] if rules else []
    return lines


def _csv_names(column: Column) -> list[str]:
    return [column.name, f"{column.name} ±"] if column.kind in ("percent", "difference") else [column.name]


def _csv(column: Column, cell: Cell) -> list[str]:
    if column.kind not in ("percent", "difference"):
        return ["" if cell is None else str(cell).strip()]
    if not isinstance(cell, Spread):
        return ["", ""]
    return [f"{100 * cell.mean:.4f}", "" if cell.half_width is None else f"{100 * cell.half_width:.4f}"]


def _json(cell: Cell) -> Any:
    if isinstance(cell, Spread):
        return {"mean": cell.mean, "half_width": cell.half_width}
    return cell.strip() if isinstance(cell, str) else cell
