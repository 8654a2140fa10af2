"""Memory management between phases: observe, decide, allocate. Uses counts only, so it needs no training."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from remem.action import EVEN, Action, Decision, State
from remem.errors import InputError
from remem.memory.allocation import allocate, apportion, decide, make_state
from remem.memory.budget import Budget, PhaseFacts
from remem.types import Allocation, Group, IntArray


class Allocator:
    """The allocation state of an episode: classes and groups of each phase so far, and the latest old share."""

    def __init__(
        self,
        budget: Budget,
        seen: Sequence[int] = (),
        groups: Sequence[Group] = (),
        old_tenths: int = 0,
        rung: int = 0,
        *,
        settled: bool = False,
    ) -> None:
        self._budget = budget
        self._seen = list(seen)  # classes of each phase so far
        self._groups = list(groups)  # one per phase whose classes are old
        self._old_tenths = old_tenths  # nominal old share of the latest phase
        self._rung = rung  # codec of the latest phase, as a place in the ladder
        self._settled = settled  # whether the classes of the latest phase are split already

    @property
    def groups(self) -> tuple[Group, ...]:
        return tuple(self._groups)

    @property
    def old_tenths(self) -> int:
        return self._old_tenths

    @property
    def rung(self) -> int:
        return self._rung

    @property
    def settled(self) -> bool:
        return self._settled

    def observe(self, new: PhaseFacts) -> State:
        """Returns s_i and everything else that a policy may know before phase i >= 1 (Algorithm 1, line 11)."""
        state = make_state(self._budget, self._seen, new, self._old_tenths, self._rung)
        return replace(state, splits=False) if self._settled else state

    def decide(self, state: State, action: Action) -> Decision:
        """Returns the decision for an action, and stores its old share and codec for the next state."""
        decision = decide(state, action)
        self._old_tenths, self._rung = decision.old_tenths, decision.rung
        return decision

    def split(self, harder: tuple[int, ...], easier: tuple[int, ...], action: Action) -> None:
        """Makes the classes of phase i-1 old. Their two halves keep this action's split from now on."""
        self._groups.append(Group(harder, easier, action.level2_tenths))

    def decide_between(self, state: State, action: Action) -> Decision:
        """Returns the decision between two phases, where nothing arrives. The next state does not report its share."""
        decision = decide(state, action)
        self._rung = decision.rung
        return decision

    def settle(self) -> None:
        """Notes that the classes of the latest phase are split, so that the next action does not split them."""
        self._settled = True

    def with_budget(self, budget: Budget) -> "Allocator":
        """The same state under another budget."""
        return Allocator(budget, self._seen, self._groups, self._old_tenths, self._rung, settled=self._settled)

    def allocate(
        self, state: State, decision: Decision, *, held: Mapping[int, int], arriving: Mapping[int, int]
    ) -> Allocation:
        """Computes the quotas of phase i (Eq. 1 and 2) from the held and arriving samples per class."""
        return allocate(state.at(decision.rung).budget, decision, self._groups, held=held, arriving=arriving)

    def shrink(
        self, allocation: Allocation, budget: int, *, held: Mapping[int, int], arriving: Mapping[int, int]
    ) -> Allocation:
        """The allocation of fewer samples with the same shares. No class gets more than before."""
        unseen = len(allocation.new.keys() - allocation.old.keys())
        classes = len(allocation.old) + unseen
        if budget < (classes if allocation.decision else len(allocation.new)):
            raise InputError(f"budget: its bytes hold less than one sample for each of {classes} classes")
        if allocation.decision is None:
            quotas = apportion(budget, ones := [1] * len(arriving), lower=ones, upper=list(allocation.new.values()))
            return replace(allocation, budget=budget, new=dict(zip(arriving, quotas, strict=True)))
        old_total = allocation.decision.old_total * budget // allocation.budget
        old_total = min(max(old_total, len(allocation.old)), budget - unseen)
        decision = replace(allocation.decision, old_total=old_total)
        smaller = allocate(budget, decision, self._groups, held=held, arriving=arriving)
        old, new = (
            {label: min(quota, before[label]) for label, quota in after.items()}
            for after, before in ((smaller.old, allocation.old), (smaller.new, allocation.new))
        )
        return replace(allocation, budget=budget, old=old, new=new)

    def allocate_new_only(self, state: State, *, held: Mapping[int, int], arriving: Mapping[int, int]) -> Allocation:
        """Computes the quotas of a method without exemplars: new data may use the whole budget."""
        ones = [1] * len(arriving)
        quotas = apportion(min(state.budget, state.arriving), ones, lower=ones, upper=list(arriving.values()))
        new = dict(zip(arriving, quotas, strict=True))
        return Allocation(state.budget, None, dict.fromkeys(held, 0), new, state.rung)

    def add_phase(self, classes: int) -> None:
        """Records the number of classes of a trained phase."""
        self._seen.append(classes)
        self._settled = False


def fit_bytes(
    allocation: Allocation,
    limit: int,
    old: Mapping[int, IntArray],
    new: Mapping[int, IntArray],
    shrink: Callable[[Allocation, int], Allocation],
) -> Allocation:
    """Drops samples from the end of their rankings until the bytes of the others fit (protocol 6).

    `old` and `new` have the bytes of each class's samples, best first. Codes of one size fit without this.
    """
    first = allocation
    sums = [{label: np.concatenate([[0], np.cumsum(own)]) for label, own in part.items()} for part in (old, new)]
    largest = max((int(own.max()) for part in (old, new) for own in part.values() if len(own)), default=1)

    def excess() -> int:
        parts = zip(sums, (allocation.old, allocation.new), strict=True)
        return sum(int(own[label][quota]) for own, quotas in parts for label, quota in quotas.items()) - limit

    while (over := excess()) > 0:
        held = sum(allocation.old.values()) + sum(allocation.new.values())
        allocation = shrink(first, min(allocation.budget, held) - max(1, over // largest))
    return allocation


class Step(NamedTuple):
    """One phase of a path."""

    state: State
    action: Action  # as returned by the policy
    decision: Decision


def canonical(state: State, action: Action) -> Action:
    """Returns one representative of all actions with the same effect.

    An old share becomes the nearest feasible one. Level 2 becomes even if there is nothing to split.
    """
    if action.old_total is not None:
        raise ValueError("a path consists of shares; got an exact number of samples")
    decision = decide(state, action)
    # If no share is feasible, `decide` starts from the requested share, so that share is kept.
    tenths = decision.old_tenths if state.at(decision.rung).feasible else action.old_tenths
    level2 = action.level2_tenths if state.splits else EVEN
    return replace(action, old_tenths=tenths, level2_tenths=level2, rung=decision.rung)


def follow(budget: Budget, phases: Sequence[PhaseFacts], act: Callable[[State], Action]) -> Iterator[Step]:
    """Yields the steps of a policy through a scenario, given the sizes of phases 0..N."""
    allocator = Allocator(budget)
    for index, facts in enumerate(phases):
        if index:
            state = allocator.observe(facts)
            action = act(state)
            yield Step(state, action, allocator.decide(state, action))
        allocator.add_phase(facts.classes)
