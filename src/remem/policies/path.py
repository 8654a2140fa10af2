"""One action for every phase, found by a search over paths."""

from collections.abc import Sequence
from dataclasses import dataclass

from remem.action import Action, State


@dataclass(frozen=True)
class FixedPath:
    """Follows a path of actions; phases after its end repeat the last one. Memory makes each action feasible."""

    actions: tuple[Action, ...]
    oracle: bool = False

    @classmethod
    def from_keys(cls, keys: Sequence[Sequence[int]], *, oracle: bool = False) -> "FixedPath":
        return cls(tuple(map(Action.from_key, keys)), oracle)

    @property
    def name(self) -> str:
        return "path"

    def act(self, state: State) -> Action:
        return self.actions[min(state.phase, len(self.actions)) - 1]

    def provenance(self) -> dict[str, object]:
        return {"name": self.name, "path": [action.key() for action in self.actions]}
