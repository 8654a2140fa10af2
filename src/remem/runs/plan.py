"""What a policy would hold in every phase, by whole-number arithmetic alone: nothing is trained."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from remem.memory.allocation import allocate, decide, outlook
from remem.memory.budget import PhaseFacts
from remem.policies.policy import Policy
from remem.runs.build import Prepared
from remem.runs.results import action_entry
from remem.types import Action, Allocation, Decision, Group, Phase, State

Counts = dict[int, int]  # class -> samples
NOTHING_OLD = Decision(old_total=0, old_share=0.0, old_tenths=0, level1=None, level2=None, clamped=False)


@dataclass(frozen=True)
class OldQuotas:
    """The samples of each class that one earlier phase brought."""

    phase: int
    harder: tuple[int, ...]
    easier: tuple[int, ...]  # empty where the phase brought one class


@dataclass(frozen=True)
class PlannedPhase:
    """What one phase would hold."""

    phase: int
    classes_seen: int
    arriving: int
    budget: int | None  # None where nothing is limited
    decision: Decision | None  # None where nothing is decided
    old: tuple[OldQuotas, ...]
    new: tuple[int, ...]  # samples of each new class

    @property
    def held_old(self) -> int:
        return sum(sum(quotas.harder) + sum(quotas.easier) for quotas in self.old)

    @property
    def held_new(self) -> int:
        return sum(self.new)

    @property
    def held(self) -> int:
        return self.held_old + self.held_new


@dataclass(frozen=True)
class Plan:
    """All phases. Which classes are harder is known only after training: here the first half of every phase."""

    phases: tuple[PlannedPhase, ...]


def plan(prepared: Prepared) -> Plan:
    """The phases of a run as its policy would share them; `held_old` and `held_new` are those of the real run."""
    ledger, planned = Ledger(prepared), []
    for phase in prepared.scenario.phases:
        planned.append(ledger.advance(phase))
    return Plan(tuple(planned))


class Ledger:
    """An episode's arithmetic without its samples."""

    def __init__(self, prepared: Prepared) -> None:
        self._budget, self._regime = prepared.budget, prepared.method.regime
        self._policy: Policy = prepared.policy
        self._phases: list[Phase] = []
        self._groups: list[Group] = []
        self._held: Counts = {}
        self._old_tenths = 0

    def advance(self, phase: Phase) -> PlannedPhase:
        """One phase: what is kept, what is loaded."""
        arriving = {label: len(rows) for label, rows in phase.train.items()}
        allocation = self._allocate(phase, arriving)
        old, new = (self._held, arriving) if allocation is None else (allocation.old, allocation.new)
        planned = PlannedPhase(
            phase=phase.index,
            classes_seen=len(old) + len(new),
            arriving=phase.arriving,
            budget=None if allocation is None else allocation.budget,
            decision=None if allocation is None else allocation.decision,
            old=tuple(_quotas(earlier, old) for earlier in self._phases),
            new=tuple(new.values()),
        )
        self._held = {**old, **new}
        self._phases.append(phase)
        return planned

    def _allocate(self, phase: Phase, arriving: Counts) -> Allocation | None:
        if phase.index == 0 or self._regime == "all":
            return None
        state = self._observe(phase)
        if self._regime == "none":
            filled = allocate(state.budget, NOTHING_OLD, [], held={}, arriving=arriving)
            return Allocation(state.budget, None, dict.fromkeys(self._held, 0), filled.new)
        action = self._policy.act(state)
        self._groups.append(_group(self._phases[-1], action))
        decision = decide(state, action)
        self._old_tenths = decision.old_tenths
        return allocate(state.budget, decision, self._groups, held=self._held, arriving=arriving)

    def _observe(self, phase: Phase) -> State:
        seen = [len(earlier.classes) for earlier in self._phases]
        return outlook(self._budget, seen, PhaseFacts(len(phase.classes), phase.arriving), self._old_tenths)


def _halves(phase: Phase) -> tuple[tuple[int, ...], tuple[int, ...]]:
    half = -(-len(phase.classes) // 2)
    return phase.classes[:half], phase.classes[half:]


def _group(phase: Phase, action: Action) -> Group:
    hard, easy = _halves(phase)
    return Group(hard, easy, action.level2_tenths)


def _quotas(phase: Phase, old: Mapping[int, int]) -> OldQuotas:
    harder, easier = (tuple(old[label] for label in half) for half in _halves(phase))
    return OldQuotas(phase.index, harder, easier)


def plan_entry(planned: PlannedPhase) -> dict[str, Any]:
    """A phase as JSON; of equal quotas that do not come out even, the least and the most."""
    return {
        "phase": planned.phase,
        "classes_seen": planned.classes_seen,
        "arriving": planned.arriving,
        "budget": planned.budget,
        "action": action_entry(planned.decision),
        "held_old": planned.held_old,
        "held_new": planned.held_new,
        "per_new_class": _range(planned.new),
        "per_old_class": [
            {"phase": quotas.phase, "harder": _range(quotas.harder), "easier": _range(quotas.easier)}
            for quotas in planned.old
        ],
    }


def _range(counts: Sequence[int]) -> dict[str, int] | None:
    return {"least": min(counts), "most": max(counts)} if counts else None
