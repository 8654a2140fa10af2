"""`remem report`: runs and studies as one self-contained page."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from remem.cli.options import DataRoot, Sources
from remem.errors import InputError


def report(
    sources: Sources,
    out: Annotated[Path, typer.Option("--out", metavar="FILE.html", help="The page to write.", show_default=False)],
    title: Annotated[str | None, typer.Option("--title", help="Its title.", show_default=False)] = None,
    data_root: DataRoot = None,
) -> None:
    """Write runs and studies as one self-contained page.

    Accuracy, memory, forgetting, classes, confusion, losses, policies, and pictures that are remembered and dropped:
    whatever the folders have. Figures and tables are interactive; no request leaves the page. A winner is named only
    where paired intervals support one.

    Example: remem report my-study --out report.html
    """
    from remem.report.inputs import read_runs

    runs = read_runs(sources)  # what is not there is refused before the figures' libraries are imported
    from remem.report.page import Origin, write_page
    from remem.report.policy_files import find_policies

    words = ["remem", "report", *map(str, sources), "--out", str(out)]
    words += ["--title", title] if title else []
    named = title or ", ".join(_name(path.resolve()) for path in sources)
    origin = Origin(named, shlex.join(words), find_policies(sources), data_root)
    try:
        write_page(runs, out, origin)
    except OSError as error:
        raise InputError(f"--out: {out} cannot be written ({error.strerror})") from error
    typer.echo(f"report: {out}", err=True)


def _name(path: Path) -> str:
    """The name of a run or study; its folder `runs` has the study's name."""
    return path.parent.name if path.name == "runs" else path.name
