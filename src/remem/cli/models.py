"""What the commands over a model folder share."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from remem.cli.boundary import Stopped
from remem.cli.console import size
from remem.errors import InputError
from remem.estimator.versions import ModelFolder
from remem.interrupts import exit_code

if TYPE_CHECKING:
    from remem.estimator.account import MemoryTable

ModelPath = Annotated[Path, typer.Argument(metavar="MODEL", help="The folder of the model.", show_default=False)]


@contextmanager
def interruptible(folder: ModelFolder) -> Iterator[None]:
    """Turns Ctrl-C, SIGTERM and SIGHUP into one line that says which version the folder holds."""
    before = _latest(folder)
    try:
        yield
    except KeyboardInterrupt as stopped:
        now = _latest(folder)
        stays = f"{folder.path} {'stays' if now == before else 'is now'} at version {now}"
        typer.echo(f"stopped; {stays if now else 'nothing was written'}", err=True)
        raise Stopped(exit_code(stopped)) from None


def _latest(folder: ModelFolder) -> int | None:
    """The current version for a line that nothing may stop."""
    try:
        return next(iter(folder.versions()[::-1]), None)
    except (InputError, OSError):
        return None


def budget_in_words(setting: str) -> str:
    """`2000000B` -> `2.0 MB`; `2000` -> `2000 samples`."""
    number = setting.removesuffix("B")
    return (size(int(number)) if number != setting else f"{number} samples") if number.isdigit() else setting


def held_in_words(table: "MemoryTable") -> str:
    """What is held, against the budget."""
    held = f"{table.total_samples} samples of {len(table)} classes"
    if table.budget_bytes is not None:
        return f"{held}, {size(table.total_bytes)} of {size(table.budget_bytes)}"
    limit = f"at most {table.budget}" if table.budget.isdigit() else table.budget
    return f"{held}, {limit}; {size(table.total_bytes)}"


def versions_in_words(folder: ModelFolder) -> str:
    count = len(folder.versions())
    kept = f"{count} versions kept" if count > 1 else "no older version kept"
    each = ", each with exemplars of its own" if count > 1 else ""
    return f"{kept}, {size(folder.size())} on disk{each}"


def listed(names: "list[str] | tuple[str, ...]", most: int = 8) -> str:
    """`a, b, c`; `a, b, ... and 12 more`."""
    shown = ", ".join(map(printable, names[:most]))
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def printable(text: str) -> str:
    """Without line breaks and control characters, which would break a table, or more."""
    return "".join(character if character.isprintable() else "?" for character in text)
