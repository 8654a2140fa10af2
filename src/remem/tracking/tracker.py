"""From events to numbers: what trackers are told, and at which step."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from remem.events import Event
from remem.methods.events import EpochEnded
from remem.rl.events import PolicyUpdated
from remem.runs.events import PhaseEvaluated, RunStarted
from remem.storage.event_log import LOG, read_log
from remem.studies.events import JobEnded, JobProgress, LearningProgress, PolicyLearned

MEASURES = ("reward", "best", "loss", "entropy", "grad_norm")  # of a policy's learning
Tracked = EpochEnded | PhaseEvaluated | PolicyUpdated  # the events of `log.jsonl`


class Tracker(ABC):
    """Where the numbers of one run, or of one policy's learning, go."""

    @abstractmethod
    def write(self, key_values: Mapping[str, float], step: int) -> None:
        """Adds numbers at a step: an epoch for `epoch/...` and `policy/...`, a phase for `phase/...`."""

    @abstractmethod
    def close(self) -> None:
        """Writes whatever is left."""

    def last_steps(self) -> Mapping[str, int]:
        """The last step of every key that was written before, by work that is now resumed."""
        return {}


OpenTracker = Callable[[str, Path], Tracker]  # the name of a run, and its folder


class RunSubscriber:
    """Follows one run, or the learning of one policy. The numbers are those of `log.jsonl`, each step once.

    Resumed work trains again what was not saved. The log says which step an epoch is, and has what a tracker lacks.
    """

    def __init__(self, tracker: Tracker, folder: Path) -> None:
        self.tracker = tracker
        self._log = folder / LOG
        self._written = dict(tracker.last_steps())
        self._epochs: int | None = None  # before the next event; not known yet

    def __call__(self, event: Event) -> None:
        if isinstance(event, RunStarted):
            self._epochs = None  # the run cuts its log before it goes on
        elif isinstance(event, Tracked):
            if self._epochs is None:
                self._follow(before(event, logged(self._log)))
            self._write(event)

    def finish(self) -> None:
        """Adds what the log has and the tracker lacks, and closes it."""
        self._follow(logged(self._log))
        self.tracker.close()

    def _follow(self, events: Iterable[Tracked]) -> None:
        self._epochs = 0
        for event in events:
            self._write(event)

    def _write(self, event: Tracked) -> None:
        if isinstance(event, EpochEnded):
            step = self._epochs = (self._epochs or 0) + 1
            values: dict[str, float] = {f"epoch/loss/{name}": value for name, value in event.loss.items()}
            values |= {"epoch/phase": event.phase, "epoch/samples": event.samples}
        elif isinstance(event, PhaseEvaluated):
            step, values = event.phase, {"phase/accuracy": event.accuracy}
        else:
            found = {name: getattr(event, name) for name in MEASURES}
            step, values = event.epoch, {f"policy/{name}": value for name, value in found.items() if value is not None}
        fresh = {key: value for key, value in values.items() if step > self._written.get(key, -1)}
        if fresh:
            self.tracker.write(fresh, step)
            self._written |= dict.fromkeys(fresh, step)


def logged(path: Path) -> list[Tracked]:
    """The events of a log; lines of other versions that cannot be read are left out."""
    found = []
    for entry in read_log(path):
        with suppress(ValueError):
            event = Event.from_json(entry)
            if isinstance(event, Tracked):
                found.append(event)
    return found


def before(event: Tracked, events: Iterable[Tracked]) -> list[Tracked]:
    """The events of a log that come before this one.

    A log on another machine has not arrived here; what is here is then of earlier phases or epochs.
    """
    known = list(events)
    places = [place for place, other in enumerate(known) if _identity(other) == _identity(event)]
    if places:
        return known[: places[-1]]
    if isinstance(event, PolicyUpdated):
        return [other for other in known if isinstance(other, PolicyUpdated) and other.epoch < event.epoch]
    return [other for other in known if not isinstance(other, PolicyUpdated) and other.phase < event.phase]


def _identity(event: Tracked) -> tuple[object, ...]:
    return event.kind, *(getattr(event, name, None) for name in ("phase", "stage", "epoch"))


class StudySubscriber:
    """Follows a study: one tracker for every run, and for every policy that is learned."""

    def __init__(self, opening: OpenTracker, out: Path) -> None:
        self._opening, self._out = opening, out
        self._open: dict[str, RunSubscriber] = {}

    def __call__(self, event: Event) -> None:
        if isinstance(event, JobProgress):
            self._subscriber(event.name, self._out / "runs" / event.name)(event.progress)
        elif isinstance(event, LearningProgress):
            self._subscriber(event.name, self._out / "policies" / event.name)(event.progress)
        elif isinstance(event, JobEnded | PolicyLearned) and event.name in self._open:
            self._open.pop(event.name).finish()

    def close(self) -> None:
        """Closes the trackers of whatever did not end."""
        while self._open:
            self._open.popitem()[1].tracker.close()

    def _subscriber(self, name: str, folder: Path) -> RunSubscriber:
        if name not in self._open:
            self._open[name] = RunSubscriber(self._opening(name, folder), folder)
        return self._open[name]
