"""Events of training."""

from dataclasses import dataclass

from remem.events import Event


@dataclass(frozen=True)
class EpochEnded(Event, kind="epoch"):
    """One epoch of a stage is done; `loss` has the mean of every term."""

    phase: int
    stage: str
    epoch: int  # from 1
    epochs: int
    samples: int
    loss: dict[str, float]
    seconds: float
