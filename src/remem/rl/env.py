"""Pseudo tasks as a Gymnasium environment: one episode is one run, one step is one phase, both levels in one action."""

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Box, MultiDiscrete
from numpy.typing import NDArray

from remem.errors import InputError
from remem.memory.allocation import TENTHS, decide
from remem.policies.agent import CHOICES, nearest_reachable
from remem.rl.paths import Path, Task, carried_out, state_before
from remem.rl.tree import Forest, Grow
from remem.types import Action, State

Observation = NDArray[np.float32]
# New to old classes: at most 1 where phase 0 is the largest, but a target may begin small. Checkers dislike infinity.
HIGHEST_RATIO = np.finfo(np.float32).max


class PseudoCIL(gymnasium.Env[Observation, NDArray[np.int64]]):
    """Observations are s_i; an action is the wanted old share and level 2 in tenths, each minus one; the reward is r_i.

    `source` says what an agent learns on here, as in `policy.json`.
    """

    # The base class declares a plain dict; Gymnasium asks for a frame rate even of text.
    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 1}  # noqa: RUF012

    def __init__(
        self,
        tasks: Callable[[int], Task],
        grow: Grow,
        pool: int,
        *,
        source: Mapping[str, Any] | None = None,
        render_mode: str | None = None,
    ) -> None:
        if pool < 1:
            raise InputError(f"pool: {pool} tasks given; expected at least 1")
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise InputError(f"render_mode: {render_mode!r} given; expected 'ansi' or None")
        self.observation_space = Box(np.zeros(2, np.float32), np.array([HIGHEST_RATIO, 1], np.float32))
        self.action_space = MultiDiscrete(list(CHOICES))
        self.render_mode = render_mode
        self.source = source
        self._tasks = tasks
        self._forest = Forest(grow)
        self._pool = pool
        self._task: Task | None = None
        self._path: Path = ()
        self._old_tenths = 0
        self._lines: list[str] = []

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """The end of phase 0 of a task: drawn from the pool, or the one that `options={"task": k}` names."""
        super().reset(seed=seed)
        number = self._number((options or {}).get("task"))
        task = self._tasks(number)
        reward = self._train(task, ())
        self._task, self._path, self._old_tenths = task, (), 0
        self._lines = [f"task {number}, phase 0: accuracy {reward:.4f}"]
        return self._observation(), {"task": number, "reward_phase0": reward, **self._facts()}

    def step(self, action: NDArray[np.int64]) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """One phase: the share becomes the nearest that can be reached, as in `AgentPolicy`, and is carried out."""
        task, state = self._next()
        if not self.action_space.contains(action):
            raise InputError(f"action: {action!r} given; expected two whole numbers from 0 to 8")
        wanted, level2 = int(action[0]) + 1, int(action[1]) + 1
        taken = Action(old_tenths=nearest_reachable(state, wanted), level2_tenths=level2)
        decision, move = decide(state, taken), carried_out(state, taken)
        reward = self._train(task, (*self._path, move))
        self._path, self._old_tenths = (*self._path, move), decision.old_tenths
        shares = f"old share {decision.old_tenths / 10}, harder half {move[1] / 10}"
        self._lines.append(f"task {task.key.number}, phase {state.phase}: {shares}, accuracy {reward:.4f}")
        clamped = decision.clamped or taken.old_tenths != wanted
        info = {"carried_out": np.array([decision.old_tenths, move[1]]), "clamped": clamped, **self._facts()}
        return self._observation(), reward, len(self._path) == task.length, False, info

    def render(self) -> str | None:
        """The episode so far, one line per phase."""
        return None if self.render_mode is None else "\n".join(self._lines)

    def action_masks(self) -> NDArray[np.bool_]:
        """What `info["action_mask"]` says, under the name by which maskable agents of sb3-contrib ask for it."""
        return action_mask(self._state())

    def _number(self, wanted: object) -> int:
        if wanted is None:
            return int(self.np_random.integers(self._pool))
        if not isinstance(wanted, int | np.integer) or not 0 <= wanted < self._pool:
            raise InputError(f"options: task {wanted!r} given; expected a whole number from 0 to {self._pool - 1}")
        return int(wanted)

    def _train(self, task: Task, path: Path) -> float:
        """r_i after a path; whatever is known is not trained again."""
        # Agents like to act without gradients; the method beneath them learns with its own.
        with torch.inference_mode(False), torch.enable_grad():
            [rewards] = self._forest.rewards([(task.key, path)])
        return rewards[-1]

    def _next(self) -> tuple[Task, State]:
        if self._task is None or len(self._path) == self._task.length:
            raise ResetNeeded("there is no phase to decide; call reset() first")
        return self._task, self._state()

    def _state(self) -> State:
        if self._task is None:
            raise ResetNeeded("there is no task yet; call reset() first")
        return state_before(self._task, len(self._path) + 1, self._old_tenths)

    def _observation(self) -> Observation:
        return np.array(self._state().vector(), dtype=np.float32)

    def _facts(self) -> dict[str, Any]:
        state = self._state()
        names = ("phase", "new_classes", "old_classes", "old_tenths", "budget", "exemplars", "arriving")
        return {"action_mask": action_mask(state), **{name: getattr(state, name) for name in names}}


def action_mask(state: State) -> NDArray[np.bool_]:
    """Which of the 9 + 9 choices are to be had. Where nothing is chosen one of nine remains, of log-probability 0."""
    shares = state.reachable or (max(state.old_tenths, TENTHS[0]),)
    splits = TENTHS if state.splits else (5,)
    return np.array([*(t in shares for t in TENTHS), *(t in splits for t in TENTHS)])
