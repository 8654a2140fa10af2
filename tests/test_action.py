"""action.py: the grid of actions, keys, the values a state allows, and decisions as JSON."""

import json
from dataclasses import replace
from itertools import product

import pytest

from remem.action import CHANGES, EVEN, TENTHS, Action, Decision, State

FIRST = State(1, 10, 50, 0, 7000, 2000, 5000, (3, 4, 5, 6, 7, 8, 9), splits=True)
LATER = State(3, 10, 70, 6, 7000, 2000, 5000, (3, 4, 5, 6, 7, 8, 9), splits=True)
EVERY = [Action(*values) for values in product(*Action.grid())]


def test_the_grid_is_nine_tenths_by_nine_tenths() -> None:
    assert Action.grid() == ((1, 2, 3, 4, 5, 6, 7, 8, 9),) * 2
    assert (TENTHS, CHANGES, EVEN) == ((1, 2, 3, 4, 5, 6, 7, 8, 9), (-1, 0, 1), 5)
    assert Action() == Action(old_tenths=5, level2_tenths=5)


def test_keys_are_plain_numbers_and_lead_back_to_the_action() -> None:
    assert Action(6, 7).key() == (6, 7)
    for action in EVERY:
        assert Action.from_key(action.key()) == action
        assert Action.from_key(json.loads(json.dumps(action.key()))) == action
    assert len({action.key() for action in EVERY}) == 81


def test_components_that_an_older_key_lacks_take_their_defaults() -> None:
    assert Action.from_key((6,)) == Action(6, 5)


@pytest.mark.parametrize("key", [(), (6, 5, 2, 5)])
def test_keys_of_another_length_are_refused(key: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="is not the key of an action with 3 components"):
        Action.from_key(key)


def test_an_exact_number_of_samples_has_no_key() -> None:
    action = Action(old_total=2000)
    assert (action.old_tenths, action.level2_tenths, action.old_total) == (5, 5, 2000)
    with pytest.raises(ValueError, match="an exact number of samples has no key"):
        action.key()


def test_actions_are_ordered_by_their_components_and_can_be_keys() -> None:
    assert sorted(reversed(EVERY)) == EVERY
    assert sorted([Action(6, 5), Action(2, 9), Action(6, 1)]) == [Action(2, 9), Action(6, 1), Action(6, 5)]
    assert {Action(6, 5): "x"}[Action.from_key([6, 5])] == "x"


def test_indices_are_positions_in_the_grid() -> None:
    assert Action.from_indices((0, 8)) == Action(1, 9)
    assert [Action.from_indices(indices) for indices in product(range(9), range(9))] == EVERY
    with pytest.raises(ValueError, match="zip"):
        Action.from_indices((0,))
    with pytest.raises(IndexError):
        Action.from_indices((0, 9))


def test_the_vector_is_the_papers_state() -> None:
    assert FIRST.vector() == (0.2, 0.0)
    assert LATER.vector() == (10 / 70, 0.6)


@pytest.mark.parametrize(
    ("state", "reachable", "choices"),
    [
        (FIRST, (3, 4, 5, 6, 7, 8, 9), ((3, 4, 5, 6, 7, 8, 9), TENTHS)),  # phase 1: any feasible share
        (LATER, (5, 6, 7), ((5, 6, 7), TENTHS)),  # later: at most a tenth away from the last one
        (replace(LATER, feasible=(7, 8)), (7,), ((7,), TENTHS)),
        (replace(LATER, feasible=(8, 9)), (), ((6,), TENTHS)),  # nothing can be reached: the old share again
        (replace(FIRST, feasible=()), (), ((0,), TENTHS)),
        (replace(LATER, splits=False), (5, 6, 7), ((5, 6, 7), (5,))),  # one class is not split
    ],
)
def test_what_a_state_allows(state: State, reachable: tuple[int, ...], choices: tuple[tuple[int, ...], ...]) -> None:
    assert state.reachable == reachable
    assert state.choices() == choices


@pytest.mark.parametrize(
    ("state", "wanted", "taken"),
    [
        (FIRST, 4, 4),
        (FIRST, 1, 3),  # phase 1: the nearest feasible one
        (replace(FIRST, feasible=(2, 4, 8)), 3, 2),  # a tie goes to the lower one
        (replace(FIRST, feasible=(2, 4, 8)), 6, 4),
        (LATER, 6, 6),
        (LATER, 9, 7),  # later: at most a tenth away from the last one
        (LATER, 1, 5),
        (replace(LATER, feasible=(5, 7)), 6, 5),  # a tie again
        (replace(LATER, feasible=(8, 9)), 9, 6),  # nothing can be reached: the old share
        (replace(FIRST, feasible=()), 9, 0),
    ],
)
def test_the_nearest_allowed_action(state: State, wanted: int, taken: int) -> None:
    assert Action(wanted, 8).nearest(state) == Action(taken, 8)
    assert Action(wanted, 8).nearest(replace(state, splits=False)) == Action(taken, 5)


def test_the_nearest_action_is_always_allowed_and_an_allowed_one_stays() -> None:
    for state in (FIRST, LATER, replace(LATER, splits=False), replace(FIRST, feasible=(2, 9))):
        for action in EVERY:
            nearest = action.nearest(state)
            allowed = all(value in values for value, values in zip(action.key(), state.choices(), strict=True))
            assert all(value in values for value, values in zip(nearest.key(), state.choices(), strict=True))
            assert (nearest == action) == allowed


def test_a_decision_in_result_json() -> None:
    decision = Decision(4200, 0.6, 6, 0.1, 0.7, False)
    tree = {"old_share": 0.6, "level1": 0.1, "level2": 0.7, "clamped": False}
    assert decision.to_json() == tree
    assert list(decision.to_json()) == list(tree)  # the order of the documented format
    exact = Decision(2000, 2 / 7, 3, None, None, True)
    assert json.loads(json.dumps(exact.to_json())) == {
        "old_share": 2 / 7,
        "level1": None,
        "level2": None,
        "clamped": True,
    }
