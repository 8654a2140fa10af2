"""Data sets from arrays of images or vectors: `from_arrays` in Python, `npz:PATH` for files."""

import math
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import ArrayLike, NDArray

from remem.data.images import resize
from remem.data.preprocessing import Preprocessing
from remem.data.settings import MAX_GIGABYTES, DataSettings
from remem.data.source import ArraySource, Dataset, DatasetEntry
from remem.errors import DamagedFileError, InputError, is_damage, listed
from remem.types import Values
from remem.user_paths import expand

NEEDED = ("x_train", "y_train", "x_test", "y_test")


def from_arrays(
    x_train: ArrayLike,
    y_train: ArrayLike,
    x_test: ArrayLike,
    y_test: ArrayLike,
    *,
    class_names: Sequence[str] | None = None,
    name: str = "arrays",
    preprocessing: Preprocessing | None = None,
) -> Dataset:
    """A data set from images (n, h, w[, c]) of uint8 or uint16, or from vectors (n, d).

    Labels are integers or strings. The distinct training labels, sorted, become classes 0..k-1; `class_names` has one
    name for each of them.
    """
    train, test = as_values(x_train, "x_train"), as_values(x_test, "x_test")
    if train.shape[1:] != test.shape[1:]:
        raise InputError(f"x_test: rows of shape {test.shape[1:]}; expected {train.shape[1:]} as in x_train")
    train_labels = as_labels(y_train, "y_train", len(train))
    test_labels = as_labels(y_test, "y_test", len(test))
    known = np.unique(train_labels)
    if (known.dtype.kind == "U") != (test_labels.dtype.kind == "U"):
        raise InputError(f"y_test: labels of type {test_labels.dtype}; expected {known.dtype} as in y_train")
    strange = np.setdiff1d(test_labels, known)
    if len(strange):
        raise InputError(f"y_test: label {strange[0]} has no training samples; every test label must be in y_train")
    names = tuple(str(label) for label in (known if class_names is None else class_names))
    if len(names) != len(known):
        raise InputError(f"class_names: {len(names)} names; expected {len(known)}, one for each label of y_train")
    return Dataset(
        name=name,
        train=ArraySource(train, np.searchsorted(known, train_labels).astype(np.int64)),
        test=ArraySource(test, np.searchsorted(known, test_labels).astype(np.int64)),
        class_names=names,
        preprocessing=preprocessing or default_preprocessing(train.shape[1:]),
    )


def as_values(array: ArrayLike, field: str, image_size: int | None = None) -> Values:
    """Converts a user's array to (n, h, w, c) uint8 or to finite (n, d) float32; `field` names it in errors."""
    values = np.asarray(array)
    if not len(values.shape) or not values.size:
        raise InputError(f"{field}: no samples (shape {values.shape}); expected at least one")
    if values.ndim == 2 and values.dtype.kind in "fiu":
        if image_size is not None:
            raise InputError(f"data.image_size: {image_size} given, but {field} holds vectors; expected images")
        return _as_vectors(values, field)
    if values.ndim not in (3, 4) or values.dtype not in (np.uint8, np.uint16):
        raise InputError(
            f"{field}: shape {values.shape} of {values.dtype}; expected images (n, h, w, c) or (n, h, w) "
            "of uint8 or uint16, or vectors (n, d) of floats"
        )
    if values.ndim == 3:
        values = values[:, :, :, None]
    elif values.shape[1] <= 4 < values.shape[3]:
        raise InputError(f"{field}: shape {values.shape} has its channels first; expected (n, h, w, c)")
    images = (values >> 8).astype(np.uint8) if values.dtype == np.uint16 else values
    return images if image_size is None else resize(images, image_size)


def as_rows(array: ArrayLike, field: str, shape: tuple[int, ...]) -> Values:
    """A user's array as samples of a shape. Images of another size are cropped to squares and resized."""
    values = as_values(array, field)
    if values.shape[1:] == shape:
        return values
    if values.ndim == 4 and is_square(shape) and values.shape[3] == shape[2]:
        return resize(values, shape[0])
    kind = "images" if len(shape) == 3 else "vectors"
    raise InputError(f"{field}: samples of shape {values.shape[1:]}; expected {kind} of shape {shape}")


def is_square(shape: tuple[int, ...]) -> bool:
    """Whether samples are square images, so that any image can be cropped and resized to fit."""
    return len(shape) == 3 and shape[0] == shape[1]


