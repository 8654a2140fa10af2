"""`remem figure`: runs, studies and policies as figures for print."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from remem.cli.options import Sources, written
from remem.errors import InputError


class Kind(StrEnum):
    """What a figure shows."""

    ACCURACY = "accuracy"
    MEMORY = "memory"
    MATRIX = "matrix"
    POLICY = "policy"


class Format(StrEnum):
    """Kinds of files."""

    PDF = "pdf"
    PNG = "png"
    SVG = "svg"


def figure(
    sources: Sources,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The file to write.", show_default=False)],
    kind: Annotated[Kind, typer.Option("--kind", help="What to draw.")] = Kind.ACCURACY,
    form: Annotated[
        Format | None,
        typer.Option("--format", help="Of the file; by default its name says it.", show_default=False),
    ] = None,
) -> None:
    """Draw runs, studies and policies for print.

    `accuracy` after every phase, with bands over seeds; `memory`: samples per old and per new class, with an enlarged
    view; `matrix`: accuracy on the classes of every phase after every phase; `policy`: what a learned policy does over
    its state space (of a policy folder, or of a run or study with one).

    Example: remem figure my-study --kind memory --out memory.pdf
    """
    from remem.report.plots import KINDS, encode

    kinds = [each.value for each in Format]
    chosen = form or out.suffix.lower().removeprefix(".")
    if chosen not in kinds:
        raise InputError(f"--out: {out} given; expected a name that ends in .{', .'.join(kinds)}, or --format")
    if kind is Kind.POLICY:
        from remem.report.policy_files import one_policy
        from remem.report.policy_plot import policy_figure

        drawn = policy_figure(one_policy(sources))
    else:
        from remem.report.inputs import read_runs

        drawn = KINDS[kind]([run.result for run in read_runs(sources)])
    written(out, encode(drawn, chosen), "figure")
