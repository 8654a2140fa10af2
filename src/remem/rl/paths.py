"""Action paths through a task. The states a path visits are arithmetic, so paths are sampled before any training."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from remem.action import Action, State
from remem.data.scenario import Scenario
from remem.memory.allocator import canonical, follow
from remem.memory.budget import Budget, PhaseFacts
from remem.policies.rmm import Choice, TwoLevelPolicy

ActionPath = tuple[Action, ...]  # canonical actions of phases 1, 2, ...
Fidelity = Literal["full", "short", "features"]
Reward = Literal["accuracy", "accuracy_cnn"]  # of the method's own readout, or of the learned head


@dataclass(frozen=True)
class TaskKey:
    """Which task: its number, how costly its runs are, and which run it belongs to where runs share nothing."""

    number: int
    fidelity: Fidelity
    run: str = ""
    fresh: bool = False  # whether such a run has random streams of its own, too

    @property
    def stream(self) -> str:
        """All fidelities of a task have the same class order, the same validation samples and the same draws."""
        return f"pseudo {self.number}" + (f" {self.run}" if self.fresh else "")


Node = tuple[TaskKey, ActionPath]  # a task and the actions of phases 1..i; () is the end of phase 0


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

    @property
    def phases(self) -> list[PhaseFacts]:
        """Classes and training samples of phases 0..N."""
        return [PhaseFacts(len(phase.classes), phase.arriving) for phase in self.scenario.phases]


class TaskSource(Protocol):
    """Where tasks come from, as far as paths are concerned."""

    def path_task(self, key: TaskKey) -> Task: ...


def follow_path(task: Task, act: Callable[[State], Action]) -> ActionPath:
    """The path that a policy takes through a task."""
    return tuple(canonical(step.state, step.action) for step in follow(task.budget, task.phases, act))


def sample_path(
    task: Task, policy: TwoLevelPolicy, rng: np.random.Generator | None
) -> tuple[ActionPath, tuple[Choice, ...]]:
    """A path sampled from a policy (Algorithm 1, lines 11-14), or without `rng` its most probable one."""
    choices: list[Choice] = []

    def act(state: State) -> Action:
        action, choice = policy.choose(state, rng)
        choices.append(choice)
        return action

    return follow_path(task, act), tuple(choices)