def _as_vectors(values: NDArray[Any], field: str) -> Values:
    with np.errstate(over="ignore"):
        vectors = values.astype(np.float32)
    broken = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(broken):
        raise InputError(f"{field}: row {broken[0]} holds NaN or infinite values; expected finite numbers")
    return vectors


def as_labels(array: ArrayLike, field: str, count: int) -> NDArray[Any]:
    """Checks a user's labels (n,): integers or strings."""
    labels = np.asarray(array)
    if labels.shape != (count,):
        raise InputError(f"{field}: shape {labels.shape}; expected ({count},), one label for each sample")
    if labels.dtype.kind not in "iuU":
        raise InputError(f"{field}: labels of type {labels.dtype}; expected integers or strings")
    return labels


def default_preprocessing(shape: tuple[int, ...]) -> Preprocessing:
    """Random crops but no flips: a mirrored letter or digit may belong to another class."""
    return Preprocessing(mean=None, std=None, augment="crop" if len(shape) == 3 else "none", flip=False)


def _path(settings: DataSettings) -> Path:
    return expand(settings.name.partition(":")[2])


def load_npz(settings: DataSettings) -> Dataset:
    """Loads `npz:PATH`, which holds arrays x_train, y_train, x_test, y_test and optionally class_names."""
    path = _path(settings)
    arrays = read_npz(path, (*NEEDED, "class_names"), settings.max_gigabytes)
    absent = [key for key in NEEDED if key not in arrays]
    if absent:
        raise InputError(f"{path}: no array '{absent[0]}'; expected {', '.join(NEEDED)}, found {arrays_found(path)}")
    names = arrays.get("class_names")
    for key in ("x_train", "x_test"):
        arrays[key] = as_values(arrays[key], key, settings.side)
    return from_arrays(
        *(arrays[key] for key in NEEDED),
        class_names=None if names is None else names.tolist(),
        name=f"npz:{path.name}",
    )


def read_npz(path: Path, keys: Sequence[str], max_gigabytes: float = MAX_GIGABYTES) -> dict[str, NDArray[Any]]:
    """Those of the named arrays that the file contains; pickled objects are refused.

    Together they may take `max_gigabytes`, or ten times as much as the file does.
    """
    try:
        with path.open("rb") as file:
            limit = max(max_gigabytes * 1e9, 10 * path.stat().st_size)
            if not zipfile.is_zipfile(file):
                raise DamagedFileError(f"{path}: not an .npz archive; expected one with arrays such as {keys[0]}")
            _check_sizes(file, path, keys, limit)  # from here on, too little memory is the machine's
            file.seek(0)
            content = np.load(file, allow_pickle=False)
            return {key: content[key] for key in keys if key in content}
    except InputError:
        raise
    except FileNotFoundError as error:
        raise DamagedFileError(f"{path}: no such file; expected an .npz archive") from error
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error, RuntimeError) as error:
        if not is_damage(error):
            raise
        raise DamagedFileError(f"{path}: not a whole .npz archive ({error})") from error


def arrays_found(path: Path) -> str:
    """The names of a file's arrays, for the line about one that is missing."""
    with zipfile.ZipFile(path) as archive:
        names = [name.removesuffix(".npy") for name in archive.namelist()]
    return listed(names) or "none"


def _check_sizes(file: BinaryIO, path: Path, keys: Sequence[str], limit: float) -> None:
    """Raises before anything is unpacked if the arrays would be larger than the limit, or than what is packed."""
    total = 0
    with zipfile.ZipFile(file) as archive:
        for name in set(archive.namelist()) & {f"{key}.npy" for key in keys}:
            with archive.open(name) as member:
                version = np.lib.format.read_magic(member)
                read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
                shape, _, dtype = read(member)
            size = math.prod(shape) * dtype.itemsize
            if size > archive.getinfo(name).file_size:
                raise ValueError(f"{name} has {archive.getinfo(name).file_size} bytes for an array of {size}")
            total += size
    if total > limit:
        raise InputError(
            f"{path}: its arrays take {total / 1e9:.1f} GB, {total / max(1, path.stat().st_size):.0f} times the file; "
            "expected less, or data.max_gigabytes=... if that is right"
        )


def check_npz(settings: DataSettings) -> list[str]:
    """Loading reads the whole file, so a file that loads is undamaged."""
    try:
        load_npz(settings)
    except InputError as error:
        return [str(error)]
    return []


ENTRY = DatasetEntry(
    summary="arrays x_train y_train x_test y_test of an .npz file: images or vectors",
    load=load_npz,
    check=check_npz,
)
