"""Action paths through a task. Which states a path meets is arithmetic, so paths are drawn without any training."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from remem.data.scenario import Scenario
from remem.memory.allocation import decide, outlook
from remem.memory.budget import Budget, PhaseFacts
from remem.policies.rmm import Choice, TwoLevelPolicy
from remem.types import Action, State

Move = tuple[int, int]  # old share and level-2 split of one phase, both in tenths, as they are carried out
Fidelity = Literal["full", "short", "features"]
Reward = Literal["accuracy", "accuracy_cnn"]  # of the method's own head, or of the learned one
Path = tuple[Move, ...]  # phases 1, 2, ...


@dataclass(frozen=True)
class TaskKey:
    """Which task: its number, how costly its runs are, and whose it is where runs share nothing."""

    number: int
    fidelity: Fidelity
    run: str = ""
    fresh: bool = False  # whether such a run has random streams of its own, too

    @property
    def stream(self) -> str:
        """All fidelities of a task have the same order, the same validation samples and the same draws."""
        return f"pseudo {self.number}" + (f" {self.run}" if self.fresh else "")


Node = tuple[TaskKey, Path]  # a task and the moves of phases 1..i; () is the end of phase 0


@dataclass(frozen=True)
class Task:
    """A pseudo task at one fidelity: what arrives when, under which budget."""

    key: TaskKey
    scenario: Scenario
    budget: Budget
    reward: Reward = "accuracy"

    @property
    def length(self) -> int:
        """N: the phases in which something is decided."""
        return len(self.scenario.phases) - 1


def state_before(task: Task, index: int, old_tenths: int) -> State:
    """What a policy sees before phase i >= 1 if phase i-1 had that old share; after phase N nothing arrives."""
    phases = task.scenario.phases
    seen = [len(phase.classes) for phase in phases[:index]]
    if index == len(phases):
        end = outlook(task.budget, seen, PhaseFacts(0, 0), old_tenths)
        return replace(end, feasible=(), splits=False)
    return outlook(task.budget, seen, PhaseFacts(len(phases[index].classes), phases[index].arriving), old_tenths)


def walk(task: Task, act: Callable[[State], Action]) -> Path:
    """The path that somebody takes through a task."""
    tenths, moves = 0, list[Move]()
    for index in range(1, task.length + 1):
        state = state_before(task, index, tenths)
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
