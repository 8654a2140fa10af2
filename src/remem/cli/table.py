"""`remem table`: runs and studies as a table, the paper's own among them."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from remem.cli.options import Sources, written


class Style(StrEnum):
    """Layouts of a table."""

    SUMMARY = "summary"
    PAPER_1 = "paper-1"
    PAPER_2 = "paper-2"


class Format(StrEnum):
    """How a table is written."""

    TEXT = "text"
    MD = "md"
    LATEX = "latex"
    CSV = "csv"
    JSON = "json"


def table(
    sources: Sources,
    style: Annotated[
        Style, typer.Option("--style", help="One row per setting, or the layout of a table of the paper.")
    ] = Style.SUMMARY,
    form: Annotated[Format, typer.Option("--format", help="How it is written.")] = Format.TEXT,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write it to a file instead of printing it.")
    ] = None,
) -> None:
    """Print runs and studies as a table.

    Numbers are means over seeds with 95 % intervals, and differences to `static` paired by seed. `paper-1` has methods,
    data sets and numbers of phases, with and without a learned policy; `paper-2` the rows of the ablation. Cells
    without runs stay empty. Oracles are marked.

    Example: remem table my-study --style paper-1 --format latex
    """
    from remem.report.inputs import read_runs
    from remem.report.paper_tables import STYLES
    from remem.report.sheet import FORMATS
    from remem.report.summary import summary_sheet

    results = [run.result for run in read_runs(sources)]
    text = FORMATS[form]((STYLES | {"summary": summary_sheet})[style](results))
    if out is None:
        print(text)
        return
    written(out, f"{text}\n".encode(), "table")
