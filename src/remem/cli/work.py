"""How much of a run's training is done and how long the rest will take: estimated first, corrected by every event."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

TEACHER_COST = 1.3  # of a step that also asks the teacher, in steps that do not

Stages = dict[str, float]  # stage -> samples x epochs


@dataclass
class Work:
    """The training of one run; its unit is one sample in one epoch without a teacher."""

    guess: list[Stages]  # of every phase, before anything is known
    done: list[Stages]
    plan: list[Stages] = field(init=False)  # the guess, corrected by facts
    teacher: bool = True

    def __post_init__(self) -> None:
        self.plan = [dict(stages) for stages in self.guess]

    @classmethod
    def of(cls, begin: Mapping[str, Any]) -> "Work":
        """From a run's first event. The balanced set is taken to be as large as what is held: twice half of it."""
        guess = []
        for index, phase in enumerate(begin["phases"]):
            cost = _cost(index, begin["teacher"]) * phase["samples"]
            stages = {"main": cost * begin["epochs_later" if index else "epochs"]}
            if index and begin["balanced_epochs"]:
                stages["balanced"] = cost * begin["balanced_epochs"]
            guess.append(stages)
        done = [dict(stages) if index < begin["done"] else {} for index, stages in enumerate(guess)]
        return cls(guess, done, begin["teacher"])

    def take(self, event: Mapping[str, Any]) -> None:
        """An `epoch` says how large its stage really is, and so how large that of later phases will be."""
        phase = event["phase"]
        if event["event"] == "phase":  # whatever lies before it is done, by this session or an earlier one
            self.done[:phase] = [dict(stages) for stages in self.plan[:phase]]
        elif event["event"] == "epoch":
            stage, cost = event["stage"], event["samples"] * _cost(phase, self.teacher)
            self.plan[phase][stage] = cost * event["epochs"]
            self.done[phase][stage] = cost * event["epoch"]
            if phase:
                self._correct(phase, stage)
        elif event["event"] == "evaluated":
            self.plan[phase] = dict(self.done[phase])

    @property
    def total_units(self) -> float:
        return sum(sum(stages.values()) for stages in self.plan)

    @property
    def done_units(self) -> float:
        return sum(sum(stages.values()) for stages in self.done)

    def _correct(self, phase: int, stage: str) -> None:
        fact, guess = self.plan[phase][stage], self.guess[phase].get(stage)
        for later in range(phase + 1, len(self.plan)):
            self.plan[later][stage] = self.guess[later][stage] * fact / guess if guess else fact


@dataclass
class Track:
    """Where one run is, from the events that it sent."""

    name: str
    clock: Callable[[], float] = time.monotonic
    work: Work | None = None
    phases: int = 0  # N
    phase: int = 0
    doing: str = "waiting"
    loss: float | None = None
    accuracy: float | None = None
    _began: float = 0.0
    _units_before: float = 0.0  # done by an earlier session
    _told: float = 0.0  # when the last event came
    _ended: float | None = None
    _left: float | None = None  # seconds, as of then

    def take(self, event: Mapping[str, Any]) -> None:
        kind = event["event"]
        if kind == "begin":
            self._begin(event)
        elif self.work is not None:
            self.work.take(event)
            self.phase = event["phase"]
        if kind == "epoch":
            self.doing = f"{event['stage']} {event['epoch']}/{event['epochs']}"
            self.loss = sum(event["loss"].values())
        elif kind == "evaluated":
            self.doing, self.accuracy = "evaluated", event["accuracy"]
            self._ended = self.clock() if self.phase == self.phases else None
        elif kind == "phase":
            self.doing = "loading"
        if kind in ("epoch", "evaluated"):
            self._estimate()

    @property
    def share(self) -> float:
        """Of all work, 0 to 1."""
        return 0.0 if self.work is None else self.work.done_units / self.work.total_units

    @property
    def fresh(self) -> tuple[float, float]:
        """Units of work of this session: done, and in all."""
        if self.work is None:
            return 0.0, 0.0
        return self.work.done_units - self._units_before, self.work.total_units - self._units_before

    @property
    def elapsed(self) -> float:
        """Seconds of this session."""
        now = self.clock() if self._ended is None else self._ended
        return 0.0 if self.work is None else now - self._began

    @property
    def left(self) -> float | None:
        """Seconds, counted down between events; None as long as nothing is known."""
        return None if self._left is None else max(0.0, self._left - (self.clock() - self._told))

    def _begin(self, event: Mapping[str, Any]) -> None:
        self.work = Work.of(event)
        self.phases = len(event["phases"]) - 1
        self.phase = min(event["done"], self.phases)
        self.doing = "complete" if event["done"] > self.phases else "beginning"
        self._began, self._units_before = self.clock(), self.work.done_units
        self._ended = self._began if self.doing == "complete" else None

    def _estimate(self) -> None:
        assert self.work is not None
        fresh = self.work.done_units - self._units_before
        self._told = self.clock()
        if fresh > 0:
            self._left = self.elapsed * (self.work.total_units - self.work.done_units) / fresh


def _cost(phase: int, teacher: bool) -> float:
    return TEACHER_COST if phase and teacher else 1.0
