"""The base of all displays, and the progress bars that they share."""

from types import TracebackType
from typing import Self

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn
from rich.table import Column

from remem.events import Emit, Event, Notice

SILENT_SECONDS = 60.0  # pipes get a line about unfinished work after this time without one


def with_notices(emit: Emit) -> Emit:
    """Prints notices on standard error, also those of jobs, each text once, and passes all other events on."""
    said = set[str]()

    def show(event: Event) -> None:
        inner = getattr(event, "progress", event)
        if not isinstance(inner, Notice):
            emit(event)
        elif inner.text not in said:
            said.add(inner.text)
            typer.echo(f"note: {inner.text}", err=True)

    return show


class Display:
    """A context manager that shows something on the console while it is open; this one shows nothing."""

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def open(self) -> None:
        """Starts to show."""

    def close(self) -> None:
        """Leaves the terminal as it was."""


def bar_column() -> BarColumn:
    return BarColumn(None, complete_style="cyan", finished_style="green", table_column=Column(ratio=1, min_width=6))


def text_bars(console: Console, *, named: bool) -> Progress:
    """Bars whose tasks have the text fields `facts` and `times`, and their names in front if there are several."""
    columns: list[ProgressColumn] = [
        bar_column(),
        TextColumn("{task.percentage:>3.0f} %", markup=False),
        TextColumn("{task.fields[facts]}", markup=False, table_column=Column(no_wrap=True)),
        TextColumn("{task.fields[times]}", markup=False, table_column=Column(no_wrap=True, justify="right")),
    ]
    if named:
        columns.insert(0, TextColumn("{task.description}", markup=False))
    return Progress(*columns, console=console, expand=True, refresh_per_second=4)
