"""Equal memory for every class, old or new."""

from dataclasses import dataclass

from remem.action import Action, State


@dataclass(frozen=True)
class Proportional:
    """The old share is that of the old classes among all classes, so it grows from phase to phase."""

    name: str = "proportional"
    oracle: bool = False

    def act(self, state: State) -> Action:
        classes = state.old_classes + state.new_classes
        return Action(old_total=(2 * state.budget * state.old_classes + classes) // (2 * classes))  # rounded half up

    def provenance(self) -> dict[str, object]:
        return {"name": self.name}
