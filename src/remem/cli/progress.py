"""What is shown while runs go on: bars on a terminal, a line per phase elsewhere, nothing when quiet."""

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn
from rich.table import Column
from rich.text import Text

from remem.cli.work import Track


class Display:
    """Something on the console for as long as it is open; this one shows nothing."""

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def open(self) -> None:
        """Begins to show."""

    def close(self) -> None:
        """Leaves the terminal as it was."""


class Board(Display):
    """Follows runs by name and shows nothing: the display of `--quiet`, and the base of the others."""

    def __init__(self, names: Sequence[str]) -> None:
        self.tracks = {name: Track(name) for name in names}

    def tell(self, name: str, event: Mapping[str, Any]) -> None:
        """An event of the run called `name`."""
        self.tracks[name].take(event)
        self.show(self.tracks[name], event)

    def show(self, track: Track, event: Mapping[str, Any]) -> None:
        """After `track` has taken the event."""


class LineBoard(Board):
    """For pipes and logs: the estimate after the first epoch, then one line per phase."""

    def __init__(self, names: Sequence[str], console: Console) -> None:
        super().__init__(names)
        self._console = console
        self._estimated: set[str] = set()

    def show(self, track: Track, event: Mapping[str, Any]) -> None:
        if event["event"] == "epoch" and track.name not in self._estimated:
            self._estimated.add(track.name)
            self._line(track, f"began phase {track.phase} of {track.phases}")
        elif event["event"] == "evaluated":
            self._line(track, f"phase {track.phase} of {track.phases} done, accuracy {percent(track.accuracy)}")

    def _line(self, track: Track, text: str) -> None:
        named = f"{track.name}: " if len(self.tracks) > 1 else ""
        left = "" if not track.left or track.share == 1 else f", about {clock(track.left)} left"
        self._console.print(f"{named}{text}, {clock(track.elapsed)} so far{left}", markup=False, highlight=False)


class LiveBoard(Board):
    """For terminals: a bar for every run, with phase, stage, epoch, loss, latest accuracy and time left."""

    def __init__(self, names: Sequence[str], console: Console) -> None:
        super().__init__(names)
        columns: list[ProgressColumn] = [
            BarColumn(None, complete_style="cyan", finished_style="green", table_column=Column(ratio=1, min_width=6)),
            TextColumn("{task.percentage:>3.0f} %", markup=False),
            _Facts(self.tracks),
            _Times(self.tracks),
        ]
        if len(names) > 1:
            columns.insert(0, TextColumn("{task.description}", markup=False))
        self._progress = Progress(*columns, console=console, expand=True, refresh_per_second=4)
        self._tasks: dict[str, TaskID] = {}

    def open(self) -> None:
        self._tasks = {name: self._progress.add_task(name, total=1.0) for name in self.tracks}
        self._progress.start()

    def close(self) -> None:
        self._progress.stop()

    def show(self, track: Track, event: Mapping[str, Any]) -> None:
        self._progress.update(self._tasks[track.name], completed=track.share)


class _Facts(ProgressColumn):
    def __init__(self, tracks: Mapping[str, Track]) -> None:
        super().__init__(table_column=Column(no_wrap=True))
        self._tracks = tracks

    def render(self, task: Task) -> Text:
        track = self._tracks[task.description]
        if track.work is None:
            return Text("reading the data")
        parts = [f"phase {track.phase}/{track.phases} {track.doing}"]
        if track.loss is not None:
            parts.append(f"loss {track.loss:.3f}")
        if track.accuracy is not None:
            parts.append(percent(track.accuracy))
        return Text("  ".join(parts))


class _Times(ProgressColumn):
    def __init__(self, tracks: Mapping[str, Track]) -> None:
        super().__init__(table_column=Column(no_wrap=True, justify="right"))
        self._tracks = tracks

    def render(self, task: Task) -> Text:
        track = self._tracks[task.description]
        left = "" if track.left is None or track.share == 1 else f", {clock(track.left)} left"
        return Text(f"{clock(track.elapsed)}{left}")


def open_board(names: Sequence[str], console: Console, *, quiet: bool) -> Board:
    """The display that fits: a context manager whose `tell` takes events."""
    if quiet:
        return Board(names)
    return LiveBoard(names, console) if console.is_terminal else LineBoard(names, console)


def worded_bars(console: Console, *, named: bool) -> Progress:
    """Bars with a percentage, facts and times in words, and a name in front where there are several."""
    columns: list[ProgressColumn] = [
        BarColumn(None, complete_style="cyan", finished_style="green", table_column=Column(ratio=1, min_width=6)),
        TextColumn("{task.percentage:>3.0f} %", markup=False),
        TextColumn("{task.fields[facts]}", markup=False, table_column=Column(no_wrap=True)),
        TextColumn("{task.fields[times]}", markup=False, table_column=Column(no_wrap=True, justify="right")),
    ]
    if named:
        columns.insert(0, TextColumn("{task.description}", markup=False))
    return Progress(*columns, console=console, expand=True, refresh_per_second=4)


def clock(seconds: float) -> str:
    """75 -> '1:15', 3700 -> '1:01:40'."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"
