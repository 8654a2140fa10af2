"""`cifar100` from the official python or binary files. The python files are pickles, read by a safe unpickler."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

from remem.data.images import Pixels, resize
from remem.data.pickles import Inert, read_bytes, unpickle
from remem.data.preprocessing import Preprocessing
from remem.data.settings import DataSettings
from remem.data.source import ArraySource, Dataset, DatasetEntry, data_root, missing
from remem.errors import DamagedFileError, InputError, is_damage
from remem.types import IntArray

PYTHON, BINARY = "cifar-100-python", "cifar-100-binary"
PYTHON_FILES = tuple(f"{PYTHON}/{name}" for name in ("train", "test", "meta"))
BINARY_FILES = tuple(f"{BINARY}/{name}" for name in ("train.bin", "test.bin", "fine_label_names.txt"))
ROWS = {"train": 50_000, "test": 10_000}
CLASSES = 100
PIXELS = 3 * 32 * 32
RECORD = 2 + PIXELS  # coarse label, fine label, pixels
SHA256 = {  # of the official python files
    "train": "735e79b04f092ca3d2e6d07f368c0a7d70d48c48d28865950cc24454cf45129b",
    "test": "4b67687d9933c4db8f0831104447f15b93774f4f464bd0516f0f0f2ac83b7864",
    "meta": "a5d4786345c961390f865e93b434dbd5c6904ce880667e0cb888c97d449f28b9",
}
CONTENT = {  # of their images and labels, however they are packed
    "train": "3d3041df9bd70980b536d01664b4ee8ee38ed680cfdfd16723857a5370426b22",
    "test": "b429424c8bff12b0aa9deb81ba772fd721544ad770feeba0861bd5e20f1a7652",
}
# As in LUCIR and AANets; PODNet uses other standard deviations.
PREPROCESSING = Preprocessing(mean=(0.5071, 0.4866, 0.4409), std=(0.2009, 0.1984, 0.2023), augment="crop", flip=True)


def read_pickle(path: Path) -> dict[str, object]:
    """The dictionary in a python file, with string keys; any but the official files are counted first."""
    content = read_bytes(path)
    trusted = hashlib.sha256(content).hexdigest() == SHA256.get(path.name)
    return {_text(key): value for key, value in unpickle(content, path, trusted=trusted).items()}


def _text(value: object) -> str:
    return value.decode("latin1") if isinstance(value, bytes) else str(value)[:100]


def _bytes_of(array: object, path: Path) -> bytes:
    """The pixels of a pickled (n, 3072) uint8 array in C order; the state is numpy's, version 1."""
    match array:
        case Inert(state=(1, (int(), 3072), Inert(arguments=(b"u1" | "u1", *_)), False | 0, bytes(data))):
            return data
    raise DamagedFileError(f"{path}: 'data' is not an array (n, {PIXELS}) of bytes")


def _read_python_split(folder: Path, split: str) -> tuple[Pixels, IntArray]:
    path = folder / split
    content = read_pickle(path)
    labels = content.get("fine_labels")
    if not isinstance(labels, list) or not all(type(label) is int for label in labels):
        raise DamagedFileError(f"{path}: 'fine_labels' is not a list of numbers")
    if any(abs(label) > 2**31 for label in labels):
        raise DamagedFileError(f"{path}: labels of many digits; expected 0 to {CLASSES - 1}")
    pixels = np.frombuffer(_bytes_of(content.get("data"), path), dtype=np.uint8)
    return _checked(path, split, pixels, np.array(labels, dtype=np.int64))


def _read_binary_split(folder: Path, split: str) -> tuple[Pixels, IntArray]:
    path = folder / f"{split}.bin"
    content = np.frombuffer(read_bytes(path), dtype=np.uint8)
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


def _source(
    read: Callable[[Path, str], tuple[Pixels, IntArray]], folder: Path, split: str, size: int
) -> tuple[ArraySource, tuple[str, ...]]:
    """A split, and a note if it is not the official one."""
    whole = ArraySource(*read(folder, split))
    notes: tuple[str, ...] = ()
    if whole.fingerprint != CONTENT[split]:
        notes = (f"{folder}: the {split} images or labels are not the official ones of CIFAR-100",)
    return (whole if size == 32 else ArraySource(resize(whole.values, size), whole.labels)), notes


def load_cifar100(settings: DataSettings) -> Dataset:
    """Reads the python files if they exist, else the binary ones; both give equal arrays."""
    root = data_root(settings)
    binary = (root / BINARY).is_dir() and not all((root / file).exists() for file in PYTHON_FILES)
    folder = root / (BINARY if binary else PYTHON)
    read, names_of = (_read_binary_split, _binary_names) if binary else (_read_python_split, _python_names)
    try:
        size = settings.side or 32
        (train, train_notes), (test, test_notes) = (_source(read, folder, split, size) for split in ("train", "test"))
        names = names_of(folder)
    except OSError as error:
        if not is_damage(error):
            raise
        raise missing("cifar100", f"readable {folder.name}/{Path(error.filename).name}", root) from error
    if len(names) != CLASSES:
        raise DamagedFileError(f"{folder}: {len(names)} class names; expected {CLASSES}")
    return Dataset("cifar100", train, test, names, PREPROCESSING, (*train_notes, *test_notes))


def check_cifar100(settings: DataSettings) -> list[str]:
    """Loads the data set and compares images and labels with the official ones, however they are packed."""
    try:
        return list(load_cifar100(settings).notes)
    except InputError as error:
        return [str(error)]


ENTRY = DatasetEntry(
    summary="CIFAR-100: 100 classes of 32 x 32 photos, 500 + 100 each",
    load=load_cifar100,
    check=check_cifar100,
    files=PYTHON_FILES,
    other_files=BINARY_FILES,
)
