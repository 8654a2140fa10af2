"""Data sets from arrays and .npz files: what is converted, what is refused."""

import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from remem.data.arrays import as_values, from_arrays, read_npz
from remem.data.datasets import check_dataset, load_dataset
from remem.data.settings import DataSettings
from remem.data.source import ArraySource
from remem.errors import DamagedFileError, InputError

IMAGES = np.arange(4 * 2 * 2 * 3, dtype=np.uint8).reshape(4, 2, 2, 3)
VECTORS = np.arange(8.0).reshape(4, 2)
LABELS = [7, -3, 7, -3]


def pair(x: Any, y: Any = LABELS, **more: Any) -> Any:
    return from_arrays(x, y, x, y, **more)


def test_labels_become_positions_in_the_sorted_labels() -> None:
    data = pair(IMAGES)
    assert data.train.labels.tolist() == [1, 0, 1, 0]
    assert data.train.labels.dtype == np.int64
    assert data.class_names == ("-3", "7")
    assert pair(IMAGES, ["cat", "dog", "cat", "ant"]).train.labels.tolist() == [1, 2, 1, 0]
    assert pair(IMAGES, class_names=["low", "high"]).class_names == ("low", "high")


def test_images_of_all_kinds() -> None:
    data = pair(IMAGES)
    assert data.train.shape == (2, 2, 3)
    assert np.array_equal(data.train.read(np.array([2, 0])), IMAGES[[2, 0]])
    assert data.preprocessing.augment == "crop"
    assert pair(IMAGES[:, :, :, 0]).train.shape == (2, 2, 1)
    deep = pair(IMAGES.astype(np.uint16) * 256 + 255).train.read(np.arange(4))
    assert deep.dtype == np.uint8
    assert np.array_equal(deep, IMAGES)
    assert as_values(IMAGES, "x", 1).shape == (4, 1, 1, 3)


def test_vectors_are_float32_and_never_augmented() -> None:
    data = pair(VECTORS)
    values = data.train.read(np.array([1]))
    assert values.dtype == np.float32
    assert values.tolist() == [[2.0, 3.0]]
    assert data.train.shape == (2,)
    assert data.preprocessing.augment == "none"


def test_fingerprint_follows_the_content() -> None:
    values, labels = IMAGES.copy(), np.array([0, 1, 0, 1])
    same = ArraySource(values.copy(), labels.copy())
    assert ArraySource(values, labels).fingerprint == same.fingerprint
    other_pixel = values.copy()
    other_pixel[3, 1, 1, 2] ^= 1
    reshaped = values.reshape(4, 4, 1, 3)
    digests = {ArraySource(v, labels).fingerprint for v in (values, other_pixel, reshaped)}
    digests.add(ArraySource(values, 1 - labels).fingerprint)
    assert len(digests) == 4


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((IMAGES, LABELS, IMAGES, [7, 7, 7, 8]), "y_test: label 8"),
        ((IMAGES, LABELS, IMAGES, ["7", "7", "7", "7"]), "y_test: labels of type"),
        ((IMAGES, LABELS, IMAGES[:, :1], LABELS), "x_test: rows of shape"),
        ((IMAGES, LABELS[:3], IMAGES, LABELS), r"y_train: shape \(3,\)"),
        ((IMAGES, [0.5, 1, 2, 3], IMAGES, LABELS), "y_train: labels of type float64"),
        ((IMAGES / 255, LABELS, IMAGES, LABELS), "x_train: shape"),
        ((IMAGES[:0], [], IMAGES, LABELS), "x_train: no samples"),
        ((np.zeros((4, 3, 32, 32), np.uint8), LABELS, IMAGES, LABELS), "channels first"),
        ((np.array([[0.0, np.nan]] * 4), LABELS, VECTORS, LABELS), "x_train: row 0 holds NaN"),
        (
            (VECTORS, LABELS, VECTORS * np.array([[1], [1], [1e300], [1]]), LABELS),
            "x_test: row 2 holds NaN or infinite",
        ),
    ],
)
def test_wrong_arrays_are_named(arguments: tuple[Any, ...], words: str) -> None:
    with pytest.raises(InputError, match=words):
        from_arrays(*arguments)


