"""batches.py: complete epochs, no batch of one, equal shards, and a reader thread that ends with its consumer."""

import math
import threading
from collections.abc import Iterator

import numpy as np
import pytest

from remem.data import batches as module
from remem.data.batches import batches, prefetched, shard
from remem.errors import InputError
from remem.types import IntArray, Samples, Values


def made(count: int) -> Samples:
    rows = np.arange(count, dtype=np.int64) + 100
    return Samples(rows, rows % 7)


def rows_of(parts: Iterator[Samples]) -> list[list[int]]:
    return [part.rows.tolist() for part in parts]


def test_in_order_without_a_generator() -> None:
    assert rows_of(batches(made(7), 3, None)) == [[100, 101, 102], [103, 104, 105, 106]]
    assert rows_of(batches(made(8), 3, None)) == [[100, 101, 102], [103, 104, 105], [106, 107]]
    assert rows_of(batches(made(0), 3, None)) == []
    assert rows_of(batches(made(1), 3, None)) == [[100]]  # nothing to merge with


@pytest.mark.parametrize("count", [2, 9, 10, 11, 64, 65])
def test_shuffled_epoch_holds_every_sample_once(count: int) -> None:
    parts = list(batches(made(count), 5, np.random.default_rng(0)))
    rows = np.concatenate([part.rows for part in parts])
    assert sorted(rows.tolist()) == list(range(100, 100 + count))
    assert all(np.array_equal(part.labels, part.rows % 7) for part in parts)
    assert min(len(part) for part in parts) >= 2
    assert max(len(part) for part in parts) <= 6


def test_order_comes_from_the_generator_alone() -> None:
    first, second, other = (rows_of(batches(made(50), 8, np.random.default_rng(s))) for s in (1, 1, 2))
    assert first == second
    assert first != other
    assert first != rows_of(batches(made(50), 8, None))


@pytest.mark.parametrize("count", [64, 65, 66, 67, 68, 69, 72])
@pytest.mark.parametrize("world", [2, 3, 4])
def test_ranks_share_the_same_global_batches(count: int, world: int) -> None:
    parts = list(batches(made(count), 16, np.random.default_rng(4), world=world))
    shards = [[part.take(shard(len(part), rank, world)) for part in parts] for rank in range(world)]
    alone = [part.rows for part in batches(made(count), 16, np.random.default_rng(4))]
    if len(alone[-1]) < 2 * world:  # too few for two samples per rank
        alone = [*alone[:-2], np.concatenate(alone[-2:])]
    assert len(parts) == len(alone)
    for step, whole in enumerate(alone):
        slices = [own[step].rows for own in shards]
        assert np.concatenate(slices).tolist() == whole.tolist()
        sizes = [len(s) for s in slices]
        assert min(sizes) >= 2
        assert max(sizes) - min(sizes) <= 1


def test_impossible_sizes_are_refused() -> None:
    with pytest.raises(InputError, match="batch size: 1 given, at least 2"):
        batches(made(9), 1, None)
    with pytest.raises(InputError, match="batch size: 7 given, at least 8"):
        batches(made(90), 7, None, world=4)
    with pytest.raises(InputError, match="samples: 5 given, at least 8"):
        batches(made(5), 16, None, world=4)


class RecordingReader:
    """Returns rows as values, records the first row of every read, and fails at row `bad`."""

    def __init__(self, bad: int = -1) -> None:
        self.bad = bad
        self.begun: list[int] = []
        self.threads: set[str] = set()
        self.step = threading.Event()

    def read(self, rows: IntArray) -> Values:
        self.begun.append(int(rows[0]))
        self.threads.add(threading.current_thread().name)
        self.step.set()
        if self.bad in rows:
            raise OSError(f"row {self.bad} is broken")
        return rows[:, None].astype(np.float32)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every read counts as slow enough for a thread."""
    monkeypatch.setattr(module, "HAND_OVER", 0.0)


def test_quick_batches_are_read_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HAND_OVER", math.inf)
    reader = RecordingReader(bad=109)
    stream = prefetched(reader, batches(made(40), 4, None))
    assert [next(stream)[0][0, 0] for _ in range(2)] == [100, 104]
    assert reader.begun == [100, 104]  # nothing is read ahead
    with pytest.raises(OSError, match="row 109 is broken"):
        next(stream)
    assert reader.threads == {threading.current_thread().name}


def test_prefetched_keeps_the_order(slow: None) -> None:
    before = threading.active_count()
    reader = RecordingReader()
    got = list(prefetched(reader, batches(made(30), 4, np.random.default_rng(0))))
    expected = list(batches(made(30), 4, np.random.default_rng(0)))
    assert [values[:, 0].tolist() for values, _ in got] == [part.rows.tolist() for part in expected]
    assert [labels.tolist() for _, labels in got] == [part.labels.tolist() for part in expected]
    assert len(reader.threads - {threading.current_thread().name}) == 1  # the first batch is read in this thread
    assert threading.active_count() == before


def test_prefetched_reads_one_batch_ahead_and_stops_with_its_consumer(slow: None) -> None:
    before = threading.active_count()
    reader = RecordingReader()
    stream = prefetched(reader, batches(made(40), 4, None))
    next(stream)
    reader.step.clear()
    next(stream)  # requests the third batch before it returns the second
    assert reader.step.wait(5)
    assert reader.begun in ([100, 104], [100, 104, 108])
    assert threading.active_count() == before + 1
    stream.close()  # type: ignore[attr-defined]  # as when a loop is left early
    assert threading.active_count() == before
    assert max(reader.begun) <= 108


def test_prefetched_passes_exceptions_on_in_their_place(slow: None) -> None:
    before = threading.active_count()
    stream = prefetched(RecordingReader(bad=109), batches(made(40), 4, None))
    assert next(stream)[0][0, 0] == 100
    assert next(stream)[0][0, 0] == 104
    with pytest.raises(OSError, match="row 109 is broken"):
        next(stream)
    assert threading.active_count() == before


def test_prefetched_passes_on_exceptions_of_the_batches(slow: None) -> None:
    def broken() -> Iterator[Samples]:
        yield made(3)
        raise ValueError("no more")

    before = threading.active_count()
    with pytest.raises(ValueError, match="no more"):
        list(prefetched(RecordingReader(), broken()))
    assert threading.active_count() == before


def test_prefetched_nothing() -> None:
    assert list(prefetched(RecordingReader(), iter([]))) == []
