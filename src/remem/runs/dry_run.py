"""Dry run: the memory allocation of every phase, computed without training."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from remem.action import Decision
from remem.codecs.table import CODECS, LADDER, resolve_ladder
from remem.data.stored_codes import mean_sizes
from remem.memory.allocator import Allocator
from remem.memory.budget import PhaseFacts
from remem.runs.prepared import Prepared
from remem.types import Allocation, Json, Phase

Counts = dict[int, int]  # class -> samples


@dataclass(frozen=True)
class OldQuotas:
    """Samples per class of one earlier phase."""

    phase: int
    harder: tuple[int, ...]
    easier: tuple[int, ...]  # empty if the phase has one class


@dataclass(frozen=True)
class PlannedPhase:
    """The allocation of one phase."""

    phase: int
    classes_seen: int
    arriving: int
    budget: int | None  # None if there is no limit
    decision: Decision | None  # None if there is nothing to decide
    old: tuple[OldQuotas, ...]
    new: tuple[int, ...]  # samples of each new class
    rung: int = 0  # how samples are stored, as a place in the ladder

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
    """All phases. The harder classes are known only after training; a plan takes the first half of each phase."""

    phases: tuple[PlannedPhase, ...]


def plan(prepared: Prepared) -> Plan:
    """Plans the phases of a run under its policy. `held_old` and `held_new` equal those of the real run."""
    phases = prepared.scenario.phases
    allocator, held, planned = Allocator(prepared.budget), Counts(), list[PlannedPhase]()
    for phase in phases:
        arriving = {label: len(rows) for label, rows in phase.train.items()}
        allocation = _allocate(prepared, allocator, phase, held, arriving)
        old, new = (held, arriving) if allocation is None else (allocation.old, allocation.new)
        planned.append(
            PlannedPhase(
                phase=phase.index,
                classes_seen=len(old) + len(new),
                arriving=phase.arriving,
                budget=None if allocation is None else allocation.budget,
                decision=None if allocation is None else allocation.decision,
                old=tuple(_quotas(earlier, old) for earlier in phases[: phase.index]),
                new=tuple(new.values()),
                rung=0 if allocation is None else allocation.rung,
            )
        )
        held = {**old, **new}
        allocator.add_phase(len(phase.classes))
    return Plan(tuple(planned))


def _allocate(
    prepared: Prepared, allocator: Allocator, phase: Phase, held: Counts, arriving: Counts
) -> Allocation | None:
    """Allocates like `Episode`, with the first half of each phase's classes as the harder ones."""
    replay = prepared.method.replay
    if phase.index == 0 or replay == "all":
        return None
    state = allocator.observe(PhaseFacts(len(phase.classes), phase.arriving))
    if replay == "none":
        return allocator.allocate_new_only(state, held=held, arriving=arriving)
    action = prepared.policy.act(state)
    allocator.split(*_halves(prepared.scenario.phases[phase.index - 1]), action)
    return allocator.allocate(state, allocator.decide(state, action), held=held, arriving=arriving)


def _halves(phase: Phase) -> tuple[tuple[int, ...], tuple[int, ...]]:
    half = -(-len(phase.classes) // 2)
    return phase.classes[:half], phase.classes[half:]


def _quotas(phase: Phase, old: Mapping[int, int]) -> OldQuotas:
    harder, easier = (tuple(old[label] for label in half) for half in _halves(phase))
    return OldQuotas(phase.index, harder, easier)


@dataclass(frozen=True)
class StoredAs:
    """What a budget in bytes holds if every sample is stored by one codec."""

    codec: str
    sample_bytes: int  # of each sample, or on average
    samples: int


def stored_as(prepared: Prepared) -> list[StoredAs]:
    """The codecs of the run, then the others that fit its samples; empty where the budget is in samples."""
    limit, bank = prepared.budget.bytes, prepared.scenario.bank
    if limit is None:
        return []
    names = dict.fromkeys((*prepared.ladder, *resolve_ladder((LADDER,), bank.stored_shape, files=False)))
    sizes = mean_sizes(bank, prepared.scenario.phases, list(names))
    return [StoredAs(name, own[-1], limit // own[-1]) for name, own in zip(names, sizes, strict=True)]


def stored_at(prepared: Prepared, sides: Sequence[int]) -> dict[int, dict[str, int]]:
    """Samples that a budget in bytes would hold if images had other sides, by codec; without codes of unknown size."""
    limit, channels = prepared.budget.bytes or 0, prepared.scenario.bank.stored_shape[-1]
    found: dict[int, dict[str, int]] = {}
    for side in sides:
        shape = (side, side, channels)
        sizes = {name: CODECS[name].size(shape) for name in resolve_ladder((LADDER,), shape, files=False)}
        found[side] = {name: limit // size for name, size in sizes.items() if size is not None}
    return found


def plan_entry(planned: PlannedPhase) -> Json:
    """Returns a phase as JSON, with the smallest and largest quota of each group of classes."""
    return {
        "phase": planned.phase,
        "classes_seen": planned.classes_seen,
        "arriving": planned.arriving,
        "budget": planned.budget,
        "action": None if planned.decision is None else planned.decision.to_json(),
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
