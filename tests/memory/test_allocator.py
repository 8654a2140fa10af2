"""allocator.py: what is remembered from phase to phase, by hand; canonical actions; paths of policies."""

from dataclasses import replace

import pytest

from remem.action import Action, Decision, State
from remem.errors import InputError
from remem.memory.allocator import Allocator, Step, canonical, follow
from remem.memory.budget import Budget, PhaseFacts
from remem.types import Group

CIFAR = Budget("fixed", 7000, 2000)
FIVE = [PhaseFacts(50, 25000), *[PhaseFacts(10, 5000)] * 5]  # 50 classes of 500 samples, then ten at a time


def after_phase0(budget: Budget = CIFAR, classes: int = 50) -> Allocator:
    allocator = Allocator(budget)
    allocator.add_phase(classes)
    return allocator


def test_every_state_reports_the_share_of_the_phase_before() -> None:
    allocator = after_phase0()
    first = allocator.observe(FIVE[1])
    assert first == State(1, 10, 50, 0, 7000, 2000, 5000, (2, 3, 4, 5, 6, 7, 8, 9), splits=True)
    assert allocator.decide(first, Action(6, 7)) == Decision(4200, 0.6, 6, 0.6, 0.7, False)
    assert allocator.old_tenths == 6
    allocator.add_phase(10)
    second = allocator.observe(FIVE[2])
    assert second == replace(first, phase=2, old_classes=60, old_tenths=6)
    assert allocator.decide(second, Action(5)) == Decision(3500, 0.5, 5, -0.1, 0.5, False)
    allocator.add_phase(10)
    assert allocator.observe(FIVE[3]).old_tenths == 5


@pytest.mark.parametrize(
    ("action", "tenths"),
    [(Action(1), 2), (Action(old_total=2000), 3), (Action(old_total=0), 1), (Action(old_total=7000), 9)],
)
def test_the_share_that_is_remembered_is_the_one_carried_out(action: Action, tenths: int) -> None:
    """0.1 is not feasible and becomes 0.2; exact numbers are remembered as the nearest tenth."""
    allocator = after_phase0()
    decision = allocator.decide(allocator.observe(FIVE[1]), action)
    assert decision.old_tenths == allocator.old_tenths == tenths


def test_observing_changes_nothing() -> None:
    allocator = after_phase0()
    assert allocator.observe(FIVE[1]) == allocator.observe(FIVE[1])
    assert (allocator.old_tenths, allocator.groups) == (0, ())


def test_a_budget_below_the_number_of_classes_is_refused_and_not_remembered() -> None:
    allocator = after_phase0(Budget("fixed", 24, 10), classes=20)
    with pytest.raises(InputError, match="24 samples are less than one for each of the 25 classes"):
        allocator.decide(allocator.observe(PhaseFacts(5, 100)), Action(5))
    assert allocator.old_tenths == 0


def test_halves_keep_the_split_of_the_phase_that_made_them_old() -> None:
    """M = 100. Phase 0 is split 7 : 3 before phase 1 and stays so when phase 1 is split evenly before phase 2."""
    allocator = after_phase0(Budget("fixed", 100, 40), classes=4)
    first = allocator.observe(PhaseFacts(3, 90))
    allocator.split((1, 3), (0, 2), Action(4, 7))
    decision = allocator.decide(first, Action(4, 7))
    allocation = allocator.allocate(first, decision, held=dict.fromkeys(range(4), 50), arriving={4: 50, 5: 30, 6: 10})
    assert allocation.old == {0: 6, 1: 14, 2: 6, 3: 14}  # 40 samples: 28 for the harder half, 12 for the easier one
    assert allocation.new == {4: 25, 5: 25, 6: 10}
    assert (allocation.budget, allocation.decision) == (100, decision)
    allocator.add_phase(3)

    second = allocator.observe(PhaseFacts(1, 50))
    allocator.split((4, 6), (5,), Action(7, 5))
    assert allocator.groups == (Group((1, 3), (0, 2), 7), Group((4, 6), (5,), 5))
    decision = allocator.decide(second, Action(7, 5))
    allocation = allocator.allocate(second, decision, held=dict.fromkeys(range(7), 50), arriving={7: 50})
    assert allocation.old == {0: 6, 1: 14, 2: 6, 3: 14, 4: 10, 5: 10, 6: 10}  # 70 samples over seven classes
    assert allocation.new == {7: 30}


def test_without_exemplars_new_data_fill_the_budget_evenly() -> None:
    allocator = after_phase0(Budget("fixed", 60, 20), classes=2)
    arriving = {2: 50, 3: 10, 4: 50}
    state = allocator.observe(PhaseFacts(3, 110))
    allocation = allocator.allocate_new_only(state, held={0: 30, 1: 30}, arriving=arriving)
    assert (allocation.budget, allocation.decision) == (60, None)
    assert allocation.old == {0: 0, 1: 0}
    assert allocation.new == {2: 25, 3: 10, 4: 25}
    few = allocator.observe(PhaseFacts(2, 9))
    assert allocator.allocate_new_only(few, held={0: 30}, arriving={2: 4, 3: 5}).new == {2: 4, 3: 5}
    single = allocator.observe(PhaseFacts(2, 6))
    assert allocator.allocate_new_only(single, held={0: 30}, arriving={2: 1, 3: 5}).new == {2: 1, 3: 5}
    assert allocator.old_tenths == 0


