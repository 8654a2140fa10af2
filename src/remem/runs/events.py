"""Events of a run. Epoch events are in methods/events.py."""

from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Self

from remem.events import Event

if TYPE_CHECKING:  # displays import this module without torch
    from remem.runs.prepared import Prepared


@dataclass(frozen=True)
class PhaseSize:
    """The most samples that one phase trains on, and its budget (None if there is no limit)."""

    samples: int
    budget: int | None


@dataclass(frozen=True)
class RunStarted(Event, kind="run"):
    """The size of a run, from which displays compute the remaining work."""

    done: int  # phases already complete
    phases: tuple[PhaseSize, ...]
    epochs: int
    epochs_later: int
    balanced_epochs: int
    teacher: bool  # whether later phases run the teacher, too

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
    """Returns M_i of every phase; None if there is no limit."""
    phases = prepared.scenario.phases
    if prepared.method.replay == "all":
        return [None] * len(phases)
    seen = list(accumulate(len(phase.classes) for phase in phases))
    return [None, *(prepared.budget.total(old, p.arriving) for old, p in zip(seen, phases[1:], strict=False))]


def _held_at_most(prepared: "Prepared", budgets: list[int | None]) -> list[int]:
    """Returns the most samples that each phase can hold: those arriving and those held before, within the budget."""
    held: list[int] = []
    for phase, budget in zip(prepared.scenario.phases, budgets, strict=True):
        past = held[-1] if held and prepared.method.replay != "none" else 0
        held.append(past + phase.arriving if budget is None else min(budget, past + phase.arriving))
    return held
