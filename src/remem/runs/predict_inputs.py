"""Samples to predict, as rows of the model's shape: files, or what users hand over in Python."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike
from PIL import Image

from remem.data.arrays import arrays_found, read_npz
from remem.data.folder import SUFFIXES, Files, FolderSource, check_headers
from remem.data.images import square
from remem.data.names import Names
from remem.data.source import ArraySource
from remem.errors import DamagedFileError, InputError
from remem.threads import in_threads
from remem.types import IntArray, Reader, Values
from remem.user_paths import expand

ARRAYS = ("x", "x_test")  # the first one in the file is used

OneSample = str | Path | Image.Image | ArrayLike
OwnSamples = OneSample | Sequence[OneSample]


class Fits(Protocol):
    """What inputs need to know of a model."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def takes_squares(self) -> bool: ...

    def fitted(self, array: ArrayLike, field: str) -> Values: ...


@dataclass(frozen=True)
class Inputs:
    """Named samples: row k of the reader is the sample names[k]."""

    names: tuple[str, ...]
    reader: Reader


def open_inputs(path: Path, model: Fits) -> Inputs:
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


def _from_files(folder: Path, names: tuple[str, ...], model: Fits) -> Inputs:
    require_images(str(folder), model)
    nothing = np.zeros(len(names), np.int64)
    files = Files(folder, Names.of(names), nothing, np.zeros((len(names), 2), np.int64))
    check_headers(files, remember=False)
    source = FolderSource(files, model.shape[0])
    return Inputs(names, source if model.shape[2] == 3 else Grey(source))


def require_images(what: str, model: Fits) -> None:
    """Raises if a model cannot take image files."""
    if not model.takes_squares or model.shape[2] not in (1, 3):
        raise InputError(f"{what}: image files given, but the model takes samples of shape {model.shape}")


def _from_arrays(path: Path, model: Fits) -> Inputs:
    arrays = read_npz(path, ARRAYS)
    field = next((name for name in ARRAYS if name in arrays), None)
    if field is None:
        raise InputError(
            f"{path}: no array 'x' or 'x_test'; expected samples under one of these names, found {arrays_found(path)}"
        )
    values = model.fitted(arrays[field], f"{path}: {field}")
    return numbered(values)


def numbered(values: Values) -> Inputs:
    """Samples of an array, named by their numbers."""
    return Inputs(tuple(map(str, range(len(values)))), ArraySource(values, np.zeros(len(values), np.int64)))


class Grey:
    """Converts colour images to one luminance channel, for models of grey images. Grey images keep their values."""

    def __init__(self, source: FolderSource) -> None:
        self._source = source

    def read(self, rows: IntArray) -> Values:
        return grey(self._source.read(rows))


def grey(images: Sequence[Values] | Values) -> Values:
    """Colour images (n, h, w, 3) as (n, h, w, 1)."""
    return np.stack([np.asarray(Image.fromarray(image).convert("L")) for image in images])[:, :, :, None]


def open_own(samples: OwnSamples, model: Fits) -> Inputs:
    """Opens what a user has, as rows of the model's shape. Paths in a list are read at once, a folder in blocks."""
    if isinstance(samples, str | Path):
        return open_inputs(expand(samples), model)
    if isinstance(samples, Image.Image):
        samples = [samples]
    if isinstance(samples, list | tuple) and not _is_array(samples):
        return numbered(np.concatenate(list(in_threads(partial(_rows, model=model), samples))))
    return numbered(model.fitted(_batch(samples, model), "values"))


def _is_array(samples: Sequence[Any]) -> bool:
    """Whether a list is one array: numbers, or arrays of one shape."""
    if any(isinstance(sample, str | Path | Image.Image) for sample in samples):
        return False
    return len({np.shape(sample) for sample in samples}) < 2


def _rows(sample: Any, model: Fits) -> Values:
    """The rows of one entry of a list: usually one, but a folder or an .npz file has many."""
    if isinstance(sample, str | Path):
        inputs = open_inputs(expand(sample), model)
        return inputs.reader.read(np.arange(len(inputs.names)))
    if isinstance(sample, Image.Image):
        require_images("values", model)
        colours = square(sample, model.shape[0])[None]
        return colours if model.shape[2] == 3 else grey(colours)
    return model.fitted(_batch(sample, model), "values")


def _batch(samples: Any, model: Fits) -> Values:
    """An array with the dimension n, which one sample may lack. Grey images need no channels."""
    values = np.asarray(samples)
    if len(model.shape) == 1:
        alone = values.ndim == 1
    else:
        channels = model.shape[2]
        alone = (values.ndim == 3 and values.shape[2] == channels) or (values.ndim == 2 and channels == 1)
    return values[None] if alone and values.size else values