def test_wrong_options_are_named() -> None:
    with pytest.raises(InputError, match="class_names: 3 names; expected 2"):
        pair(IMAGES, class_names=["a", "b", "c"])
    with pytest.raises(InputError, match=r"data\.image_size: 8 given, but x_train holds vectors"):
        as_values(VECTORS, "x_train", 8)


def save(path: Path, **arrays: Any) -> DataSettings:
    np.savez_compressed(path, **arrays)
    return DataSettings(name=f"npz:{path}")


def test_npz(tmp_path: Path) -> None:
    settings = save(
        tmp_path / "set.npz", x_train=IMAGES, y_train=LABELS, x_test=IMAGES[:1], y_test=[7], class_names=["a", "b"]
    )
    data = load_dataset(settings)
    assert data.name == "npz:set.npz"
    assert data.class_names == ("a", "b")
    assert data.test.labels.tolist() == [1]
    assert np.array_equal(data.train.read(np.arange(4)), IMAGES)
    assert check_dataset(settings) == []


def test_damaged_npz(tmp_path: Path) -> None:
    path = tmp_path / "set.npz"
    noise = np.random.default_rng(0).integers(0, 256, (40, 8, 8, 3), dtype=np.uint8)
    settings = save(path, x_train=noise, y_train=[0] * 40, x_test=noise, y_test=[0] * 40)
    whole = path.read_bytes()
    changed = bytearray(whole)
    changed[len(whole) // 3] ^= 255
    for content in (whole[: len(whole) // 2], b"", b"text", bytes(changed)):
        path.write_bytes(content)
        with pytest.raises(DamagedFileError, match=r"set\.npz"):
            load_dataset(settings)
        assert len(check_dataset(settings)) == 1
    path.unlink()
    with pytest.raises(DamagedFileError, match="no such file"):
        load_dataset(settings)


def test_npz_of_the_wrong_kind(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no array 'y_train'; expected x_train, y_train, x_test, y_test, found "):
        load_dataset(save(tmp_path / "short.npz", x_train=IMAGES))
    np.save(tmp_path / "one.npy", IMAGES)
    with pytest.raises(DamagedFileError, match=r"not an \.npz"):
        load_dataset(DataSettings(name=f"npz:{tmp_path / 'one.npy'}"))
    objects = np.array([object()] * 4)
    with pytest.raises(DamagedFileError, match="objects"):
        load_dataset(save(tmp_path / "objects.npz", x_train=IMAGES, y_train=objects, x_test=IMAGES, y_test=LABELS))


def npz_with(path: Path, **headers: tuple[int, ...]) -> Path:
    """Members whose headers promise arrays of zeros of these shapes; what follows is whole, and compresses well."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, shape in headers.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                header = {"descr": "|u1", "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(member, header)
                for _ in range(math.prod(shape[:1])):
                    member.write(bytes(math.prod(shape[1:])))
    return path


def test_arrays_that_unpack_to_much_more_are_refused_unread(tmp_path: Path) -> None:
    path = npz_with(tmp_path / "bomb.npz", x_train=(400, 1000, 1000))
    assert path.stat().st_size < 1e6
    with pytest.raises(InputError, match=r"arrays take 0.4 GB, \d+ times the file; .*data.max_gigabytes"):
        read_npz(path, ("x_train",), max_gigabytes=0.1)
    assert read_npz(path, ("other",), max_gigabytes=0.1) == {}
    small = npz_with(tmp_path / "small.npz", x_train=(4, 10))
    assert read_npz(small, ("x_train",), max_gigabytes=1e-9)["x_train"].shape == (4, 10)  # ten times the file is fine


def test_a_header_that_promises_more_than_there_is_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "short.npz", "w") as archive, archive.open("x_train.npy", "w") as member:
        header = {"descr": "<f8", "fortran_order": False, "shape": (10**12,)}
        np.lib.format.write_array_header_1_0(member, header)
        member.write(bytes(80))
    with pytest.raises(DamagedFileError, match="for an array of 8000000000000"):
        read_npz(tmp_path / "short.npz", ("x_train",))


def test_an_encrypted_archive_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "locked.npz"
    np.savez(path, x_train=np.zeros(3))
    content = bytearray(path.read_bytes())
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):  # the flags of both headers of the member
        content[content.index(mark) + offset] |= 1
    path.write_bytes(bytes(content))
    with pytest.raises(DamagedFileError, match="is encrypted"):
        read_npz(path, ("x_train",))
