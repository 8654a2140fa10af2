"""How much of a run is done and how long the rest will take: estimated at the start, corrected by every event."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from remem.events import Event
from remem.methods.events import EpochEnded
from remem.runs.events import PhaseEvaluated, PhaseStarted, RunStarted

TEACHER_COST = 1.3  # a step that also runs the teacher, in steps that do not

Stages = dict[str, float]  # stage -> samples x epochs


@dataclass
class Workload:
    """The training of one run, in units of one sample in one epoch without a teacher."""

    estimate: list[Stages]  # for every phase, before anything has been trained
    done: list[Stages]
    planned: list[Stages] = field(init=False)  # the estimate, corrected by events
    teacher: bool = True

    def __post_init__(self) -> None:
        self.planned = [dict(stages) for stages in self.estimate]

    @classmethod
    def of(cls, run: RunStarted) -> "Workload":
        """The estimate at the start. The balanced set is assumed to be as large as what is held."""
        estimate = []
        for index, phase in enumerate(run.phases):
            cost = _cost(index, run.teacher) * phase.samples
            stages = {"main": cost * (run.epochs_later if index else run.epochs)}
            if index and run.balanced_epochs:
                stages["balanced"] = cost * run.balanced_epochs
            estimate.append(stages)
        done = [dict(stages) if index < run.done else {} for index, stages in enumerate(estimate)]
        return cls(estimate, done, run.teacher)

    def update(self, event: Event) -> None:
        if isinstance(event, PhaseStarted):  # all phases before it are done, in this session or an earlier one
            self.done[: event.phase] = [dict(stages) for stages in self.planned[: event.phase]]
        elif isinstance(event, EpochEnded):
            cost = event.samples * _cost(event.phase, self.teacher)
            self.planned[event.phase][event.stage] = cost * event.epochs
            self.done[event.phase][event.stage] = cost * event.epoch
            if event.phase:
                self._correct_later_phases(event.phase, event.stage)
        elif isinstance(event, PhaseEvaluated):
            self.planned[event.phase] = dict(self.done[event.phase])

    @property
    def total_units(self) -> float:
        return sum(sum(stages.values()) for stages in self.planned)

    @property
    def done_units(self) -> float:
        return sum(sum(stages.values()) for stages in self.done)

    def _correct_later_phases(self, phase: int, stage: str) -> None:
        """A stage whose real size is known now will be off by the same factor in later phases."""
        actual, estimate = self.planned[phase][stage], self.estimate[phase].get(stage)
        for later in range(phase + 1, len(self.planned)):
            self.planned[later][stage] = self.estimate[later][stage] * actual / estimate if estimate else actual


@dataclass
class RunProgress:
    """Where one run is, according to its events."""

    name: str
    clock: Callable[[], float] = time.monotonic
    work: Workload | None = None  # None until the run has started
    phases: int = 0  # N
    phase: int = 0
    doing: str = "waiting"
    loss: float | None = None
    accuracy: float | None = None
    _started: float = 0.0
    _units_before: float = 0.0  # done by earlier sessions
    _last_event: float = 0.0
    _ended: float | None = None
    _left: float | None = None  # seconds, as of the last event

    def update(self, event: Event) -> None:
        if isinstance(event, RunStarted):
            self._start(event)
        elif self.work is not None and isinstance(event, PhaseStarted | EpochEnded | PhaseEvaluated):
            self.work.update(event)
            self.phase = event.phase
            self._describe(event)

    @property
    def share(self) -> float:
        """The share of all work that is done, 0 to 1."""
        return 0.0 if self.work is None else self.work.done_units / self.work.total_units

    @property
    def session_units(self) -> tuple[float, float]:
        """Units of work of this session: done, and in total."""
        if self.work is None:
            return 0.0, 0.0
        return self.work.done_units - self._units_before, self.work.total_units - self._units_before

    @property
    def elapsed(self) -> float:
        """Seconds of this session."""
        now = self.clock() if self._ended is None else self._ended
        return 0.0 if self.work is None else now - self._started

    @property
    def left(self) -> float | None:
        """Seconds left, counted down between events; None while nothing is known."""
        return None if self._left is None else max(0.0, self._left - (self.clock() - self._last_event))

    def _start(self, run: RunStarted) -> None:
        self.work = Workload.of(run)
        self.phases = len(run.phases) - 1
        self.phase = min(run.done, self.phases)
        complete = run.done > self.phases
        self.doing = "complete" if complete else "starting"
        self._started, self._units_before = self.clock(), self.work.done_units
        self._ended = self._started if complete else None

    def _describe(self, event: PhaseStarted | EpochEnded | PhaseEvaluated) -> None:
        if isinstance(event, PhaseStarted):
            self.doing = "loading"
            return
        if isinstance(event, EpochEnded):
            self.doing = f"{event.stage} {event.epoch}/{event.epochs}"
            self.loss = sum(event.loss.values())
        else:
            self.doing, self.accuracy = "evaluated", event.accuracy
            self._ended = self.clock() if self.phase == self.phases else None
        self._estimate_left()

    def _estimate_left(self) -> None:
        done, total = self.session_units
        self._last_event = self.clock()
        if done > 0:
            self._left = self.elapsed * (total - done) / done


def _cost(phase: int, teacher: bool) -> float:
    return TEACHER_COST if phase and teacher else 1.0
