"""From events to numbers: what trackers are told, and at which step."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from remem.events import Event
from remem.methods.events import EpochEnded
from remem.rl.events import PolicyUpdated
from remem.runs.events import PhaseEvaluated, RunStarted
from remem.storage.event_log import LOG, read_log
from remem.studies.events import JobEnded, JobProgress, LearningProgress, PolicyLearned

MEASURES = ("reward", "best", "loss", "entropy", "grad_norm")  # of a policy's learning


class Tracker(ABC):
    """Where the numbers of one run, or of one policy's learning, go."""

    @abstractmethod
    def write(self, key_values: Mapping[str, float], step: int) -> None:
        """Adds numbers at a step: an epoch for `epoch/...` and `policy/...`, a phase for `phase/...`."""

    @abstractmethod
    def close(self) -> None:
        """Writes whatever is left."""


OpenTracker = Callable[[str, Path], Tracker]  # the name of a run, and its folder


class RunSubscriber:
    """Follows one run, or the learning of one policy. The numbers are those of `log.jsonl`."""

    def __init__(self, tracker: Tracker, folder: Path) -> None:
        self.tracker = tracker
        self._folder = folder
        self._epochs = 0

    def __call__(self, event: Event) -> None:
        if isinstance(event, RunStarted):
            entries = read_log(self._folder / LOG)  # epochs of phases that a resumed run does not train again
            self._epochs = sum(e.get("event") == EpochEnded.kind and e.get("phase", 0) < event.done for e in entries)
        elif isinstance(event, EpochEnded):
            self._epochs += 1
            losses = {f"epoch/loss/{name}": value for name, value in event.loss.items()}
            self.tracker.write({**losses, "epoch/phase": event.phase, "epoch/samples": event.samples}, self._epochs)
        elif isinstance(event, PhaseEvaluated):
            self.tracker.write({"phase/accuracy": event.accuracy}, event.phase)
        elif isinstance(event, PolicyUpdated):
            values = {name: getattr(event, name) for name in MEASURES}
            self.tracker.write({f"policy/{n}": v for n, v in values.items() if v is not None}, event.epoch)


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
        elif isinstance(event, JobEnded | PolicyLearned):
            self._close(event.name)

    def close(self) -> None:
        for name in list(self._open):
            self._close(name)

    def _subscriber(self, name: str, folder: Path) -> RunSubscriber:
        if name not in self._open:
            self._open[name] = RunSubscriber(self._opening(name, folder), folder)
        return self._open[name]

    def _close(self, name: str) -> None:
        with suppress(KeyError):
            self._open.pop(name).tracker.close()
