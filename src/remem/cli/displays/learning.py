"""The display of policy learning: a bar on a terminal, one line per epoch elsewhere, nothing when quiet."""

import time
from collections.abc import Callable, Sequence

from rich.console import Console

from remem.cli.console import clock, percent, say
from remem.cli.displays.base import SILENT_SECONDS, Display, text_bars
from remem.events import Event
from remem.rl.events import LearningStarted, NodesTrained, PolicyUpdated

Announce = Callable[[LearningStarted], None]


class LearningDisplay(Display):
    """Follows policy learning and shows nothing: the display of `--quiet`, and the base of the others."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self.started: LearningStarted | None = None
        self.latest: PolicyUpdated | None = None
        self.trained = 0  # phases in this session
        self.share = 0.0  # of all epochs
        self.left: float | None = None
        self._now = now
        self._start_time = now()

    def emit(self, event: Event) -> None:
        """Takes an event of `learn_in_folder`."""
        if isinstance(event, LearningStarted):
            self.started, self._start_time = event, self._now()
            self.share = event.done / event.epochs
        elif isinstance(event, NodesTrained | PolicyUpdated):
            assert self.started is not None
            part = event.share if isinstance(event, NodesTrained) else 0
            self.share = (event.epoch + part) / self.started.epochs
            self.trained, self.left = event.trained, event.left
        if isinstance(event, PolicyUpdated):
            self.latest = event
        self.show(event)
        if isinstance(event, LearningStarted):
            self._start_time = self._now()  # without the time in which its cost was estimated

    def show(self, event: Event) -> None:
        """Called after the event has been taken."""

    @property
    def facts(self) -> list[str]:
        """Reward and most probable path of the latest epoch, and the phases trained in this session."""
        parts = []
        if self.latest is not None:
            parts = [f"reward {percent(self.latest.reward)}", f"path {path_text(self.latest.path)}"]
        return [*parts, f"{self.trained} phases trained"]

    @property
    def times(self) -> str:
        left = "" if self.left is None or self.share >= 1 else f", about {clock(self.left)} left"
        return f"{clock(self._now() - self._start_time)} so far{left}"


class LearningLines(LearningDisplay):
    """For pipes and logs."""

    def __init__(self, console: Console, announce: Announce, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__(now)
        self._console, self._announce = console, announce
        self._last_line = now()

    def show(self, event: Event) -> None:
        if isinstance(event, LearningStarted):
            self._announce(event)
        elif isinstance(event, PolicyUpdated):
            self._line(f"epoch {event.epoch} of {event.epochs}", *self.facts)
        elif self._now() - self._last_line > SILENT_SECONDS:
            self._line(f"{100 * self.share:.0f} % done", f"{self.trained} phases trained")

    def _line(self, *parts: str) -> None:
        self._last_line = self._now()
        say(self._console, ", ".join([*parts, self.times]))


class LearningBar(LearningDisplay):
    """For terminals."""

    def __init__(self, console: Console, announce: Announce) -> None:
        super().__init__()
        self._announce = announce
        self._status = console.status("reading the data")
        self._progress = text_bars(console, named=False)
        self._bar = self._progress.add_task("", total=1.0, facts="", times="")

    def open(self) -> None:
        self._status.start()

    def close(self) -> None:
        self._status.stop()
        self._progress.stop()

    def show(self, event: Event) -> None:
        assert self.started is not None
        if isinstance(event, LearningStarted):
            self._status.stop()
            self._announce(event)
            self._progress.start()
        epochs = self.started.epochs
        at = f"epoch {min(int(self.share * epochs + 1e-9) + 1, epochs)}/{epochs}"
        self._progress.update(self._bar, completed=self.share, facts="  ".join([at, *self.facts]), times=self.times)


def open_learning_display(console: Console, announce: Announce, *, quiet: bool) -> LearningDisplay:
    """The display that fits the console; `announce` says what will be learned, once that is known."""
    if quiet:
        return LearningDisplay()
    return LearningBar(console, announce) if console.is_terminal else LearningLines(console, announce)


def path_text(path: Sequence[Sequence[int]]) -> str:
    """Old shares, then the splits between harder and easier halves: `.6 .6 .5 | .5 .4 .5`; then rungs, if any."""
    shares, splits = (" ".join(f".{action[level]}" for action in path) for level in (0, 1))
    rungs = [str(action[2]) if len(action) > 2 else "0" for action in path]
    return f"{shares} | {splits}" + (f" | {' '.join(rungs)}" if set(rungs) > {"0"} or "0" not in rungs else "")
