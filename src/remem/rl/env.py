"""Pseudo tasks as a Gymnasium environment: an episode is one run, a step is one phase, an action sets both levels."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypedDict, Unpack

import gymnasium
import numpy as np
import torch
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Box, MultiDiscrete
from numpy.typing import NDArray

from remem.action import Action, State
from remem.errors import InputError
from remem.memory.allocator import Allocator, canonical
from remem.memory.budget import PhaseFacts
from remem.rl.config import LearnConfig, compose_learning
from remem.rl.paths import ActionPath, Task, TaskKey
from remem.rl.prefix_tree import RewardCache, TrainNodes
from remem.rl.provenance import provenance
from remem.rl.pseudo_tasks import PseudoTasks
from remem.rl.settings import Fidelity
from remem.rl.snapshot_cache import MemorySnapshotCache
from remem.runs.trees import Tree, merged, nested

Observation = NDArray[np.float32]


USED = ("source", "phases", "short_share")  # of the section `learn`; the agent's library replaces the rest
# Defaults for episodes of about a second. Pseudo tasks of six digits have three phases after phase 0. With this budget,
# every old share is feasible, and each one is a trade-off.
QUICK: dict[str, Tree] = {
    "digits": {
        "scenario": {"base_classes": 6},
        "memory": {"budget": 250},
        "net": {"name": "small", "width": 8, "blocks": [1, 1]},
        "train": {"epochs": 5, "batch_size": 32},
        "finetune": {"epochs": 2},
    }
}


class PseudoCIL(gymnasium.Env[Observation, NDArray[np.int64]]):
    """Observations are s_i, rewards are r_i. Each action component is an index into the grid of its values.

    `source` describes the data that an agent is trained on, as in `policy.json`. With several `rungs` of codecs, states
    have a third number and actions a third component.
    """

    # The base class declares a plain dict. Gymnasium requires a frame rate even for text.
    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 1}  # noqa: RUF012

    def __init__(
        self,
        tasks: Callable[[int], Task],
        train_nodes: TrainNodes,
        pool: int,
        *,
        source: Mapping[str, Any] | None = None,
        rungs: int = 1,
        render_mode: str | None = None,
    ) -> None:
        if pool < 1:
            raise InputError(f"pool: {pool} tasks given; expected at least 1")
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise InputError(f"render_mode: {render_mode!r} given; expected 'ansi' or None")
        self._rungs = rungs
        highest = np.array([*State.highest, *([1.0] if rungs > 1 else [])], np.float32)
        self.observation_space = Box(np.zeros(len(highest), np.float32), highest)
        sizes = [len(values) for values in Action.grid()]
        self.action_space = MultiDiscrete([*sizes, *([rungs] if rungs > 1 else [])])
        self.render_mode = render_mode
        self.source = source
        self._tasks = tasks
        self._rewards = RewardCache(train_nodes)
        self._pool = pool
        self._task: Task | None = None
        self._path: ActionPath = ()
        self._allocator: Allocator | None = None
        self._lines: list[str] = []

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Returns the state after phase 0 of a task: drawn from the pool, or given as `options={"task": k}`."""
        super().reset(seed=seed)
        number = self._number((options or {}).get("task"))
        task = self._tasks(number)
        reward = self._train(task, ())
        self._task, self._path, self._allocator = task, (), Allocator(task.budget)
        self._allocator.add_phase(task.phases[0].classes)
        self._lines = [f"task {number}, phase 0: accuracy {reward:.4f}"]
        return self._observation(), {"task": number, "reward_phase0": reward, **self._facts()}

    def step(self, action: NDArray[np.int64]) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Trains one phase. Each component becomes the nearest reachable value, as in `AgentPolicy`."""
        if self._task is None or self._allocator is None or len(self._path) == self._task.length:
            raise ResetNeeded("there is no phase to decide; call reset() first")
        if not self.action_space.contains(action):
            codec = f", and a rung from 0 to {self._rungs - 1}" if self._rungs > 1 else ""
            raise InputError(f"action: {action!r} given; expected two whole numbers from 0 to 8{codec}")
        task, state = self._task, self._state()
        wanted = Action.from_indices(action.tolist())
        taken = wanted.nearest(state)
        path = (*self._path, canonical(state, taken))
        reward = self._train(task, path)
        decision = self._allocator.decide(state, taken)
        self._allocator.add_phase(state.new_classes)
        self._path = path
        shares = f"old share {decision.old_tenths / 10}, harder half {path[-1].level2_tenths / 10}"
        self._lines.append(f"task {task.key.number}, phase {state.phase}: {shares}, accuracy {reward:.4f}")
        rung = [decision.rung] if self._rungs > 1 else []
        carried_out = np.array([decision.old_tenths, path[-1].level2_tenths, *rung])
        clamped = decision.clamped or (taken.old_tenths, taken.rung) != (wanted.old_tenths, wanted.rung)
        info = {"carried_out": carried_out, "clamped": clamped, **self._facts()}
        return self._observation(), reward, len(path) == task.length, False, info

    def render(self) -> str | None:
        """Returns the episode so far, one line per phase."""
        return None if self.render_mode is None else "\n".join(self._lines)

    def action_masks(self) -> NDArray[np.bool_]:
        """Returns `info["action_mask"]`, under the method name that maskable agents of sb3-contrib expect."""
        return action_mask(self._state(), self._rungs)

    def _number(self, wanted: object) -> int:
        if wanted is None:
            return int(self.np_random.integers(self._pool))
        if not isinstance(wanted, int | np.integer) or not 0 <= wanted < self._pool:
            raise InputError(f"options: task {wanted!r} given; expected a whole number from 0 to {self._pool - 1}")
        return int(wanted)

    def _train(self, task: Task, path: ActionPath) -> float:
        """Returns r_i after a path. Known rewards are not trained again."""
        # Agents often disable gradients; training the method needs them.
        with torch.inference_mode(False), torch.enable_grad():
            [rewards] = self._rewards.of([(task.key, path)])
        return rewards[-1]

    def _state(self) -> State:
        """Returns the state before the next phase. After phase N no data arrive and no action is possible."""
        if self._task is None or self._allocator is None:
            raise ResetNeeded("there is no task yet; call reset() first")
        if len(self._path) == self._task.length:
            return replace(self._allocator.observe(PhaseFacts(0, 0)), feasible=(), splits=False, rungs=())
        return self._allocator.observe(self._task.phases[len(self._path) + 1])

    def _observation(self) -> Observation:
        state, rungs = self._state(), self._rungs
        return np.array([*state.vector(), *([state.rung / (rungs - 1)] if rungs > 1 else [])], dtype=np.float32)

    def _facts(self) -> dict[str, Any]:
        state = self._state()
        names = ("phase", "new_classes", "old_classes", "old_tenths", "budget", "exemplars", "arriving")
        return {"action_mask": action_mask(state, self._rungs), **{name: getattr(state, name) for name in names}}


def action_mask(state: State, rungs: int = 1) -> NDArray[np.bool_]:
    """Returns the mask of possible values of each component, concatenated. Each component has at least one.

    Which shares are possible depends on the rung: those that are at any rung that can be chosen are allowed.
    """
    open_rungs = state.reachable_rungs
    choices = [state.at(rung).choices() for rung in open_rungs]
    masks = []
    for component, values in enumerate(Action.grid()):
        allowed = {value for choice in choices for value in choice[component]}
        possible = {max(value, values[0]) for value in allowed}  # before phase 1 the old share is 0, below the grid
        masks += [value in possible for value in values]
    return np.array([*masks, *((rung in open_rungs for rung in range(rungs)) if rungs > 1 else ())])


class EnvOptions(TypedDict, total=False):
    """Keyword arguments of `gymnasium.make("remem/PseudoCIL-v0", ...)`, with their defaults."""

    dataset: str  # digits
    phases: int  # 3, of the target
    method: str  # icarl
    budget: int | str | None  # of the target
    fidelity: Fidelity  # full
    pool: int  # 4 tasks
    seed: int  # 0
    settings: Mapping[str, Any] | None  # any other setting, nested or as {"train.epochs": 5}


def make_pseudo_cil(
    *, render_mode: str | None = None, memory_gigabytes: float = 1.0, **options: Unpack[EnvOptions]
) -> PseudoCIL:
    """Creates the environment over pseudo tasks of a target.

    Snapshots of episodes use at most `memory_gigabytes`. Evicted ones are trained again when needed.
    """
    if unknown := sorted(options.keys() - EnvOptions.__annotations__.keys()):
        known = ", ".join((*EnvOptions.__annotations__, "render_mode", "memory_gigabytes"))
        raise TypeError(f"unexpected argument '{unknown[0]}'; expected one of {known}")
    dataset = options.get("dataset", "digits")
    given: Tree = {
        "seed": options.get("seed", 0),
        "data": {"name": dataset},
        "scenario": {"phases": options.get("phases", 3)},
        "method": {"name": options.get("method", "icarl")},
        "learn": {"fidelity": options.get("fidelity", "full"), "pool": options.get("pool", 4)},
    }
    if (budget := options.get("budget")) is not None:
        given["memory"] = {"budget": budget}
    config = _composed(QUICK.get(dataset, {}), given, options.get("settings") or {})
    tasks = PseudoTasks(config, MemorySnapshotCache(int(memory_gigabytes * 1e9)))
    tasks.check()
    return PseudoCIL(
        lambda number: tasks.path_task(TaskKey(number, config.learn.fidelity)),
        tasks.train_nodes,
        config.learn.pool,
        source=provenance(config, tasks, ())["source"],
        rungs=len(tasks.ladder),
        render_mode=render_mode,
    )


def _composed(below: Tree, given: Tree, settings: Mapping[str, Any]) -> LearnConfig:
    above: Tree = {}
    for key, value in settings.items():
        above = merged(above, nested(key, value))
    learn = above.get("learn", {})
    for name in learn if isinstance(learn, Mapping) else ():
        if name not in USED:
            raise InputError(f"settings: learn.{name} given; expected one of {', '.join(f'learn.{n}' for n in USED)}")
    return compose_learning(below, given, above)
