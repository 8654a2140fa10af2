"""Samples that a user hands over, with labels and identities: class folders of images, an .npz file, or a CSV file."""

import csv
import hashlib
import io
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from remem.data.arrays import arrays_found, as_labels, as_rows, as_values, is_square, read_npz
from remem.data.folder import (
    LARGEST_SIZE,
    SUFFIXES,
    Files,
    FolderSource,
    check_headers,
    class_folders,
    ignored_note,
    list_files,
)
from remem.data.names import Names
from remem.data.settings import DataSettings
from remem.errors import DamagedFileError, InputError
from remem.runs.predict_inputs import Grey
from remem.storage.limits import LARGEST_TEXT
from remem.threads import in_threads
from remem.types import Values
from remem.user_paths import expand

KINDS = "a folder of class folders, an .npz file or a .csv file of paths and labels"
X, Y = ("x", "x_train"), ("y", "y_train")  # the first one in the file is used
COLUMNS = ("path", "label", "id")
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Arrivals:
    """Samples, the label of each and the identity of each, and notes for the user."""

    values: Values  # (n, h, w, c) uint8 or (n, d) float32
    labels: Sequence[str] | NDArray[Any]
    ids: list[str]
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.ids)


def sample_id(sample: NDArray[Any]) -> str:
    """The default identity of an array's sample: SHA-256 of its bytes in C order."""
    return hashlib.sha256(np.ascontiguousarray(sample).tobytes()).hexdigest()


def sample_ids(samples: NDArray[Any]) -> list[str]:
    """The default identities of an array's samples (n, ...)."""
    return list(in_threads(sample_id, samples))


def file_id(path: Path) -> str:
    """The default identity of a file: SHA-256 of its content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_arrivals(data: str, settings: DataSettings, shape: Shape | None = None) -> Arrivals:
    """Reads DATA as samples of a model's shape; None: the first data decide, or `data.image_size`."""
    kind, path = find_data(data)
    return {"folder": _from_folder, "npz": _from_arrays, "csv": _from_table}[kind](path, settings, shape)


def find_data(data: str) -> tuple[str, Path]:
    """What DATA is, folder, npz or csv, and where. Raises if there is no such thing."""
    kind, colon, rest = data.partition(":")
    known = bool(colon) and kind in ("folder", "npz", "csv")
    path = expand(rest if known else data)
    if not path.exists():
        raise DamagedFileError(f"{path}: no such file or folder; expected {KINDS}")
    found = "folder" if path.is_dir() else kind if known else path.suffix.lower().removeprefix(".")
    if found not in ("npz", "csv") and not path.is_dir():
        raise InputError(f"{path}: not a known kind of data; expected {KINDS}")
    return found, path


def _from_folder(folder: Path, settings: DataSettings, shape: Shape | None) -> Arrivals:
    classes = class_folders(folder)
    files = list_files(folder, classes)
    if not files.names:
        deeper = next((name for name in ("train", "val") if name in classes and class_folders(folder / name)), None)
        hint = f"; {folder / deeper} has class folders" if deeper else ""
        raise InputError(f"{folder}: no images; expected {folder}/<class>/<image>, {', '.join(SUFFIXES)}{hint}")
    notes = ignored_note(folder, files.ignored)
    if empty := sorted(set(range(len(classes))) - set(files.labels.tolist())):
        notes.append(f"{folder}: {', '.join(classes[place] for place in empty)}: no images, so no such class")
    labels = [classes[place] for place in files.labels.tolist()]
    return Arrivals(_decode(files, settings, shape), labels, list(in_threads(file_id, files.paths())), tuple(notes))


def _from_table(path: Path, settings: DataSettings, shape: Shape | None) -> Arrivals:
    """Relative paths are relative to the table."""
    entries = _read_table(path)
    names, labels, given = ([entry[column] for entry in entries] for column in range(3))
    stamps = [_stamp(path, path.parent / name) for name in names]
    files = Files(path.parent, Names.of(names), np.zeros(len(names), np.int64), np.array(stamps, np.int64))
    values = _decode(files, settings, shape)
    ids = [own or found for own, found in zip(given, in_threads(file_id, files.paths()), strict=True)]
    return Arrivals(values, labels, ids)


