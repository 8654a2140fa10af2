"""Settings of the data: which data set, how it is augmented, and how its classes are split into phases."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from remem.errors import InputError
from remem.settings import Settings

MAX_GIGABYTES, MAX_PIXELS = 1.0, 50_000_000
AUTO = "auto"


class DataSettings(Settings):
    """Which data set, where it is stored, and how it is read."""

    name: str = Field(
        default="glyphs", description="Data set (see `remem list datasets`), or your own: folder:PATH or npz:PATH."
    )
    root: Path | None = Field(
        default=None, description="Where data sets are stored; else $REMEM_DATA, else the user's cache folder."
    )
    image_size: Annotated[int, Field(ge=1, le=4096)] | Literal["auto"] | None = Field(
        default=None,
        description="Side of the images in pixels; none: the data set's own; auto: `remem run` tries some.",
    )
    cache: bool = Field(
        default=True, description="Decode image folders and draw glyphs only once, into the user's cache folder."
    )
    cache_gigabytes: float = Field(
        default=40.0, ge=0, description="Image folders that need more space than this are decoded on every read."
    )
    max_gigabytes: float = Field(
        default=MAX_GIGABYTES,
        gt=0,
        description="Arrays of an .npz file may take this much, or ten times the file; else it is refused unread.",
    )
    max_pixels: int = Field(
        default=MAX_PIXELS, ge=1, description="Images with more pixels than this are refused before they are decoded."
    )
    val_share: float = Field(
        default=0.2,
        gt=0,
        lt=1,
        description="Image folders without `val` or `test`: the share of `train` that becomes the test set.",
    )
    imbalance: float = Field(
        default=1.0,
        ge=1,
        le=1e6,
        description="Cut training data to a long tail: how many times the smallest class fits into the largest; 1: no.",
    )

    @property
    def side(self) -> int | None:
        """`image_size` once it is chosen."""
        if isinstance(self.image_size, str):
            raise InputError(f"data.image_size: {AUTO} given, which only `remem run` can choose; expected a number")
        return self.image_size


class AugmentSettings(Settings):
    """Augmentation; `auto` and None follow the data set."""

    kind: Literal["auto", "none", "crop", "resized-crop"] = Field(
        default="auto",
        description="Random windows of the padded image (crop) or at random sizes (resized-crop); auto: by data set.",
    )
    pad: int | None = Field(
        default=None, ge=0, le=4096, description="Pixels around the image before a crop; none: an eighth of its side."
    )
    flip: bool | None = Field(
        default=None,
        description="Mirror at random, and use mirror images for class means; none: by data set.",
    )
    brightness: float = Field(
        default=0.0, ge=0.0, le=10.0, description="Brightness factors are drawn from 1 - b to 1 + b."
    )


class ScenarioSettings(Settings):
    """How classes are spread over phases (protocol 1)."""

    sizes: tuple[int, ...] | None = Field(
        default=None,
        min_length=2,
        description="Classes of each phase, such as [20, 1, 12]; none: by phases and base_classes.",
    )

    phases: int = Field(default=5, description="Phases that bring new classes, after phase 0.")
    base_classes: int | None = Field(
        default=None, description="Classes of phase 0; none: half of all; 0: as many as in the other phases."
    )
    classes: int | None = Field(
        default=None, ge=2, description="Use only this many classes, the first of the class order; none: all."
    )
    order: str = Field(
        default="seed:0", description="Class order: lucir, podnet-1|2|3, seed:K, natural, or a JSON file."
    )
    validation: float = Field(
        default=0.0, description="Evaluate on this share of the training data instead of the test data."
    )

    @model_validator(mode="before")
    @classmethod
    def _follow_sizes(cls, values: Any) -> Any:
        """`sizes` decides the number of phases, of classes, and of classes in phase 0."""
        if not isinstance(values, Mapping) or not values.get("sizes"):
            return values
        sizes = values["sizes"]
        if not isinstance(sizes, list | tuple) or any(type(size) is not int or size < 1 for size in sizes):
            raise InputError(f"scenario.sizes: {sizes!r} given; expected whole numbers of at least 1")
        implied = {"phases": len(sizes) - 1, "base_classes": sizes[0], "classes": sum(sizes)}
        for name, value in implied.items():
            if values.get(name, value) not in (value, None):
                raise InputError(f"scenario.{name}: {values[name]!r} given; scenario.sizes makes it {value}")
        return {**values, **implied}
