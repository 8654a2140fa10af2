"""Memory management between phases: observe, decide, allocate. Whole numbers only, so nothing needs to be trained."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from remem.action import EVEN, Action, Decision, State
from remem.memory.allocation import allocate, apportion, decide, make_state
from remem.memory.budget import Budget, PhaseFacts
from remem.types import Allocation, Group


class Allocator:
    """What an episode must remember to share out its memory: classes and groups of every phase, and the old share."""

    def __init__(
        self, budget: Budget, seen: Sequence[int] = (), groups: Sequence[Group] = (), old_tenths: int = 0
    ) -> None:
        self._budget = budget
        self._seen = list(seen)  # number of classes of every phase so far
        self._groups = list(groups)  # one for every phase whose classes are old
        self._old_tenths = old_tenths  # nominal old share of the latest phase

    @property
    def groups(self) -> tuple[Group, ...]:
        return tuple(self._groups)

    @property
    def old_tenths(self) -> int:
        return self._old_tenths

    def observe(self, new: PhaseFacts) -> State:
        """s_i, and everything else that a policy may know before phase i >= 1 (Algorithm 1, line 11)."""
        return make_state(self._budget, self._seen, new, self._old_tenths)

    def decide(self, state: State, action: Action) -> Decision:
        """The action as it is carried out; the next state reports its old share."""
        decision = decide(state, action)
        self._old_tenths = decision.old_tenths
        return decision

    def split(self, harder: tuple[int, ...], easier: tuple[int, ...], action: Action) -> None:
        """The classes of phase i-1 become old: their two halves keep this action's split from now on."""
        self._groups.append(Group(harder, easier, action.level2_tenths))

    def allocate(
        self, state: State, decision: Decision, *, held: Mapping[int, int], arriving: Mapping[int, int]
    ) -> Allocation:
        """Quotas of phase i (Eq. 1 and 2), from the samples of each class that are held and that arrive."""
        return allocate(state.budget, decision, self._groups, held=held, arriving=arriving)

    def allocate_new_only(self, state: State, *, held: Mapping[int, int], arriving: Mapping[int, int]) -> Allocation:
        """Quotas of a method without exemplars: old classes keep nothing, the new data may fill the budget."""
        ones = [1] * len(arriving)
        quotas = apportion(min(state.budget, state.arriving), ones, lower=ones, upper=list(arriving.values()))
        return Allocation(state.budget, None, dict.fromkeys(held, 0), dict(zip(arriving, quotas, strict=True)))

    def add_phase(self, classes: int) -> None:
        """The classes of a phase have been learned."""
        self._seen.append(classes)


class Step(NamedTuple):
    """One phase of a path."""

    state: State
    action: Action  # as the policy gave it
    decision: Decision


def canonical(state: State, action: Action) -> Action:
    """One action for all with the same effect: where nothing is split, or a share becomes the nearest feasible one."""
    if action.old_total is not None:
        raise ValueError("a path consists of shares; an exact number of samples has no place in it")
    # Where nothing is feasible memory starts from the share that was asked for, so that share is kept.
    tenths = decide(state, action).old_tenths if state.feasible else action.old_tenths
    return replace(action, old_tenths=tenths, level2_tenths=action.level2_tenths if state.splits else EVEN)


def follow(budget: Budget, phases: Sequence[PhaseFacts], act: Callable[[State], Action]) -> Iterator[Step]:
    """The path of a policy through a scenario, given the size of phases 0..N."""
    allocator = Allocator(budget)
    for index, facts in enumerate(phases):
        if index:
            state = allocator.observe(facts)
            action = act(state)
            yield Step(state, action, allocator.decide(state, action))
        allocator.add_phase(facts.classes)
