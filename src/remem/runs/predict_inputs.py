"""Inputs for prediction: an image file, a folder of images or an .npz file, as rows of the model's shape."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from remem.data.arrays import read_npz
from remem.data.folder import SUFFIXES, Files, FolderSource, check_headers
from remem.data.names import Names
from remem.data.source import ArraySource
from remem.errors import DamagedFileError, InputError
from remem.runs.model import Model
from remem.types import IntArray, Reader, Values

ARRAYS = ("x", "x_test")  # the first one in the file is used


@dataclass(frozen=True)
class Inputs:
    """Named samples: row k of the reader is the sample names[k]."""

    names: tuple[str, ...]
    reader: Reader


def open_inputs(path: Path, model: Model) -> Inputs:
    """Opens the samples at a path. Checks everything except image data behind the header."""
    if path.is_dir():
        names = _images_below(path)
        if not names:
            raise InputError(f"{path}: no images; expected {', '.join(SUFFIXES)} files in this folder or below it")
        return _from_files(path, names, model)
    if not path.exists():
        raise DamagedFileError(f"{path}: no such file or folder; expected images or an .npz file")
    if path.suffix.lower() in SUFFIXES:
        return _from_files(path.parent, (path.name,), model)
    if path.suffix.lower() == ".npz":
        return _from_arrays(path, model)
    raise InputError(f"{path}: not a known kind of file; expected {', '.join(SUFFIXES)} or .npz")


def _images_below(folder: Path) -> tuple[str, ...]:
    """Returns relative names, sorted, without hidden files and folders."""
    found = (path.relative_to(folder) for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES)
    seen = (path for path in found if not any(part.startswith(".") for part in path.parts))
    return tuple(path.as_posix() for path in sorted(seen) if (folder / path).is_file())


def _from_files(folder: Path, names: tuple[str, ...], model: Model) -> Inputs:
    if not model.takes_squares or model.shape[2] not in (1, 3):
        raise InputError(f"{folder}: image files given, but the model takes samples of shape {model.shape}")
    nothing = np.zeros(len(names), np.int64)
    files = Files(folder, Names.of(names), nothing, np.zeros((len(names), 2), np.int64))
    check_headers(files, remember=False)
    source = FolderSource(files, model.shape[0])
    return Inputs(names, source if model.shape[2] == 3 else Grey(source))


def _from_arrays(path: Path, model: Model) -> Inputs:
    arrays = read_npz(path, ARRAYS)
    field = next((name for name in ARRAYS if name in arrays), None)
    if field is None:
        raise InputError(f"{path}: no array 'x' or 'x_test'; expected samples under one of these names")
    values = model.fitted(arrays[field], f"{path}: {field}")
    names = tuple(map(str, range(len(values))))
    return Inputs(names, ArraySource(values, np.zeros(len(values), np.int64)))


class Grey:
    """Converts colour images to one luminance channel, for models of grey images. Grey images keep their values."""

    def __init__(self, source: FolderSource) -> None:
        self._source = source

    def read(self, rows: IntArray) -> Values:
        planes = [np.asarray(Image.fromarray(image).convert("L")) for image in self._source.read(rows)]
        return np.stack(planes)[:, :, :, None]
