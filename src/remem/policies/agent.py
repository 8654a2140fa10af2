"""An agent of any RL library as a policy: it sees the paper's two fractions and answers as the environment wants."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from remem.errors import InputError
from remem.types import Action, State

CHOICES = (9, 9)  # the environment's MultiDiscrete: old share and level-2 split in tenths, each minus one


def nearest_reachable(state: State, tenths: int) -> int:
    """The share that level 1 can choose and that is nearest to the one wanted, ties to the lower; none: the old one."""
    return min(state.reachable, key=lambda t: (abs(t - tenths), t), default=state.old_tenths)


@dataclass(frozen=True)
class AgentPolicy:
    """`predict` takes s_i as (2,) float32 and answers with two numbers from 0 to 8, alone or as the first of a pair.

    Such pairs are what stable-baselines3 returns: `AgentPolicy(partial(model.predict, deterministic=True))`.
    """

    predict: Callable[[NDArray[np.float32]], Any]
    name: str = "agent"
    oracle: bool = False
    source: Mapping[str, Any] | None = None  # what it was learned on, as in `policy.json`

    def act(self, state: State) -> Action:
        share, split = self._answer(np.array(state.vector(), dtype=np.float32))
        return Action(old_tenths=nearest_reachable(state, share + 1), level2_tenths=split + 1)

    def provenance(self) -> dict[str, object]:
        source = None if self.source is None else dict(self.source)
        return {"name": self.name, "kind": "agent", "oracle": self.oracle, "source": source}

    def _answer(self, observation: NDArray[np.float32]) -> tuple[int, int]:
        said = self.predict(observation)
        if isinstance(said, tuple) and len(said) == 2 and np.size(said[0]) == len(CHOICES):
            said = said[0]  # the other is the state of agents that remember
        answer = np.asarray(said).reshape(-1)
        if answer.dtype.kind not in "iuf" or answer.shape != (2,) or any(a not in range(9) for a in answer.tolist()):
            raise InputError(f"policy '{self.name}': answered {said!r}, expected two whole numbers from 0 to 8")
        return int(answer[0]), int(answer[1])
