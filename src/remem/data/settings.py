"""Settings of the data: which data set, how it is augmented, and how its classes are split into phases."""

from pathlib import Path
from typing import Literal

from pydantic import Field

from remem.settings import Settings


class DataSettings(Settings):
    """Which data set, where it is stored, and how it is read."""

    name: str = "glyphs"
    root: Path | None = None
    image_size: int | None = Field(default=None, ge=1, le=4096)
    cache: bool = True  # image folders: decode once into memory-mapped files
    cache_gigabytes: float = Field(default=40.0, ge=0)  # image folders that need more are decoded on every read
    val_share: float = Field(
        default=0.2, gt=0, lt=1
    )  # image folders without `val`: this share of `train` is the test set


class AugmentSettings(Settings):
    """Augmentation; `auto` and None follow the data set."""

    kind: Literal["auto", "none", "crop", "resized-crop"] = "auto"
    pad: int | None = Field(default=None, ge=0, le=4096)
    flip: bool | None = None
    brightness: float = Field(default=0.0, ge=0.0, le=10.0)


class ScenarioSettings(Settings):
    """How classes are spread over phases (protocol 1)."""

    phases: int = 5  # N, the incremental ones: there are N + 1 with phase 0
    base_classes: int | None = (
        None  # of phase 0; None: half (odd: one more); 0: as many as in the others ("from scratch")
    )
    order: str = "seed:0"
    validation: float = 0.0  # share of every class's training rows to be evaluated on, instead of the test set