def _read_table(path: Path) -> list[tuple[str, str, str]]:
    """Path, label and identity of every line; the identity is empty where none is given."""
    if path.stat().st_size > LARGEST_TEXT:
        raise InputError(f"{path}: {path.stat().st_size} bytes; expected at most {LARGEST_TEXT}")
    try:
        lines = list(csv.reader(io.StringIO(path.read_text(encoding="utf-8-sig"), newline=""), strict=True))
    except (csv.Error, UnicodeError) as error:
        raise DamagedFileError(f"{path}: not a CSV file in UTF-8 ({error})") from error
    first = [cell.strip().lower() for cell in lines[0]] if lines else []
    header = "path" in first and "label" in first
    columns = (
        {name: first.index(name) for name in COLUMNS if name in first}
        if header
        else dict(zip(COLUMNS, range(3), strict=True))
    )
    entries = []
    for number, line in enumerate(lines[header:], start=1 + header):
        if any(line):
            cells = {name: line[place].strip() for name, place in columns.items() if place < len(line)}
            if not cells.get("path") or not cells.get("label"):
                raise InputError(f"{path}: line {number} is {','.join(line)!r}; expected a path and a label")
            entries.append((cells["path"], cells["label"], cells.get("id", "")))
    if not entries:
        raise InputError(f"{path}: no samples; expected a path and a label in every line")
    return entries


def _stamp(table: Path, file: Path) -> tuple[int, int]:
    try:
        facts = os.stat(file)
    except (OSError, ValueError) as error:
        raise DamagedFileError(f"{table}: {file} cannot be read ({error})") from error
    return facts.st_size, facts.st_mtime_ns


def _decode(files: Files, settings: DataSettings, shape: Shape | None) -> Values:
    """Images of the model's size, else of `data.image_size`, else of the median of the shorter sides."""
    if shape is not None and not (is_square(shape) and shape[2] in (1, 3)):
        raise InputError(f"{files.folder}: image files given, but the model takes samples of shape {shape}")
    side = check_headers(files, remember=False, max_pixels=settings.max_pixels)
    size = (settings.side or min(side, LARGEST_SIZE)) if shape is None else shape[0]
    source = FolderSource(files, size, settings.max_pixels)
    return (Grey(source) if shape is not None and shape[2] == 1 else source).read(np.arange(len(files.names)))


def _from_arrays(path: Path, settings: DataSettings, shape: Shape | None) -> Arrivals:
    arrays = read_npz(path, (*X, *Y, "ids", "class_names"), settings.max_gigabytes)
    x, y = (next((name for name in names if name in arrays), None) for names in (X, Y))
    if x is None or y is None:
        missing = " or ".join(X if x is None else Y)
        raise InputError(f"{path}: no array {missing}; expected x and y, found {arrays_found(path)}")
    field = f"{path}: {x}"
    given = arrays[x]
    values = as_values(given, field, settings.side) if shape is None else as_rows(given, field, shape)
    labels = as_labels(arrays[y], f"{path}: {y}", len(values))
    if "class_names" in arrays:
        labels = _named(labels, arrays["class_names"], path)
    if "ids" not in arrays:
        return Arrivals(values, labels, sample_ids(given))
    ids = as_labels(arrays["ids"], f"{path}: ids", len(values))
    return Arrivals(values, labels, [str(one) for one in ids.tolist()])


def _named(labels: NDArray[Any], names: NDArray[Any], path: Path) -> NDArray[Any]:
    """Labels by `class_names`: one for each distinct label, or one for each number from 0 on."""
    known, places = np.unique(labels, return_inverse=True)
    texts: NDArray[Any] = np.array([str(name) for name in names.reshape(-1).tolist()])
    if len(texts) == len(known):
        return texts[places]
    if known.dtype.kind in "iu" and known[0] >= 0 and known[-1] < len(texts):
        return np.asarray(texts[labels])
    raise InputError(f"{path}: {len(texts)} class_names; expected {len(known)}, one for each label of y")
