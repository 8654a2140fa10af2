"""CIFAR-100 from python and binary files; malicious and damaged files raise and execute nothing."""

import os
import pickle
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from remem.data import cifar
from remem.data.cifar import read_pickle
from remem.data.datasets import DATASETS, check_dataset, load_dataset
from remem.data.settings import DataSettings
from remem.errors import DamagedFileError

NAMES = [f"class_{label}" for label in range(100)]
ROWS = {"train": 5, "test": 3}


@pytest.fixture(autouse=True)
def small_files(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "realdata" not in request.keywords:
        monkeypatch.setattr(cifar, "ROWS", ROWS)


def split(name: str) -> tuple[np.ndarray, list[int]]:
    rng = np.random.default_rng(ROWS[name])
    return rng.integers(0, 256, (ROWS[name], 3072), dtype=np.uint8), rng.integers(0, 100, ROWS[name]).tolist()


def write_python(root: Path, **changes: Any) -> DataSettings:
    folder = root / "cifar-100-python"
    folder.mkdir(exist_ok=True)
    for name in ("train", "test"):
        pixels, labels = split(name)
        content = {"data": pixels, "fine_labels": labels, "coarse_labels": [0] * len(labels)} | changes
        as_python_2 = {key.encode(): value for key, value in content.items()}
        (folder / name).write_bytes(pickle.dumps(as_python_2, protocol=4))
    (folder / "meta").write_bytes(pickle.dumps({b"fine_label_names": [name.encode() for name in NAMES]}))
    return DataSettings(name="cifar100", root=root)


def write_binary(root: Path) -> DataSettings:
    folder = root / "cifar-100-binary"
    folder.mkdir()
    for name in ("train", "test"):
        pixels, labels = split(name)
        records = [bytes([7, label]) + row.tobytes() for row, label in zip(pixels, labels, strict=True)]
        (folder / f"{name}.bin").write_bytes(b"".join(records))
    (folder / "fine_label_names.txt").write_text("\n".join(NAMES) + "\n")
    return DataSettings(name="cifar100", root=root)


def test_pixels_are_planes_of_rows(tmp_path: Path) -> None:
    data = load_dataset(write_python(tmp_path))
    pixels, labels = split("train")
    image = data.train.read(np.array([4]))[0]
    assert image.shape == data.train.shape == (32, 32, 3)
    for y, x, c in [(0, 0, 0), (31, 0, 1), (3, 9, 2)]:
        assert image[y, x, c] == pixels[4, 1024 * c + 32 * y + x]
    assert data.train.labels.tolist() == labels
    assert data.class_names == tuple(NAMES)


def test_python_and_binary_files_give_equal_arrays(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    first, second = load_dataset(write_python(tmp_path / "a")), load_dataset(write_binary(tmp_path / "b"))
    assert first.class_names == second.class_names
    for one, other in ((first.train, second.train), (first.test, second.test)):
        assert np.array_equal(one.read(np.arange(3)), other.read(np.arange(3)))
        assert one.labels.tolist() == other.labels.tolist()
        assert one.fingerprint == other.fingerprint


def test_binary_files_are_read_where_the_python_ones_are_not_whole(tmp_path: Path) -> None:
    settings = write_binary(tmp_path)
    (tmp_path / "cifar-100-python").mkdir()
    assert load_dataset(settings).train.labels.tolist() == split("train")[1]


def test_old_pickles_with_text_for_bytes(tmp_path: Path) -> None:
    """Python 2 wrote protocol 2 and byte strings (opcodes U, T); numpy had its old module name."""
    data = b"\x01\x02\xff" * 1024
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
        b"(K\x01K\x01M\x00\x0c\x86cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xff"
        b"K\x00tb\x89T" + len(data).to_bytes(4, "little") + data + b"tb"
    )
    path = tmp_path / "train"
    path.write_bytes(b"\x80\x02}(U\x04data" + array + b"U\x0bfine_labels]K\x05au.")
    content = read_pickle(path)
    assert content["fine_labels"] == [5]
    assert cifar._bytes_of(content["data"], path) == data


def test_smaller_images(tmp_path: Path) -> None:
    settings = write_python(tmp_path).model_copy(update={"image_size": 16})
    small = load_dataset(settings).train.read(np.array([0]))[0]
    block = split("train")[0][0].reshape(3, 32, 32)[1, 2:4, 6:8].astype(int)
    assert small.shape == (16, 16, 3)
    assert small[1, 3, 1] == (block.sum() + 2) // 4


class Hostile:
    """Creates a file when unpickled by the standard unpickler."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, (str(self.path),))


def test_hostile_pickle_runs_nothing(tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    settings = write_python(tmp_path, extra=Hostile(trap))
    with pytest.raises(DamagedFileError, match=r"train: not a CIFAR-100 file \(it asks for .*mkdir"):
        load_dataset(settings)
    assert not trap.exists()
    pickle.loads((tmp_path / "cifar-100-python" / "train").read_bytes())  # the standard unpickler does execute it
    assert trap.exists()


@pytest.mark.parametrize(
    "content",
    [
        b"cbuiltins\neval\n(S'1'\ntR.",
        b"cnumpy\nload\n.",
        b"c_codecs\nencode\n.",
        b"cnumpy.core.multiarray\n_reconstruct\n}b.",
        b"\x80\x02ccopyreg\n_reconstructor\n.",
        b"Pname\n.",
        b"",
        b"\x80\x04]\x94.",
    ],
)
def test_other_pickles_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "train"
    path.write_bytes(content)
    with pytest.raises(DamagedFileError, match="train: not a CIFAR-100 file"):
        read_pickle(path)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"data": "text"}, "'data' is not an array"),
        ({"data": np.zeros((5, 3072), dtype=np.int64)}, "'data' is not an array"),
        ({"data": np.zeros((5, 12), dtype=np.uint8)}, "'data' is not an array"),
        ({"data": np.zeros((4, 3072), dtype=np.uint8)}, "expected 5 images"),
        ({"fine_labels": [0] * 4}, "expected 5 images"),
        ({"fine_labels": [0, 1, 2, 3, 100]}, "labels from 0 to 100"),
        ({"fine_labels": ["0"] * 5}, "'fine_labels' is not a list of numbers"),
    ],
)
def test_wrong_content_is_named(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    settings = write_python(tmp_path, **changes)
    with pytest.raises(DamagedFileError, match=words):
        load_dataset(settings)


def test_cut_files_are_named(tmp_path: Path) -> None:
    settings = write_python(tmp_path)
    path = tmp_path / "cifar-100-python" / "train"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DamagedFileError, match="cifar-100-python/train"):
        load_dataset(settings)


def test_cut_binary_files_are_named(tmp_path: Path) -> None:
    settings = write_binary(tmp_path)
    path = tmp_path / "cifar-100-binary" / "test.bin"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    with pytest.raises(DamagedFileError, match=r"test\.bin: 9221 bytes; expected whole records of 3074"):
        load_dataset(settings)
    path.write_bytes(whole[:-3074])
    with pytest.raises(DamagedFileError, match=r"test\.bin: 2 labels"):
        load_dataset(settings)


def test_missing_files_say_where_and_how(tmp_path: Path) -> None:
    with pytest.raises(DamagedFileError, match=r"cifar-100-python/train below .*--data-root.*REMEM_DATA.*cache folder"):
        load_dataset(DataSettings(name="cifar100", root=tmp_path))
    settings = write_python(tmp_path)
    (tmp_path / "cifar-100-python" / "meta").unlink()
    with pytest.raises(DamagedFileError, match="cifar-100-python/meta"):
        load_dataset(settings)


def test_check_compares_sums(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = write_python(tmp_path)
    assert check_dataset(settings) == [
        f"{tmp_path / 'cifar-100-python'}: the {name} images or labels are not the official ones of CIFAR-100"
        for name in ("train", "test")
    ]
    data = load_dataset(settings)
    monkeypatch.setattr(cifar, "CONTENT", {"train": data.train.fingerprint, "test": data.test.fingerprint})
    assert check_dataset(settings) == []
    (tmp_path / "cifar-100-python" / "test").unlink()
    assert "cifar-100-python/test" in " ".join(check_dataset(settings))


@pytest.mark.realdata
@pytest.mark.skipif("REMEM_DATA" not in os.environ, reason="REMEM_DATA is not set")
def test_the_real_files() -> None:
    settings = DataSettings(name="cifar100")
    assert DATASETS["cifar100"].check(settings) == []
    data = load_dataset(settings)
    assert np.bincount(data.train.labels).tolist() == [500] * 100
    assert np.bincount(data.test.labels).tolist() == [100] * 100
    assert data.class_names[:2] == ("apple", "aquarium_fish")
    pixels = data.train.read(np.arange(50_000))
    assert data.preprocessing.mean is not None
    # LUCIR's means are of these pixels, printed with four digits.
    assert np.allclose(pixels.mean(axis=(0, 1, 2)) / 255, data.preprocessing.mean, atol=2e-4)


def memory_of(action: Callable[[], object]) -> int:
    """The most memory that Python and numpy had allocated at once."""
    tracemalloc.start()
    try:
        with suppress(DamagedFileError):
            action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x80\x02Nr\xff\xff\xff\x0f.", "place 268435455 of the memo"),  # nine bytes that took 4.1 GB
        (b"\x80\x02" + b")" + b"\x85" * 1_000_000 + b".", "more than 500 lists, tuples"),  # ended the process
        (b"\x80\x02}" + b")" + b"\x85" * 3000 + b"Ns.", "more than 500 lists, tuples"),  # a key nested 3,000 deep
        (b"\x80\x04]" * 3000 + b".", "more than 500 lists, tuples"),
        (b"\x80\x02\x8b\x00\x10\x00\x00" + b"\x7f" * 4096 + b".", "a number of more than 400 bytes"),
        (b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\x00\x00N.", "frame"),
        (b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\x00\x00N.", "not a CIFAR-100 file"),  # a string of 2^56 bytes
    ],
)
def test_pickles_are_counted_before_they_are_built(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "train"
    path.write_bytes(content)
    with pytest.raises(DamagedFileError, match=message) as caught:
        read_pickle(path)
    assert "\n" not in str(caught.value)
    assert memory_of(lambda: read_pickle(path)) < 20e6


def test_labels_of_many_digits_are_one_line(tmp_path: Path) -> None:
    settings = write_python(tmp_path, fine_labels=[10**30] * 5)
    with pytest.raises(DamagedFileError, match="labels of many digits; expected 0 to 99"):
        load_dataset(settings)


def test_a_file_of_other_content_is_said_and_another_packing_is_not(tmp_path: Path, monkeypatch: Any) -> None:
    settings = write_python(tmp_path)
    data = load_dataset(settings)
    assert len(data.notes) == 2
    monkeypatch.setattr(cifar, "CONTENT", {"train": data.train.fingerprint, "test": data.test.fingerprint})
    for protocol in (3, 4):  # other bytes of the same content
        for name in ("train", "test"):
            path = tmp_path / "cifar-100-python" / name
            pixels, labels = split(name)
            path.write_bytes(pickle.dumps({b"data": pixels, b"fine_labels": labels}, protocol=protocol))
        assert load_dataset(settings).notes == ()
