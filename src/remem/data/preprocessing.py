"""How images of a data set are prepared for a network."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Preprocessing:
    """How images of a data set are normalised and augmented by default."""

    mean: tuple[float, ...] | None  # per channel in [0, 1]; None: the learner measures it on phase 0
    std: tuple[float, ...] | None
    augment: str  # "none" | "crop" | "resized-crop"
    flip: bool
