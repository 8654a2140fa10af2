"""The definition of a data set (two read-only splits, class names, preprocessing) and where data sets are stored."""

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np

from remem.data.preprocessing import Preprocessing
from remem.data.settings import DataSettings
from remem.errors import DamagedFileError
from remem.types import IntArray, Values
from remem.user_paths import expand


class Source(Protocol):
    """One read-only split; `read` maps row numbers to images or vectors."""

    @property
    def labels(self) -> IntArray:
        """(n,) labels of the data set, 0..k-1."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one row: (h, w, c) for uint8 images, (d,) for float32 vectors."""

    @property
    def fingerprint(self) -> str:
        """Hex digest of the content (folders: of path, size and time of every file) and of its preprocessing."""

    def read(self, rows: IntArray) -> Values: ...


@runtime_checkable
class FileSource(Protocol):
    """A source whose rows are image files."""

    def files(self, rows: IntArray) -> list[bytes]: ...


class ArraySource:
    """A split held in memory: (n, h, w, c) uint8 images or (n, d) float32 vectors."""

    def __init__(self, values: Values, labels: IntArray) -> None:
        self.values = values
        self.labels = labels

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.values.shape[1:])

    @cached_property
    def fingerprint(self) -> str:
        """Digest of the content alone: equal arrays have equal fingerprints, whatever their origin."""
        digest = hashlib.sha256(f"{self.values.dtype.str}{self.values.shape}".encode())
        digest.update(np.ascontiguousarray(self.values).data)
        digest.update(np.ascontiguousarray(self.labels, dtype="<i8").data)
        return digest.hexdigest()

    def read(self, rows: IntArray) -> Values:
        return self.values[rows]


@dataclass(frozen=True)
class Dataset:
    """Training and test split of one data set; `notes` are messages for the user."""

    name: str
    train: Source
    test: Source
    class_names: tuple[str, ...]
    preprocessing: Preprocessing
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class DatasetEntry:
    """A registered data set."""

    summary: str
    load: Callable[[DataSettings], Dataset]
    check: Callable[[DataSettings], list[str]]  # reads whole files and returns the problems found
    files: tuple[str, ...] = ()  # required below the data root; empty for built-in data sets
    other_files: tuple[str, ...] = ()  # an alternative to `files`, for data sets that come in two formats

    def lies_below(self, root: Path) -> bool:
        """Whether all files of either format exist below `root`."""
        forms = [form for form in (self.files, self.other_files) if form]
        return any(all((root / file).exists() for file in form) for form in forms)


def cache_folder() -> Path:
    """The user's cache folder for remem ($XDG_CACHE_HOME or ~/.cache on Linux)."""
    import pooch

    return Path(pooch.os_cache("remem"))


def data_root(settings: DataSettings) -> Path:
    """The setting if given, else $REMEM_DATA, else the user's cache folder."""
    if settings.root is not None:
        return expand(settings.root)
    variable = os.environ.get("REMEM_DATA")
    return expand(variable) if variable else cache_folder()


def missing(name: str, what: str, root: Path) -> DamagedFileError:
    """The error for a data set whose files are not below the data root."""
    return DamagedFileError(
        f"{name}: no {what} below {root}; the data root is --data-root (setting data.root), "
        "else $REMEM_DATA, else the user's cache folder"
    )


def never_damaged(settings: DataSettings) -> list[str]:
    """The check of data sets that ship with the library: no problems."""
    return []
