"""agent.py: answers of agents of other libraries become actions that can be carried out."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from remem.action import Action, State
from remem.errors import InputError
from remem.memory.allocation import decide
from remem.policies.agent import AgentPolicy

FIRST = State(1, 10, 50, 0, 7000, 2000, 5000, (3, 4, 5, 6, 7, 8, 9), splits=True)
LATER = State(3, 10, 70, 6, 7000, 2000, 5000, (3, 4, 5, 6, 7, 8, 9), splits=True)


def test_answers_become_the_nearest_action_that_the_state_allows() -> None:
    agent = AgentPolicy(lambda _: np.array([8, 0]))
    assert agent.act(FIRST) == Action(9, 1)
    assert agent.act(LATER) == Action(7, 1)  # at most a tenth away from 0.6
    assert agent.act(replace(LATER, feasible=(8, 9), splits=False)) == Action(6, 5)  # nothing can be reached


@pytest.mark.parametrize(
    "answer",
    [
        np.array([3, 8]),
        [3, 8],
        (3, 8),
        np.array([[3, 8]]),
        np.array([3.0, 8.0], dtype=np.float32),
        (np.array([3, 8]), None),  # stable-baselines3
        (np.array([[3, 8]]), (np.zeros(4),)),
    ],
    ids=repr,
)
def test_answers_are_read_in_every_form_that_libraries_use(answer: Any) -> None:
    seen: list[NDArray[np.float32]] = []

    def predict(observation: NDArray[np.float32]) -> Any:
        seen.append(observation)
        return answer

    assert AgentPolicy(predict).act(FIRST) == Action(old_tenths=4, level2_tenths=9)
    assert AgentPolicy(predict).act(LATER) == Action(old_tenths=5, level2_tenths=9)
    assert [(o.dtype.name, o.shape) for o in seen] == [("float32", (2,))] * 2
    assert seen[1].tolist() == pytest.approx([1 / 7, 0.6])


@pytest.mark.parametrize("answer", [3, [3], [3, 9], [-1, 3], [3, 4, 5], [2.5, 3], None, ["3", "4"], [np.nan, 1]])
def test_answers_that_are_no_actions_are_refused(answer: Any) -> None:
    with pytest.raises(InputError, match=r"policy 'ppo': answered .*, expected two whole numbers from 0 to 8"):
        AgentPolicy(lambda _: answer, name="ppo").act(FIRST)


def test_every_answer_can_be_carried_out() -> None:
    for share, split in np.ndindex(9, 9):
        policy = AgentPolicy(partial(np.full_like, shape=2, fill_value=(share, split), dtype=np.int64))
        for state in (FIRST, LATER, replace(LATER, splits=False)):
            decision = decide(state, policy.act(state))
            assert not decision.clamped
            assert state.phase == 1 or abs(decision.old_tenths - state.old_tenths) <= 1


def test_the_provenance_of_an_agent() -> None:
    source = {"kind": "phase0", "data": "digits", "classes": ["0", "1"]}
    assert AgentPolicy(print).provenance() == {"name": "agent", "kind": "agent", "oracle": False, "source": None}
    assert AgentPolicy(print, "ppo", source=source).provenance()["source"] == source
    assert AgentPolicy(print, oracle=True).oracle is True
