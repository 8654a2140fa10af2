"""What a data set is (two read-only splits, names, a look) and where data sets are looked for."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pydantic import Field

from remem.errors import DamagedFileError
from remem.settings import Settings
from remem.types import IntArray, Values


class Source(Protocol):
    """One read-only split: row numbers in, images or vectors out."""

    @property
    def labels(self) -> IntArray:
        """(n,) labels of the data set, 0..k-1."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one row: (h, w, c) for uint8 images, (d,) for float32 vectors."""

    @property
    def fingerprint(self) -> str:
        """Hex digest of the content (folders: of path, size and time of every file) and of its preprocessing."""

    def read(self, rows: IntArray) -> Values: ...


@dataclass(frozen=True)
class Look:
    """How images of a data set are shown to a network."""

    mean: tuple[float, ...] | None  # per channel in [0, 1]; None: measured on phase 0 by the learner
    std: tuple[float, ...] | None
    augment: str  # "none" | "crop" | "resized-crop"
    flip: bool


@dataclass(frozen=True)
class Dataset:
    """Training and test split of one data set; `notes` are what the user should be told about it."""

    name: str
    train: Source
    test: Source
    class_names: tuple[str, ...]
    look: Look
    notes: tuple[str, ...] = ()


class DataSettings(Settings):
    """Which data set, where it lies, and how it is read."""

    name: str = "glyphs"
    root: Path | None = None
    image_size: int | None = Field(default=None, ge=1, le=4096)
    cache: bool = True  # image folders: decode once into memory-mapped files
    cache_gigabytes: float = Field(default=40.0, ge=0)  # image folders that need more are decoded on every read
    val_share: float = Field(
        default=0.2, gt=0, lt=1
    )  # image folders without `val`: this share of `train` is the test set


@dataclass(frozen=True)
class DatasetEntry:
    """One line of the table of data sets."""

    summary: str
    load: Callable[[DataSettings], Dataset]
    check: Callable[[DataSettings], list[str]]  # problems found in whole files; empty: all is well
    files: tuple[str, ...] = ()  # what must lie below the data root; none: the data set is built in
    other_files: tuple[str, ...] = ()  # or these instead, where a data set comes in two forms

    def lies_below(self, root: Path) -> bool:
        """Whether all its files are there, in one form or the other."""
        forms = [form for form in (self.files, self.other_files) if form]
        return any(all((root / file).exists() for file in form) for form in forms)


def cache_folder() -> Path:
    """The user's cache folder for remem, the platform's way ($XDG_CACHE_HOME or ~/.cache on Linux)."""
    import pooch

    return Path(pooch.os_cache("remem"))


def data_root(settings: DataSettings) -> Path:
    """The setting, else $REMEM_DATA, else the user's cache folder."""
    if settings.root is not None:
        return settings.root.expanduser()
    variable = os.environ.get("REMEM_DATA")
    return Path(variable).expanduser() if variable else cache_folder()


def missing(name: str, what: str, root: Path) -> DamagedFileError:
    """The error for a data set that is not below the data root."""
    return DamagedFileError(
        f"{name}: no {what} below {root}; the data root is --data-root (setting data.root), "
        "else $REMEM_DATA, else the user's cache folder"
    )


def never_damaged(settings: DataSettings) -> list[str]:
    """The check of data sets that come with the library."""
    return []
