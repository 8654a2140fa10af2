"""The conventional scheme: an exemplar part for old classes, all other memory for new data."""

from dataclasses import dataclass

from remem.action import Action, State


@dataclass(frozen=True)
class Static:
    """M_new = min(new data, M - min(E, M/2)), the rest for the old classes (protocol 3)."""

    name: str = "static"
    oracle: bool = False

    def act(self, state: State) -> Action:
        new_total = min(state.arriving, state.budget - min(state.exemplars, state.budget // 2))
        return Action(old_total=state.budget - new_total)

    def provenance(self) -> dict[str, object]:
        return {"name": self.name}
