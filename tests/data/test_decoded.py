"""Decoded chunk files: written atomically, rebuilt when damaged, equal to their source."""

import errno
import shutil
from pathlib import Path

import numpy as np
import pytest

from remem.data import decoded as module
from remem.data.decoded import DecodedSource
from remem.data.source import ArraySource
from remem.types import IntArray, Values

VALUES = np.random.default_rng(0).integers(0, 256, (25, 2, 2, 3), dtype=np.uint8)
ALL = np.arange(25)


class Counting(ArraySource):
    """Counts the decoded rows and is interrupted after `patience` rows."""

    def __init__(self, patience: int = 10**9) -> None:
        super().__init__(VALUES, np.zeros(len(VALUES), dtype=np.int64))
        self.decoded = 0
        self.patience = patience

    def read(self, rows: IntArray) -> Values:
        self.decoded += len(rows)
        if self.decoded > self.patience:
            raise KeyboardInterrupt
        return super().read(rows)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK_BYTES", 12 * 7)  # 7 rows: chunks of 7, 7, 7, 4
    monkeypatch.setattr(module, "SLICE_BYTES", 12 * 3)


def test_rows_equal_the_source(tmp_path: Path) -> None:
    source = Counting()
    made = DecodedSource(source, tmp_path / "a")
    made.fill()
    assert source.decoded == 25
    assert len(list((tmp_path / "a").iterdir())) == 4
    rows = np.array([24, 0, 7, 6, 6, 13])
    assert np.array_equal(made.read(rows), VALUES[rows])
    assert made.read(np.array([], dtype=np.int64)).shape == (0, 2, 2, 3)
    assert source.decoded == 25
    assert made.fingerprint == source.fingerprint


def test_number_of_chunks_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_CHUNKS", 2)
    made = DecodedSource(Counting(), tmp_path)
    made.fill()
    assert len(list(tmp_path.iterdir())) == 2
    assert np.array_equal(made.read(ALL), VALUES)


def test_an_interrupted_fill_is_resumed(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        DecodedSource(Counting(patience=16), tmp_path).fill()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["00000.npy", "00001.npy"]
    again = Counting()
    made = DecodedSource(again, tmp_path)
    made.fill()
    assert again.decoded == 25 - 14
    assert np.array_equal(made.read(ALL), VALUES)


def test_damaged_chunks_are_rebuilt(tmp_path: Path) -> None:
    DecodedSource(Counting(), tmp_path).fill()
    (tmp_path / "00001.npy").write_bytes((tmp_path / "00001.npy").read_bytes()[:-5])
    (tmp_path / "00002.npy").write_bytes(b"")
    np.save(tmp_path / "00003.npy", VALUES[:2])
    again = Counting()
    made = DecodedSource(again, tmp_path)
    made.fill()
    assert again.decoded == 7 + 7 + 4
    assert np.array_equal(made.read(ALL), VALUES)


def test_an_emptied_cache_falls_back_to_the_source(tmp_path: Path) -> None:
    DecodedSource(Counting(), tmp_path / "a").fill()
    fresh = DecodedSource(Counting(), tmp_path / "a")
    shutil.rmtree(tmp_path / "a")
    assert np.array_equal(fresh.read(ALL), VALUES)


def test_a_full_disk_raises_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=100)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(OSError, match="free space") as caught:
        DecodedSource(Counting(), tmp_path).fill()
    assert caught.value.errno == errno.ENOSPC
    assert list(tmp_path.iterdir()) == []


def test_every_damaged_byte_of_a_chunk_is_noticed(tmp_path: Path) -> None:
    """A chunk that does not match its digest is decoded again, so that no other pixels are ever read."""
    source = ArraySource(np.arange(4 * 2 * 2 * 3, dtype=np.uint8).reshape(4, 2, 2, 3), np.arange(4))
    DecodedSource(source, tmp_path).fill()
    (chunk,) = tmp_path.glob("*.npy")
    content = chunk.read_bytes()
    for place in range(len(content)):
        damaged = bytearray(content)
        damaged[place] ^= 1
        chunk.write_bytes(bytes(damaged))
        assert np.array_equal(DecodedSource(source, tmp_path).read(np.arange(4)), source.values)
    chunk.write_bytes(content[:-32])  # as earlier versions wrote it
    DecodedSource(source, tmp_path).fill()
    assert chunk.read_bytes() == content
