"""What is shown while a policy learns: a bar on a terminal, a line per epoch elsewhere, nothing when quiet."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.console import Console

from remem.cli.progress import Display, clock, percent, worded_bars
from remem.cli.training import say

SILENCE = 60.0  # seconds after which a pipe hears of an epoch that is not done yet


class LearnBoard(Display):
    """Follows a learning and shows nothing: the display of `--quiet`, and the base of the others."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self.begun: Mapping[str, Any] | None = None
        self.epoch: Mapping[str, Any] | None = None  # the latest that is complete
        self.trained = 0
        self.share = 0.0  # of all epochs
        self._left: float | None = None
        self._now = now
        self._began = now()

    def tell(self, event: Mapping[str, Any]) -> None:
        """An event of `learn_in_folder`."""
        if event["event"] == "begin":
            self.begun, self._began = event, self._now()
            self.share = event["done"] / event["epochs"]
        else:
            assert self.begun is not None
            part = event["share"] if event["event"] == "node" else 0
            self.share = (event["epoch"] + part) / self.begun["epochs"]
            self.trained, self._left = event["trained"], event["left"]
        if event["event"] == "epoch":
            self.epoch = event
        self.show(event)

    def show(self, event: Mapping[str, Any]) -> None:
        """After the event was taken in."""

    @property
    def facts(self) -> list[str]:
        """Where it is: reward and most probable path of the latest epoch, phases trained in this session."""
        parts = []
        if self.epoch is not None:
            parts = [f"reward {percent(self.epoch['reward'])}", f"path {path_text(self.epoch['path'])}"]
        return [*parts, f"{self.trained} phases trained"]

    @property
    def times(self) -> str:
        left = "" if self._left is None or self.share >= 1 else f", about {clock(self._left)} left"
        return f"{clock(self._now() - self._began)} so far{left}"


class LearnLines(LearnBoard):
    """For pipes and logs."""

    def __init__(
        self, console: Console, announce: Callable[[Mapping[str, Any]], None], now: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(now)
        self._console, self._announce = console, announce
        self._spoke = now()

    def show(self, event: Mapping[str, Any]) -> None:
        kind = event["event"]
        if kind == "begin":
            self._announce(event)
        elif kind == "epoch":
            self._line(f"epoch {event['epoch']} of {event['epochs']}", *self.facts)
        elif self._now() - self._spoke > SILENCE:
            self._line(f"{100 * self.share:.0f} % done", f"{self.trained} phases trained")

    def _line(self, *parts: str) -> None:
        self._spoke = self._now()
        say(self._console, ", ".join([*parts, self.times]))


class LearnBar(LearnBoard):
    """For terminals."""

    def __init__(self, console: Console, announce: Callable[[Mapping[str, Any]], None]) -> None:
        super().__init__()
        self._announce = announce
        self._status = console.status("reading the data")
        self._progress = worded_bars(console, named=False)
        self._bar = self._progress.add_task("", total=1.0, facts="", times="")

    def open(self) -> None:
        self._status.start()

    def close(self) -> None:
        self._status.stop()
        self._progress.stop()

    def show(self, event: Mapping[str, Any]) -> None:
        assert self.begun is not None
        if event["event"] == "begin":
            self._status.stop()
            self._announce(event)
            self._progress.start()
        epochs = self.begun["epochs"]
        at = f"epoch {min(int(self.share * epochs + 1e-9) + 1, epochs)}/{epochs}"
        self._progress.update(self._bar, completed=self.share, facts="  ".join([at, *self.facts]), times=self.times)


def open_learn_board(console: Console, announce: Callable[[Mapping[str, Any]], None], *, quiet: bool) -> LearnBoard:
    """The display that fits; `announce` says what will be learned, once that is known."""
    if quiet:
        return LearnBoard()
    return LearnBar(console, announce) if console.is_terminal else LearnLines(console, announce)


def path_text(path: Sequence[Sequence[int]]) -> str:
    """Old shares, then the parts of harder halves: `.6 .6 .5 | .5 .4 .5`."""
    shares, splits = (" ".join(f".{move[level]}" for move in path) for level in (0, 1))
    return f"{shares} | {splits}"
