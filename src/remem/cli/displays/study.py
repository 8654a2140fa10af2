"""The display of a study: bars on a terminal, one line per run elsewhere, nothing when quiet."""

import time
from collections.abc import Callable

from rich.console import Console
from rich.progress import TaskID

from remem.cli.console import clock, percent, say
from remem.cli.displays.base import SILENT_SECONDS, Display, text_bars
from remem.cli.displays.learning import LearningDisplay
from remem.cli.displays.progress import RunProgress, Workload
from remem.cli.displays.run import times
from remem.events import Event
from remem.studies.events import JobEnded, JobProgress, LearningProgress, PolicyLearned, StudyStarted

Announce = Callable[[StudyStarted], None]


class StudyDisplay(Display):
    """Follows a study and shows nothing: the display of `--quiet`, and the base of the others."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self.started: StudyStarted | None = None
        self.runs = self.done = 0
        self.running: dict[str, RunProgress] = {}
        self.learned: list[float] = []  # seconds of every policy that has been learned
        self.learning: LearningDisplay | None = None  # of the policy that is being learned
        self.run_names: set[str] = set()  # without shared phases 0, which are jobs too
        self._waiting_units: dict[str, float] = {}  # work of jobs that have not started
        self._ended_units = 0.0
        self._now = now
        self._start_time = self._stage_time = now()

    def emit(self, event: Event) -> None:
        """Takes an event of `study_in_folder`."""
        if isinstance(event, StudyStarted):
            self._start(event)
        elif isinstance(event, LearningProgress):
            if self.learning is None:
                self.learning, self._stage_time = LearningDisplay(self._now), self._now()
            self.learning.emit(event.progress)
        elif isinstance(event, PolicyLearned):
            self.learned.append(self._now() - self._stage_time)
            self.learning = None
        elif isinstance(event, JobProgress):
            self._update(event.name, event.progress)
        elif isinstance(event, JobEnded):
            self._end(event.name)
        self.show(event)
        if isinstance(event, StudyStarted):
            self._start_time = self._now()  # without the time in which its cost was estimated

    def show(self, event: Event) -> None:
        """Called after the event has been taken."""

    @property
    def share(self) -> float:
        """The share of this session's training that is done, 0 to 1, without the learning of policies."""
        done, total = self._units()
        return done / total if total else 1.0

    @property
    def policies(self) -> int:
        """How many policies this session learns."""
        return 0 if self.started is None else len(self.started.learnings)

    @property
    def times(self) -> str:
        so_far = f"{clock(self._now() - self._start_time)} so far"
        if len(self.learned) < self.policies:
            left = self._left_to_learn(self.policies - len(self.learned))
            return so_far if left is None else f"{so_far}, about {clock(left)} left to learn"
        done, total = self._units()
        if not done or done >= total:
            return so_far
        left = (self._now() - self._stage_time) * (total - done) / done
        return f"{so_far}, about {clock(left)} left"

    @property
    def learning_at(self) -> str:
        """`policy 2 of 5`."""
        return f"policy {min(len(self.learned) + 1, self.policies)} of {self.policies}"

    def _start(self, study: StudyStarted) -> None:
        self.started, self.runs, self.done = study, study.runs, study.done
        workloads = {name: Workload.of(run) for name, run in study.jobs.items()}
        self._waiting_units = {name: work.total_units - work.done_units for name, work in workloads.items()}
        self.run_names = {name for name, run in study.jobs.items() if len(run.phases) > 1}

    def _update(self, name: str, event: Event) -> None:
        if not self.running and not self._ended_units:
            self._stage_time = self._now()
        if name not in self.running:
            self.running[name] = RunProgress(name, self._now)
        self.running[name].update(event)
        self._waiting_units.pop(name, None)

    def _end(self, name: str) -> None:
        self._waiting_units.pop(name, None)
        if name in self.running:
            self._ended_units += self.running.pop(name).session_units[1]
        self.done += name in self.run_names

    def _units(self) -> tuple[float, float]:
        running = [run.session_units for run in self.running.values()]
        done = self._ended_units + sum(part for part, _ in running)
        total = self._ended_units + sum(whole for _, whole in running) + sum(self._waiting_units.values())
        return done, total

    def _left_to_learn(self, policies: int) -> float | None:
        """Seconds for this many policies, if each takes about as long as those before it."""
        spent, known = 0.0, list(self.learned)
        if self.learning is not None:
            spent = self._now() - self._stage_time
            if self.learning.left is not None:
                known.append(spent + self.learning.left)
        return policies * sum(known) / len(known) - spent if known else None