def test_an_allocator_continues_from_what_it_remembers() -> None:
    allocator = after_phase0()
    state = allocator.observe(FIVE[1])
    allocator.split((0, 1), (2,), Action(6, 7))
    allocator.decide(state, Action(6, 7))
    allocator.add_phase(10)
    again = Allocator(CIFAR, [50, 10], allocator.groups, allocator.old_tenths)
    assert again.observe(FIVE[2]) == allocator.observe(FIVE[2])
    assert (again.groups, again.old_tenths) == (allocator.groups, 6)
    again.add_phase(10)
    assert allocator.observe(FIVE[2]).phase == 2  # nothing is shared between the two


def test_actions_with_the_same_effect_have_one_canonical_form() -> None:
    split = after_phase0().observe(FIVE[1])
    assert canonical(split, Action(6, 9)) == Action(6, 9)
    assert canonical(split, Action(1, 9)) == Action(2, 9)  # the nearest feasible share
    whole = replace(split, splits=False)
    assert canonical(whole, Action(6, 9)) == canonical(whole, Action(6, 1)) == Action(6, 5)
    with pytest.raises(ValueError, match="a path consists of shares"):
        canonical(split, Action(old_total=2000))


def test_where_no_share_is_feasible_every_share_keeps_its_own_form() -> None:
    """Memory starts from the share that was asked for: 24 or 12 of 25 samples are different allocations."""
    stuck = State(2, 10, 50, 6, 60, 20, 90, (), splits=True)
    assert canonical(stuck, Action(3, 4)) == Action(3, 4)
    assert canonical(replace(stuck, splits=False), Action(9, 4)) == Action(9, 5)


def test_canonical_actions_are_carried_out_like_the_original() -> None:
    allocator = after_phase0()
    state = allocator.observe(FIVE[1])
    for action in (Action(tenths, level2) for tenths in range(11) for level2 in (1, 5, 9)):
        one, other = (allocator.decide(state, each) for each in (action, canonical(state, action)))
        assert replace(one, clamped=other.clamped) == other
        assert not other.clamped


def test_a_policy_is_followed_through_a_scenario() -> None:
    """It asks for 0.4 first and a tenth more every time; 0.1 of new memory is the least there is."""
    seen: list[State] = []

    def act(state: State) -> Action:
        seen.append(state)
        return Action(4 if state.phase == 1 else state.old_tenths + 1, 3)

    steps = list(follow(CIFAR, FIVE, act))
    assert [step.state for step in steps] == seen
    assert [step.state.old_tenths for step in steps] == [0, 4, 5, 6, 7]
    assert [step.state.old_classes for step in steps] == [50, 60, 70, 80, 90]
    assert [step.action for step in steps] == [Action(tenths, 3) for tenths in (4, 5, 6, 7, 8)]
    assert [step.decision.old_total for step in steps] == [2800, 3500, 4200, 4900, 5600]
    assert [step.decision.level1 for step in steps] == [0.4, 0.1, 0.1, 0.1, 0.1]
    assert steps[0] == Step(seen[0], Action(4, 3), Decision(2800, 0.4, 4, 0.4, 0.3, False))


def test_a_scenario_of_one_phase_has_nothing_to_decide() -> None:
    assert list(follow(CIFAR, FIVE[:1], lambda state: Action())) == []


def test_growing_budgets_and_single_classes_along_a_path() -> None:
    phases = [PhaseFacts(3, 30), PhaseFacts(1, 10), PhaseFacts(2, 20)]
    steps = list(follow(Budget("growing", 4, 0), phases, lambda state: Action(5, 9)))
    assert [step.state.budget for step in steps] == [3 * 4 + 10, 4 * 4 + 20]
    assert [step.state.splits for step in steps] == [True, False]
    assert [step.decision.level2 for step in steps] == [0.9, None]


def test_between_phases_nothing_arrives_and_the_share_is_not_remembered() -> None:
    allocator = after_phase0()
    state = allocator.observe(PhaseFacts(0, 0))
    assert state.vector() == (0, 0)
    allocator.split((0, 1), (2,), Action(6, 7))
    decision = allocator.decide_between(state, Action(6, 7))
    assert (decision.old_tenths, decision.clamped) == (9, True)  # less would leave memory empty
    allocator.settle()
    after = allocator.observe(FIVE[1])
    assert (after.old_tenths, after.splits) == (0, False)  # split already
    allocator.add_phase(10)
    assert allocator.observe(FIVE[2]).splits


def test_another_budget_changes_nothing_else() -> None:
    allocator = after_phase0()
    allocator.decide(allocator.observe(FIVE[1]), Action(6))
    allocator.settle()
    other = allocator.with_budget(Budget("fixed", 900, 100))
    assert (other.old_tenths, other.settled, other.observe(FIVE[1]).budget) == (6, True, 900)
