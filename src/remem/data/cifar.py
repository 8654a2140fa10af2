"""`cifar100` from the official python or binary files. The python files are pickles, read by a safe unpickler."""

import hashlib
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from remem.data.images import Pixels, resize
from remem.data.preprocessing import Preprocessing
from remem.data.settings import DataSettings
from remem.data.source import ArraySource, Dataset, DatasetEntry, data_root, missing
from remem.errors import DamagedFileError, InputError
from remem.types import IntArray

PYTHON, BINARY = "cifar-100-python", "cifar-100-binary"
PYTHON_FILES = tuple(f"{PYTHON}/{name}" for name in ("train", "test", "meta"))
BINARY_FILES = tuple(f"{BINARY}/{name}" for name in ("train.bin", "test.bin", "fine_label_names.txt"))
ROWS = {"train": 50_000, "test": 10_000}
CLASSES = 100
PIXELS = 3 * 32 * 32
RECORD = 2 + PIXELS  # coarse label, fine label, pixels
MD5 = {
    "train": "16019d7e3df5f24257cddd939b257f8d",
    "test": "f0ef6b0ae62326f3e7ffdfab6717acfc",
    "meta": "7973b15100ade9c7d40fb424638fde48",
}
# As in LUCIR and AANets; PODNet uses other standard deviations.
PREPROCESSING = Preprocessing(mean=(0.5071, 0.4866, 0.4409), std=(0.2009, 0.1984, 0.2023), augment="crop", flip=True)


class _Inert:
    """Replaces numpy's array, dtype and reconstructor in a pickle: stores its arguments and executes nothing."""

    def __init__(self, *arguments: object) -> None:
        self.arguments = arguments
        self.state: object = None

    def __setstate__(self, state: object) -> None:
        self.state = state


class _Unpickler(pickle.Unpickler):
    """Builds only strings, numbers, lists, dicts and `_Inert` objects; any other class in the file is refused."""

    ALLOWED = frozenset(
        {
            ("numpy.core.multiarray", "_reconstruct"),
            ("numpy._core.multiarray", "_reconstruct"),
            ("numpy", "ndarray"),
            ("numpy", "dtype"),
        }
    )

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in self.ALLOWED:
            return _Inert
        raise pickle.UnpicklingError(f"it asks for {module}.{name}")


def read_pickle(path: Path) -> dict[str, object]:
    """The dictionary in an official python file, with string keys."""
    try:
        with path.open("rb") as file:
            content = _Unpickler(file, encoding="bytes").load()
    except OSError:
        raise
    except Exception as error:  # a damaged pickle can raise anything
        raise DamagedFileError(f"{path}: not a CIFAR-100 file ({error or type(error).__name__})") from error
    if not isinstance(content, dict):
        raise DamagedFileError(f"{path}: not a CIFAR-100 file (it holds no dictionary)")
    return {_text(key): value for key, value in content.items()}


def _text(value: object) -> str:
    return value.decode("latin1") if isinstance(value, bytes) else str(value)


def _bytes_of(array: object, path: Path) -> bytes:
    """The pixels of a pickled (n, 3072) uint8 array in C order; the state is numpy's, version 1."""
    match array:
        case _Inert(state=(1, (int(), 3072), _Inert(arguments=(b"u1" | "u1", *_)), False | 0, bytes(data))):
            return data
    raise DamagedFileError(f"{path}: 'data' is not an array (n, {PIXELS}) of bytes")


def _read_python_split(folder: Path, split: str) -> tuple[Pixels, IntArray]:
    path = folder / split
    content = read_pickle(path)
    labels = content.get("fine_labels")
    if not isinstance(labels, list) or not all(type(label) is int for label in labels):
        raise DamagedFileError(f"{path}: 'fine_labels' is not a list of numbers")
    pixels = np.frombuffer(_bytes_of(content.get("data"), path), dtype=np.uint8)
    return _checked(path, split, pixels, np.array(labels, dtype=np.int64))


def _read_binary_split(folder: Path, split: str) -> tuple[Pixels, IntArray]:
    path = folder / f"{split}.bin"
    content = np.frombuffer(path.read_bytes(), dtype=np.uint8)
    if len(content) % RECORD:
        raise DamagedFileError(f"{path}: {len(content)} bytes; expected whole records of {RECORD}")
    records = content.reshape(-1, RECORD)
    return _checked(path, split, records[:, 2:], records[:, 1].astype(np.int64))


def _checked(path: Path, split: str, pixels: Pixels, labels: IntArray) -> tuple[Pixels, IntArray]:
    """Images (n, 32, 32, 3) and labels; raises if their number or range is wrong."""
    if pixels.size != len(labels) * PIXELS or len(labels) != ROWS[split]:
        raise DamagedFileError(
            f"{path}: {len(labels)} labels, {pixels.size} pixel bytes; expected {ROWS[split]} images"
        )
    if labels.min() < 0 or labels.max() >= CLASSES:
        raise DamagedFileError(f"{path}: labels from {labels.min()} to {labels.max()}; expected 0 to {CLASSES - 1}")
    return np.ascontiguousarray(pixels.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)), labels


def _python_names(folder: Path) -> tuple[str, ...]:
    names = read_pickle(folder / "meta").get("fine_label_names")
    if not isinstance(names, list):
        raise DamagedFileError(f"{folder / 'meta'}: no 'fine_label_names'")
    return tuple(_text(name) for name in names)


def _binary_names(folder: Path) -> tuple[str, ...]:
    return tuple((folder / "fine_label_names.txt").read_text(encoding="latin1").split())


def _source(read: Callable[[Path, str], tuple[Pixels, IntArray]], folder: Path, split: str, size: int) -> ArraySource:
    images, labels = read(folder, split)
    return ArraySource(resize(images, size), labels)


def load_cifar100(settings: DataSettings) -> Dataset:
    """Reads the python files if they exist, else the binary ones; both give equal arrays."""
    root = data_root(settings)
    binary = (root / BINARY).is_dir() and not all((root / file).exists() for file in PYTHON_FILES)
    folder = root / (BINARY if binary else PYTHON)
    read, names_of = (_read_binary_split, _binary_names) if binary else (_read_python_split, _python_names)
    try:
        train, test = (_source(read, folder, split, settings.image_size or 32) for split in ("train", "test"))
        names = names_of(folder)
    except OSError as error:
        raise missing("cifar100", f"readable {folder.name}/{Path(error.filename).name}", root) from error
    if len(names) != CLASSES:
        raise DamagedFileError(f"{folder}: {len(names)} class names; expected {CLASSES}")
    return Dataset("cifar100", train, test, names, PREPROCESSING)


def check_cifar100(settings: DataSettings) -> list[str]:
    """Compares the MD5 sums of the python files, then loads the data set."""
    folder = data_root(settings) / PYTHON
    problems = []
    for name, expected in MD5.items():
        path = folder / name
        if path.is_file() and (found := hashlib.md5(path.read_bytes()).hexdigest()) != expected:
            problems.append(f"{path}: MD5 {found}; expected {expected}")
    try:
        load_cifar100(settings)
    except InputError as error:
        problems.append(str(error))
    return problems


ENTRY = DatasetEntry(
    summary="CIFAR-100: 100 classes of 32 x 32 photos, 500 + 100 each",
    load=load_cifar100,
    check=check_cifar100,
    files=PYTHON_FILES,
    other_files=BINARY_FILES,
)
