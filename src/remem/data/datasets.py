"""Data sets by name. Each line gives the import path of an entry; a source module imports nothing from here."""

from typing import TYPE_CHECKING

from remem.errors import InputError
from remem.registry import Registry

if TYPE_CHECKING:  # a misspelt name is refused before anything is loaded
    from remem.data.settings import DataSettings
    from remem.data.source import Dataset, DatasetEntry

DATASETS: "Registry[DatasetEntry]" = Registry("data set")
DATASETS.add_lazy("glyphs", "remem.data.glyphs:ENTRY")
DATASETS.add_lazy("digits", "remem.data.digits:ENTRY")
DATASETS.add_lazy("cifar100", "remem.data.cifar:ENTRY")
DATASETS.add_lazy("imagenet-full", "remem.data.imagenet:FULL")
DATASETS.add_lazy("imagenet-subset-lucir", "remem.data.imagenet:SUBSET_LUCIR")
DATASETS.add_lazy("imagenet-subset-podnet", "remem.data.imagenet:SUBSET_PODNET")
DATASETS.add_lazy("mini-imagenet", "remem.data.imagenet:MINI")

BUILT_IN = ("glyphs", "digits")  # they need no files, and glyphs are drawn with torch

BY_PATH: "Registry[DatasetEntry]" = Registry("kind of data set")  # used as "folder:PATH", "npz:PATH"
BY_PATH.add_lazy("folder", "remem.data.folder:ENTRY")
BY_PATH.add_lazy("npz", "remem.data.arrays:ENTRY")


def find_entry(name: str) -> "DatasetEntry":
    """The entry of a registered name, "folder:PATH" or "npz:PATH"."""
    kind, colon, path = name.partition(":")
    if not colon or kind not in BY_PATH:
        return DATASETS[name]
    if not path:
        raise InputError(f"data.name: '{name}' has no path; expected {kind}:PATH")
    return BY_PATH[kind]


def require_dataset(settings: "DataSettings") -> None:
    """Raises for a misspelt name or path and for files that are not there, before anything is read."""
    from remem.data.source import data_root
    from remem.user_paths import expand

    kind, colon, path = settings.name.partition(":")
    if not colon or kind not in BY_PATH:
        DATASETS.require(settings.name)
        entry = None if settings.name in BUILT_IN else DATASETS[settings.name]
        there = entry is None or not entry.files or entry.lies_below(data_root(settings))
    else:
        there = bool(path) and expand(path).exists()
    if not there:
        find_entry(settings.name).load(settings)  # it says what it misses


def load_dataset(settings: "DataSettings") -> "Dataset":
    """Loads the data set called `settings.name`; raises InputError if its files are missing or damaged."""
    dataset = find_entry(settings.name).load(settings)
    if settings.imbalance == 1:
        return dataset
    from remem.data.imbalance import long_tailed

    return long_tailed(dataset, settings.imbalance)


def check_dataset(settings: "DataSettings") -> list[str]:
    """Lists missing and damaged files. Slow: it reads every file completely."""
    return find_entry(settings.name).check(settings)