class StudyLines(StudyDisplay):
    """For pipes and logs."""

    def __init__(self, console: Console, announce: Announce, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__(now)
        self._console, self._announce = console, announce
        self._last_line = now()

    def show(self, event: Event) -> None:
        if isinstance(event, StudyStarted):
            self._announce(event)
        elif isinstance(event, PolicyLearned):
            self._line(f"{len(self.learned)} of {self.policies} policies learned: {event.name}")
        elif isinstance(event, JobEnded) and event.name in self.run_names:
            numbers = f"average {percent(event.average_accuracy)}, last {percent(event.last_accuracy)}"
            self._line(f"{self.done} of {self.runs} runs done: {event.name}, {numbers}")
        elif self._now() - self._last_line > SILENT_SECONDS:
            if isinstance(event, LearningProgress) and self.learning is not None:
                self._line(f"learning {self.learning_at}: {event.name}, {100 * self.learning.share:.0f} %")
            else:
                self._line(f"{self.done} of {self.runs} runs done, {100 * self.share:.0f} % of the training")

    def _line(self, text: str) -> None:
        self._last_line = self._now()
        say(self._console, f"{text}, {self.times}")


class StudyBars(StudyDisplay):
    """For terminals: a bar for the whole study, and one for every run or policy in progress."""

    def __init__(self, console: Console, announce: Announce) -> None:
        super().__init__()
        self._announce = announce
        self._status = console.status("reading the data")
        self._progress = text_bars(console, named=True)
        self._whole = self._progress.add_task("study", total=1.0, facts="", times="")
        self._bars: dict[str, TaskID] = {}

    def open(self) -> None:
        self._status.start()

    def close(self) -> None:
        self._status.stop()
        self._progress.stop()

    def show(self, event: Event) -> None:
        if isinstance(event, StudyStarted):
            self._status.stop()
            self._announce(event)
            self._progress.start()
        elif isinstance(event, JobEnded | PolicyLearned):
            if event.name in self._bars:
                self._progress.remove_task(self._bars.pop(event.name))
        elif isinstance(event, LearningProgress) and self.learning is not None:
            facts = "  ".join(self.learning.facts)
            self._show_bar(event.name, self.learning.share, facts, self.learning.times)
        elif isinstance(event, JobProgress):
            run = self.running[event.name]
            self._show_bar(event.name, run.share, f"phase {run.phase}/{run.phases} {run.doing}", times(run))
        facts = f"{self.done} of {self.runs} runs" if self.learning is None else f"learning {self.learning_at}"
        self._progress.update(self._whole, completed=self.share, facts=facts, times=self.times)

    def _show_bar(self, name: str, share: float, facts: str, times: str) -> None:
        if name not in self._bars:
            self._bars[name] = self._progress.add_task(name, total=1.0, facts="", times="")
        self._progress.update(self._bars[name], completed=share, facts=facts, times=times)


def open_study_display(console: Console, announce: Announce, *, quiet: bool) -> StudyDisplay:
    """The display that fits the console; `announce` says what will be done, once that is known."""
    if quiet:
        return StudyDisplay()
    return StudyBars(console, announce) if console.is_terminal else StudyLines(console, announce)
