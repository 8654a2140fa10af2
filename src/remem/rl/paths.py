"""Action paths through a task. Which states a path meets is arithmetic, so paths are drawn without any training."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from remem.data.scenario import Scenario
from remem.memory.allocation import decide, outlook
from remem.memory.budget import Budget, PhaseFacts
from remem.policies.rmm import Choice, TwoLevelPolicy
from remem.types import Action, State

Move = tuple[int, int]  # old share and level-2 split of one phase, both in tenths, as they are carried out
Path = tuple[Move, ...]  # phases 1, 2, ...


@dataclass(frozen=True)
class Task:
    """A pseudo task: what arrives when, under which budget; `name` is what its random streams hang on."""

    name: str
    scenario: Scenario
    budget: Budget

    @property
    def length(self) -> int:
        """N: the phases in which something is decided."""
        return len(self.scenario.phases) - 1


def walk(task: Task, act: Callable[[State], Action]) -> Path:
    """The path that somebody takes through a task."""
    sizes = [len(phase.classes) for phase in task.scenario.phases]
    tenths, moves = 0, list[Move]()
    for phase in task.scenario.phases[1:]:
        new = PhaseFacts(len(phase.classes), phase.arriving)
        state = outlook(task.budget, sizes[: phase.index], new, tenths)
        action = act(state)
        moves.append(carried_out(state, action))
        tenths = decide(state, action).old_tenths
    return tuple(moves)


def carried_out(state: State, action: Action) -> Move:
    """Actions that come to the same are the same move: where nothing is split, or a share becomes the nearest one."""
    if action.old_tenths is None:
        raise ValueError("a path is made of shares; an exact number of samples has no place in it")
    # Where nothing is feasible memory starts from the share that was asked for, so that one is kept.
    tenths = decide(state, action).old_tenths if state.feasible else action.old_tenths
    return tenths, action.level2_tenths if state.splits else 5


def drawn(task: Task, policy: TwoLevelPolicy, rng: np.random.Generator | None) -> tuple[Path, tuple[Choice, ...]]:
    """A path sampled from a policy (Algorithm 1, lines 11-14), or without `rng` its most probable one."""
    choices: list[Choice] = []

    def act(state: State) -> Action:
        action, choice = policy.choose(state, rng)
        choices.append(choice)
        return action

    return walk(task, act), tuple(choices)
