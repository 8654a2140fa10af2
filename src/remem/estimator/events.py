"""Events of a model folder."""

from dataclasses import dataclass

from remem.events import Event


@dataclass(frozen=True)
class ModelUpdated(Event, kind="update"):
    """A version was made by an update. Names of classes are not in it: `forget` would not reach them."""

    version: int
    update: int
    samples: int
    new_classes: int
    known_classes: int
    held: int
    held_bytes: int
    budget: str
    accuracy_before: float | None  # of old classes on the data of `--check`
    accuracy_after: float | None
    seconds: float
