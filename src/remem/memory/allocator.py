"""Memory management between phases: observe, decide, allocate. Uses counts only, so it needs no training."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from remem.action import EVEN, Action, Decision, State
from remem.memory.allocation import allocate, apportion, decide, make_state
from remem.memory.budget import Budget, PhaseFacts
from remem.types import Allocation, Group


class Allocator:
    """The allocation state of an episode: classes and groups of each phase so far, and the latest old share."""

    def __init__(
        self, budget: Budget, seen: Sequence[int] = (), groups: Sequence[Group] = (), old_tenths: int = 0
    ) -> None:
        self._budget = budget
        self._seen = list(seen)  # classes of each phase so far
        self._groups = list(groups)  # one per phase whose classes are old
        self._old_tenths = old_tenths  # nominal old share of the latest phase

    @property
    def groups(self) -> tuple[Group, ...]:
        return tuple(self._groups)

    @property
    def old_tenths(self) -> int:
        return self._old_tenths

    def observe(self, new: PhaseFacts) -> State:
        """Returns s_i and everything else that a policy may know before phase i >= 1 (Algorithm 1, line 11)."""
        return make_state(self._budget, self._seen, new, self._old_tenths)

    def decide(self, state: State, action: Action) -> Decision:
        """Returns the decision for an action, and stores its old share for the next state."""
        decision = decide(state, action)
        self._old_tenths = decision.old_tenths
        return decision

    def split(self, harder: tuple[int, ...], easier: tuple[int, ...], action: Action) -> None:
        """Makes the classes of phase i-1 old. Their two halves keep this action's split from now on."""
        self._groups.append(Group(harder, easier, action.level2_tenths))

    def allocate(
        self, state: State, decision: Decision, *, held: Mapping[int, int], arriving: Mapping[int, int]
    ) -> Allocation:
        """Computes the quotas of phase i (Eq. 1 and 2) from the held and arriving samples per class."""
        return allocate(state.budget, decision, self._groups, held=held, arriving=arriving)

    def allocate_new_only(self, state: State, *, held: Mapping[int, int], arriving: Mapping[int, int]) -> Allocation:
        """Computes the quotas of a method without exemplars: new data may use the whole budget."""
        ones = [1] * len(arriving)
        quotas = apportion(min(state.budget, state.arriving), ones, lower=ones, upper=list(arriving.values()))
        return Allocation(state.budget, None, dict.fromkeys(held, 0), dict(zip(arriving, quotas, strict=True)))

    def add_phase(self, classes: int) -> None:
        """Records the number of classes of a trained phase."""
        self._seen.append(classes)


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
    # If no share is feasible, `decide` starts from the requested share, so that share is kept.
    tenths = decide(state, action).old_tenths if state.feasible else action.old_tenths
    return replace(action, old_tenths=tenths, level2_tenths=action.level2_tenths if state.splits else EVEN)


def follow(budget: Budget, phases: Sequence[PhaseFacts], act: Callable[[State], Action]) -> Iterator[Step]:
    """Yields the steps of a policy through a scenario, given the sizes of phases 0..N."""
    allocator = Allocator(budget)
    for index, facts in enumerate(phases):
        if index:
            state = allocator.observe(facts)
            action = act(state)
            yield Step(state, action, allocator.decide(state, action))
        allocator.add_phase(facts.classes)
