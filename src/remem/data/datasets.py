"""The table of data sets by name, and the way from a name to a data set.

A source module defines an `ENTRY` (a DatasetEntry) and imports nothing from here; this module lists it."""

from remem.data import arrays, cifar, digits, folder, glyphs, imagenet
from remem.data.source import Dataset, DatasetEntry, DataSettings, cache_folder, data_root
from remem.errors import InputError
from remem.registry import Registry

__all__ = [
    "DATASETS",
    "DataSettings",
    "DatasetEntry",
    "cache_folder",
    "check_dataset",
    "data_root",
    "find_entry",
    "load_dataset",
]

DATASETS: Registry[DatasetEntry] = Registry("data set")
DATASETS.add("glyphs", glyphs.ENTRY)
DATASETS.add("digits", digits.ENTRY)
DATASETS.add("cifar100", cifar.ENTRY)
for _name, _entry in imagenet.ENTRIES.items():
    DATASETS.add(_name, _entry)

BY_PATH = {"folder": folder.ENTRY, "npz": arrays.ENTRY}  # used as "folder:PATH", "npz:PATH"


def find_entry(name: str) -> DatasetEntry:
    """The entry behind a registered name, "folder:PATH" or "npz:PATH"."""
    kind, colon, path = name.partition(":")
    if not colon or kind not in BY_PATH:
        return DATASETS[name]
    if not path:
        raise InputError(f"data.name: '{name}' has no path; expected {kind}:PATH")
    return BY_PATH[kind]


def load_dataset(settings: DataSettings) -> Dataset:
    """The data set that `settings.name` names; everything that can be wrong with its files is said here."""
    return find_entry(settings.name).load(settings)


def check_dataset(settings: DataSettings) -> list[str]:
    """What is missing or damaged, file by file; slow, since it reads every file whole."""
    return find_entry(settings.name).check(settings)
