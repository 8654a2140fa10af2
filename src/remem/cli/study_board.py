"""What is shown while a study goes on: bars on a terminal, a line per run elsewhere, nothing when quiet."""

import time
from collections.abc import Callable, Mapping
from typing import Any

from rich.console import Console
from rich.progress import TaskID

from remem.cli.learn_board import SILENCE, LearnBoard
from remem.cli.progress import Display, clock, percent, worded_bars
from remem.cli.training import say
from remem.cli.work import Track, Work


class StudyBoard(Display):
    """Follows a study and shows nothing: the display of `--quiet`, and the base of the others."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self.begun: Mapping[str, Any] | None = None
        self.runs = self.done = 0
        self.running: dict[str, Track] = {}
        self.learned: list[float] = []  # seconds of every policy that is learned
        self._learning: LearnBoard | None = None
        self._guess: dict[str, float] = {}  # units of work of jobs that have not begun
        self._ended = 0.0  # units of those that are done
        self._now = now
        self._began = self._stage_began = now()
        self._names: set[str] = set()  # of runs, since a phase 0 is a job too

    def tell(self, event: Mapping[str, Any]) -> None:
        """An event of `study_in_folder`."""
        kind, name = event["event"], event.get("name", "")
        if kind == "begin":
            self._begin(event)
        elif kind == "learning":
            if self._learning is None:
                self._learning, self._stage_began = LearnBoard(self._now), self._now()
            self._learning.tell(event["what"])
        elif kind == "learned":
            self.learned.append(self._now() - self._stage_began)
            self._learning = None
        elif kind == "job":
            self._take(name, event["what"])
        else:
            self._end(name)
        self.show(event)

    def show(self, event: Mapping[str, Any]) -> None:
        """After the event was taken in."""

    @property
    def share(self) -> float:
        """Of the training of this session's runs, 0 to 1; policies are learned before."""
        done, total = self._units()
        return done / total if total else 1.0

    @property
    def times(self) -> str:
        so_far = f"{clock(self._now() - self._began)} so far"
        if self.begun is not None and len(self.learned) < len(self.begun["learnings"]):
            left = self._left_to_learn(len(self.begun["learnings"]) - len(self.learned))
            return so_far if left is None else f"{so_far}, about {clock(left)} left to learn"
        done, total = self._units()
        if not done or done >= total:
            return so_far
        left = (self._now() - self._stage_began) * (total - done) / done
        return f"{so_far}, about {clock(left)} left"

    @property
    def learning_at(self) -> str:
        """`policy 2 of 5`."""
        assert self.begun is not None
        return f"policy {min(len(self.learned) + 1, len(self.begun['learnings']))} of {len(self.begun['learnings'])}"

    def _begin(self, event: Mapping[str, Any]) -> None:
        self.begun, self.runs, self.done = event, event["runs"], event["done"]
        works = {name: Work.of(outline) for name, outline in event["jobs"].items()}
        self._guess = {name: work.total_units - work.done_units for name, work in works.items()}
        self._names = {name for name, outline in event["jobs"].items() if len(outline["phases"]) > 1}

    def _take(self, name: str, event: Mapping[str, Any]) -> None:
        if not self.running and not self._ended:
            self._stage_began = self._now()
        if name not in self.running:
            self.running[name] = Track(name, self._now)
        self.running[name].take(event)
        self._guess.pop(name, None)

    def _end(self, name: str) -> None:
        self._guess.pop(name, None)
        if name in self.running:
            self._ended += self.running.pop(name).fresh[1]
        self.done += name in self._names

    def _units(self) -> tuple[float, float]:
        running = [track.fresh for track in self.running.values()]
        done = self._ended + sum(part for part, _ in running)
        total = self._ended + sum(whole for _, whole in running) + sum(self._guess.values())
        return done, total

    def _left_to_learn(self, policies: int) -> float | None:
        """So many are not learned yet; each takes about as long as those before it."""
        spent, known = 0.0, list(self.learned)
        if self._learning is not None and self._learning.share:
            spent = self._now() - self._stage_began
            known.append(spent / self._learning.share)
        return policies * sum(known) / len(known) - spent if known else None


class StudyLines(StudyBoard):
    """For pipes and logs."""

    def __init__(
        self, console: Console, announce: Callable[[Mapping[str, Any]], None], now: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(now)
        self._console, self._announce = console, announce
        self._spoke = now()

    def show(self, event: Mapping[str, Any]) -> None:
        kind, name = event["event"], event.get("name", "")
        if kind == "begin":
            self._announce(event)
        elif kind == "learned":
            assert self.begun is not None
            self._line(f"{len(self.learned)} of {len(self.begun['learnings'])} policies learned: {name}")
        elif kind == "ended" and name in self._names:
            numbers = f"average {percent(event['average_accuracy'])}, last {percent(event['last_accuracy'])}"
            self._line(f"{self.done} of {self.runs} runs done: {name}, {numbers}")
        elif self._now() - self._spoke > SILENCE:
            if self._learning is not None:
                self._line(f"learning {self.learning_at}: {name}, {100 * self._learning.share:.0f} %")
            else:
                self._line(f"{self.done} of {self.runs} runs done, {100 * self.share:.0f} % of the training")

    def _line(self, text: str) -> None:
        self._spoke = self._now()
        say(self._console, f"{text}, {self.times}")


class StudyBars(StudyBoard):
    """For terminals: a bar for the whole study, and one for everything that is being trained."""

    def __init__(self, console: Console, announce: Callable[[Mapping[str, Any]], None]) -> None:
        super().__init__()
        self._announce = announce
        self._status = console.status("reading the data")
        self._progress = worded_bars(console, named=True)
        self._whole = self._progress.add_task("study", total=1.0, facts="", times="")
        self._bars: dict[str, TaskID] = {}

    def open(self) -> None:
        self._status.start()

    def close(self) -> None:
        self._status.stop()
        self._progress.stop()

    def show(self, event: Mapping[str, Any]) -> None:
        name = event.get("name", "")
        if event["event"] == "begin":
            self._status.stop()
            self._announce(event)
            self._progress.start()
        elif event["event"] in ("ended", "learned"):
            if name in self._bars:
                self._progress.remove_task(self._bars.pop(name))
        else:
            self._show_part(name)
        facts = f"{self.done} of {self.runs} runs" if self._learning is None else f"learning {self.learning_at}"
        self._progress.update(self._whole, completed=self.share, facts=facts, times=self.times)

    def _show_part(self, name: str) -> None:
        if name not in self._bars:
            self._bars[name] = self._progress.add_task(name, total=1.0, facts="", times="")
        if self._learning is not None:
            share, facts, times = self._learning.share, "  ".join(self._learning.facts), self._learning.times
        else:
            track = self.running[name]
            left = "" if track.left is None or track.share == 1 else f", {clock(track.left)} left"
            share, times = track.share, f"{clock(track.elapsed)}{left}"
            facts = f"phase {track.phase}/{track.phases} {track.doing}"
        self._progress.update(self._bars[name], completed=share, facts=facts, times=times)


def open_study_board(console: Console, announce: Callable[[Mapping[str, Any]], None], *, quiet: bool) -> StudyBoard:
    """The display that fits; `announce` says what will be done, once that is known."""
    if quiet:
        return StudyBoard()
    return StudyBars(console, announce) if console.is_terminal else StudyLines(console, announce)
