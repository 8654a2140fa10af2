"""Action paths through a task. Their states depend on counts only, so paths are sampled before any training."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np

from remem.action import Action, State
from remem.data.scenario import Scenario
from remem.memory.allocator import canonical, follow
from remem.memory.budget import Budget, PhaseFacts
from remem.policies.network import PolicyNetwork
from remem.rl.settings import Fidelity, LearnSettings

ActionPath = tuple[Action, ...]  # canonical actions of phases 1, 2, ...
Reward = Literal["accuracy", "accuracy_cnn"]  # of the method's own readout, or of the trained head


@dataclass(frozen=True)
class TaskKey:
    """Identifies a task by its number and fidelity, and by its run if runs share nothing."""

    number: int
    fidelity: Fidelity
    run: str = ""
    fresh: bool = False  # whether such a run also has its own random streams

    @property
    def stream(self) -> str:
        """Name of the random streams: all fidelities share class order, validation samples and draws."""
        return f"pseudo {self.number}" + (f" {self.run}" if self.fresh else "")


def task_key(learn: LearnSettings, number: int, epoch: int, run: str) -> TaskKey:
    """Returns the key of a run's task: shared by all runs of the task, or the run's own if nothing is shared."""
    alone = learn.fresh_init or not learn.share
    return TaskKey(number, learn.fidelity_of(epoch), run if alone else "", learn.fresh_init)


Node = tuple[TaskKey, ActionPath]  # a task and the actions of phases 1..i; () is the end of phase 0


def node_name(node: Node) -> str:
    """The name of a node's files."""
    return hashlib.sha256(repr(node).encode()).hexdigest()[:32]


@dataclass(frozen=True)
class Task:
    """A pseudo task at one fidelity: its phases and its budget."""

    key: TaskKey
    scenario: Scenario
    budget: Budget
    reward: Reward = "accuracy"

    @property
    def length(self) -> int:
        """N, the number of phases with a decision."""
        return len(self.scenario.phases) - 1

    @property
    def phases(self) -> list[PhaseFacts]:
        """Classes and training samples of phases 0..N."""
        return [PhaseFacts(len(phase.classes), phase.arriving) for phase in self.scenario.phases]


class TaskSource(Protocol):
    """Provides tasks for sampling paths."""

    def path_task(self, key: TaskKey) -> Task: ...


def follow_path(task: Task, act: Callable[[State], Action]) -> ActionPath:
    """Returns the path of a policy through a task."""
    return tuple(canonical(step.state, step.action) for step in follow(task.budget, task.phases, act))


def sample_path(
    task: Task, policy: PolicyNetwork, rng: np.random.Generator | None
) -> tuple[ActionPath, tuple[Any, ...]]:
    """Samples a path from a policy (Algorithm 1, lines 11-14). Without `rng`, returns its most probable path."""
    choices: list[Any] = []

    def act(state: State) -> Action:
        action, choice = policy.choose(state, rng)
        choices.append(choice)
        return action

    return follow_path(task, act), tuple(choices)
