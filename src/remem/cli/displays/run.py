"""The display of one or more runs: bars on a terminal, one line per phase elsewhere, nothing when quiet."""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from rich.console import Console
from rich.progress import Progress, ProgressColumn, Task, TaskID, TextColumn
from rich.table import Column
from rich.text import Text

from remem.cli.console import clock, percent
from remem.cli.displays.base import Display, bar_column
from remem.cli.displays.progress import RunProgress
from remem.events import Emit, Event
from remem.methods.events import EpochEnded
from remem.runs.events import PhaseEvaluated


class RunDisplay(Display):
    """Follows runs by name and shows nothing: the display of `--quiet`, and the base of the others."""

    def __init__(self, names: Sequence[str], now: Callable[[], float] = time.monotonic) -> None:
        self.runs = {name: RunProgress(name, now) for name in names}

    def subscriber(self, name: str) -> Emit:
        """What takes the events of one run."""
        return partial(self.emit, name)

    def emit(self, name: str, event: Event) -> None:
        """Takes an event of the run called `name`."""
        self.runs[name].update(event)
        self.show(self.runs[name], event)

    def show(self, run: RunProgress, event: Event) -> None:
        """Called after `run` has been updated."""


class RunLines(RunDisplay):
    """For pipes and logs: an estimate after the first epoch, then one line per phase."""

    def __init__(self, names: Sequence[str], console: Console, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__(names, now)
        self._console = console
        self._estimated: set[str] = set()

    def show(self, run: RunProgress, event: Event) -> None:
        if isinstance(event, EpochEnded) and run.name not in self._estimated:
            self._estimated.add(run.name)
            self._line(run, f"began phase {run.phase} of {run.phases}")
        elif isinstance(event, PhaseEvaluated):
            self._line(run, f"phase {run.phase} of {run.phases} done, accuracy {percent(run.accuracy)}")

    def _line(self, run: RunProgress, text: str) -> None:
        name = f"{run.name}: " if len(self.runs) > 1 else ""
        left = "" if not run.left or run.share == 1 else f", about {clock(run.left)} left"
        self._console.print(f"{name}{text}, {clock(run.elapsed)} so far{left}", markup=False, highlight=False)


class RunBars(RunDisplay):
    """For terminals: a bar for every run, with phase, stage, epoch, loss, latest accuracy and time left."""

    def __init__(self, names: Sequence[str], console: Console) -> None:
        super().__init__(names)
        columns: list[ProgressColumn] = [
            bar_column(),
            TextColumn("{task.percentage:>3.0f} %", markup=False),
            _Facts(self.runs),
            _Times(self.runs),
        ]
        if len(names) > 1:
            columns.insert(0, TextColumn("{task.description}", markup=False))
        self._progress = Progress(*columns, console=console, expand=True, refresh_per_second=4)
        self._tasks: dict[str, TaskID] = {}

    def open(self) -> None:
        self._tasks = {name: self._progress.add_task(name, total=1.0) for name in self.runs}
        self._progress.start()

    def close(self) -> None:
        self._progress.stop()

    def show(self, run: RunProgress, event: Event) -> None:
        self._progress.update(self._tasks[run.name], completed=run.share)


class _Facts(ProgressColumn):
    def __init__(self, runs: Mapping[str, RunProgress]) -> None:
        super().__init__(table_column=Column(no_wrap=True))
        self._runs = runs

    def render(self, task: Task) -> Text:
        run = self._runs[task.description]
        if run.work is None:
            return Text("reading the data")
        parts = [f"phase {run.phase}/{run.phases} {run.doing}"]
        if run.loss is not None:
            parts.append(f"loss {run.loss:.3f}")
        if run.accuracy is not None:
            parts.append(percent(run.accuracy))
        return Text("  ".join(parts))


class _Times(ProgressColumn):
    def __init__(self, runs: Mapping[str, RunProgress]) -> None:
        super().__init__(table_column=Column(no_wrap=True, justify="right"))
        self._runs = runs

    def render(self, task: Task) -> Text:
        return Text(times(self._runs[task.description]))


def times(run: RunProgress) -> str:
    """`1:15, 0:30 left`."""
    left = "" if run.left is None or run.share == 1 else f", {clock(run.left)} left"
    return f"{clock(run.elapsed)}{left}"


def open_run_display(names: Sequence[str], console: Console, *, quiet: bool) -> RunDisplay:
    """The display that fits the console."""
    if quiet:
        return RunDisplay(names)
    return RunBars(names, console) if console.is_terminal else RunLines(names, console)
