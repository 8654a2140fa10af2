"""`model.json` of a model folder: the versions that it keeps. The last one is current."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from remem.errors import DamagedFileError
from remem.storage.jsonfile import read_json, write_json

POINTER, VERSIONS = "model.json", "versions"
FORMAT = 1


def read_pointer(folder: Path) -> tuple[int, ...]:
    """The kept versions in ascending order; empty if the first one is still being made."""
    path = folder / POINTER
    tree = read_json(path, "pointer of a model folder", format=FORMAT)
    kept: Any = tree.get("kept")
    if not _ascend(kept) or tree.get("current") != (kept[-1] if kept else None):
        raise DamagedFileError(f"{path}: not the pointer of a model folder (versions {kept!r})")
    return tuple(kept)


def _ascend(kept: Any) -> bool:
    return (
        isinstance(kept, list)
        and all(type(number) is int and number > 0 for number in kept)
        and kept == sorted(set(kept))
    )


def write_pointer(folder: Path, kept: Sequence[int]) -> None:
    write_json(folder / POINTER, {"format": FORMAT, "current": kept[-1] if kept else None, "kept": list(kept)})


def version_folder(folder: Path, number: int) -> Path:
    return folder / VERSIONS / f"{number:04}"


def current_version(folder: Path) -> Path:
    """The folder of the current version. Raises if there is none."""
    kept = read_pointer(folder)
    if not kept:
        raise DamagedFileError(f"{folder}: no version yet; the first `remem update` was not finished")
    if not (place := version_folder(folder, kept[-1])).is_dir():
        raise DamagedFileError(f"{place}: no such folder; expected version {kept[-1]} of the model, put a copy back")
    return place
