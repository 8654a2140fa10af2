"""What every registered policy promises: an action that can be carried out, in every state that can come."""

import pytest

from remem.memory.allocation import decide, feasible_tenths
from remem.policies.policy import POLICIES
from remem.types import State


def states() -> list[State]:
    """From one sample per class to more memory than data."""
    made = []
    for old, new, budget, arriving in (
        (1, 1, 2, 9),
        (4, 2, 6, 40),
        (10, 1, 60, 30),
        (50, 10, 7000, 5000),
        (2, 3, 99, 9),
    ):
        for phase, tenths in ((1, 0), (2, 1), (3, 9)):
            feasible = feasible_tenths(budget, old_classes=old, new_classes=new, arriving=arriving)
            made.append(State(phase, new, old, tenths, budget, 20 * (old + new), arriving, feasible, old > 1))
    return made


@pytest.mark.parametrize("name", POLICIES)
def test_every_action_can_be_carried_out(name: str) -> None:
    policy = POLICIES[name].build()
    for state in states():
        decision = decide(state, policy.act(state))
        assert state.old_classes <= decision.old_total <= state.budget - state.new_classes
        assert policy.act(state) == policy.act(state)  # no hidden state, no chance


@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_says_what_it_is(name: str) -> None:
    policy = POLICIES[name].build()
    assert policy.name == name
    assert policy.provenance()["name"] == name
    assert policy.oracle is False
    assert POLICIES[name].summary
