"""Every registered policy returns a feasible action in every possible state."""

import pytest

from remem.action import State
from remem.memory.allocation import decide, feasible_tenths
from remem.policies.auto import AUTO
from remem.policies.table import FOR_AUTO, POLICIES


def states() -> list[State]:
    """States from one sample per class to more memory than data."""
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
def test_every_action_is_feasible(name: str) -> None:
    policy = POLICIES[name].build()
    for state in states():
        decision = decide(state, policy.act(state))
        assert state.old_classes <= decision.old_total <= state.budget - state.new_classes
        assert policy.act(state) == policy.act(state)  # deterministic, no hidden state


@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_has_a_name_and_provenance(name: str) -> None:
    policy = POLICIES[name].build()
    own = FOR_AUTO[0] if name == AUTO else name  # `auto` stands for a shipped policy and says which
    assert policy.name == own
    assert policy.provenance()["name"] == own
    assert policy.oracle is False
    assert POLICIES[name].summary
