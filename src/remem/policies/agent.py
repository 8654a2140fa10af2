"""Agents of any RL library as policies, with the observations and actions of the environment in rl/env.py."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from remem.action import Action, State
from remem.errors import InputError


@dataclass(frozen=True)
class AgentPolicy:
    """`predict` takes s_i as (2,) float32 and returns two numbers from 0 to 8, alone or as the first of a pair.

    With a ladder of codecs, `codecs`, states have the rung as a third number and actions a third component.

    Such pairs are what stable-baselines3 returns: `AgentPolicy(partial(model.predict, deterministic=True))`.
    """

    predict: Callable[[NDArray[np.float32]], Any]
    name: str = "agent"
    oracle: bool = False
    source: Mapping[str, Any] | None = None  # what it was learned on, as in `policy.json`
    codecs: tuple[str, ...] = ()

    def act(self, state: State) -> Action:
        rung = (state.depth,) if len(self.codecs) > 1 else ()
        return self._answer(np.array([*state.vector(), *rung], dtype=np.float32)).nearest(state)

    def provenance(self) -> dict[str, object]:
        source = None if self.source is None else dict(self.source)
        return {"name": self.name, "kind": "agent", "oracle": self.oracle, "source": source}

    def _answer(self, observation: NDArray[np.float32]) -> Action:
        answered = self.predict(observation)
        sizes = [len(values) for values in Action.grid()] + ([len(self.codecs)] if len(self.codecs) > 1 else [])
        if isinstance(answered, tuple) and len(answered) == 2 and np.size(answered[0]) == len(sizes):
            answered = answered[0]  # the other is the hidden state of recurrent agents
        indices = np.asarray(answered).reshape(-1)
        fits = indices.dtype.kind in "iuf" and indices.shape == (len(sizes),)
        if not fits or any(index not in range(size) for index, size in zip(indices.tolist(), sizes, strict=True)):
            raise InputError(f"policy '{self.name}': answered {answered!r}, expected two whole numbers from 0 to 8")
        return Action.from_indices(indices.astype(np.int64).tolist())
