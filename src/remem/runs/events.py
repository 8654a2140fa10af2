"""Events of a run, from its first to its last; the epochs of training are in methods/events.py."""

from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Self

from remem.events import Event

if TYPE_CHECKING:  # displays import this module before torch is needed
    from remem.runs.prepared import Prepared


@dataclass(frozen=True)
class PhaseSize:
    """What one phase trains on at most; `budget` is None where nothing is limited."""

    samples: int
    budget: int | None


@dataclass(frozen=True)
class RunStarted(Event, kind="run"):
    """What a run is going to do, in plain numbers, so that displays can tell how much of it is left."""

    done: int  # phases that are complete already
    phases: tuple[PhaseSize, ...]
    epochs: int
    epochs_later: int
    balanced_epochs: int
    teacher: bool  # whether later phases also run the previous model

    @classmethod
    def of(cls, prepared: "Prepared", done: int = 0) -> Self:
        config, method = prepared.config, prepared.method
        budgets = _budgets(prepared)
        return cls(
            done=done,
            phases=tuple(map(PhaseSize, _held_at_most(prepared, budgets), budgets)),
            epochs=config.train.epochs,
            epochs_later=config.train.epochs_of(0 if method.restarts else 1),
            balanced_epochs=config.finetune.epochs if method.replay == "budget" else 0,
            teacher=method.asks_teacher and not method.restarts,
        )


@dataclass(frozen=True)
class PhaseStarted(Event, kind="phase"):
    """A phase begins."""

    phase: int
    classes: int


@dataclass(frozen=True)
class PhaseEvaluated(Event, kind="evaluated"):
    """A phase is complete."""

    phase: int
    accuracy: float  # of the method's own readout, over all seen classes


def _budgets(prepared: "Prepared") -> list[int | None]:
    """M_i of every phase; None where nothing is limited."""
    phases = prepared.scenario.phases
    if prepared.method.replay == "all":
        return [None] * len(phases)
    seen = list(accumulate(len(phase.classes) for phase in phases))
    return [None, *(prepared.budget.total(old, p.arriving) for old, p in zip(seen, phases[1:], strict=False))]


def _held_at_most(prepared: "Prepared", budgets: list[int | None]) -> list[int]:
    """The most samples that each phase can hold: what arrives and what is left from before, within the budget."""
    held: list[int] = []
    for phase, budget in zip(prepared.scenario.phases, budgets, strict=True):
        past = held[-1] if held and prepared.method.replay != "none" else 0
        held.append(past + phase.arriving if budget is None else min(budget, past + phase.arriving))
    return held
