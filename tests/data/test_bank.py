"""Banks: read-only source rows, and owned rows that are freed when dropped."""

import gc
import weakref

import numpy as np
import pytest

from remem.data.bank import Bank
from remem.data.source import ArraySource
from remem.errors import NotHeldError

VALUES = np.arange(3 * 2 * 2 * 1, dtype=np.uint8).reshape(3, 2, 2, 1)
NEW = np.full((4, 2, 2, 1), [[[[100]]], [[[101]]], [[[102]]], [[[103]]]], dtype=np.uint8)


def make() -> Bank:
    return Bank(ArraySource(VALUES, np.zeros(3, dtype=np.int64)))


def ints(*numbers: int) -> np.ndarray:
    return np.array(numbers, dtype=np.int64)


def test_properties() -> None:
    bank = make()
    assert bank.shape == (2, 2, 1)
    assert bank.row_bytes == 4
    vectors = Bank(ArraySource(np.zeros((2, 5), dtype=np.float32), np.zeros(2, dtype=np.int64)))
    assert vectors.row_bytes == 20
    assert vectors.fingerprint != bank.fingerprint


def test_owned_rows_follow_the_source() -> None:
    bank = make()
    assert bank.own(NEW[:2]).tolist() == [3, 4]
    assert bank.own(NEW[2:]).tolist() == [5, 6]
    mixed = bank.read(ints(5, 0, 3, 2, 0))
    assert np.array_equal(mixed, np.stack([NEW[2], VALUES[0], NEW[0], VALUES[2], VALUES[0]]))
    assert bank.read(ints()).shape == (0, 2, 2, 1)
    assert bank.read(ints(2, 1)).tolist() == VALUES[[2, 1]].tolist()


def test_dropped_rows_raise_and_their_numbers_do_not_return() -> None:
    bank = make()
    rows = bank.own(NEW)
    bank.drop(np.concatenate([rows[1:], ints(0)]))
    assert np.array_equal(bank.read(ints(0, 3)), np.stack([VALUES[0], NEW[0]]))  # source rows cannot be dropped
    for row in (4, 6, 7, -1):
        with pytest.raises(NotHeldError, match=f"row {row} "):
            bank.read(ints(0, row))
    assert bank.own(NEW[:1]).tolist() == [7]


def test_dropped_values_are_freed_one_by_one() -> None:
    bank = make()
    rows = bank.own(NEW)
    watched = weakref.ref(bank.owned()[int(rows[1])])
    assert watched() is not None
    bank.drop(rows[1:2])
    gc.collect()
    assert watched() is None
    assert all(value.base is None for value in bank.owned().values())  # no row keeps the batch alive


def test_the_bank_keeps_copies() -> None:
    bank = make()
    mine = NEW.copy()
    rows = bank.own(mine)
    mine[:] = 0
    read = bank.read(rows)
    read[:] = 0
    bank.read(ints(0))[:] = 77
    assert np.array_equal(bank.read(rows), NEW)
    assert np.array_equal(bank.read(ints(0)), VALUES[:1])
    with pytest.raises(ValueError, match="read-only"):
        bank.owned()[3][:] = 0


def test_values_of_another_shape_or_type_are_refused() -> None:
    with pytest.raises(ValueError, match="expected"):
        make().own(np.zeros((1, 2, 2, 3), dtype=np.uint8))
    with pytest.raises(ValueError, match="expected"):
        make().own(np.zeros((1, 2, 2, 1), dtype=np.float32))


def test_a_restored_bank_continues_like_the_original() -> None:
    bank = make()
    bank.drop(bank.own(NEW)[2:])
    other = make()
    other.own(NEW[:1])
    other.restore_owned(bank.owned(), bank.next_row)
    assert other.owned().keys() == {3, 4}
    assert np.array_equal(other.read(ints(4, 1)), bank.read(ints(4, 1)))
    assert other.own(NEW[:1]).tolist() == bank.own(NEW[:1]).tolist() == [7]
    other.restore_owned({})
    assert other.next_row == 3
    with pytest.raises(ValueError, match="does not fit"):
        other.restore_owned({1: NEW[0]})


def test_an_empty_source_serves_a_stream() -> None:
    bank = Bank(ArraySource(np.empty((0, 2), dtype=np.float32), np.empty(0, dtype=np.int64)))
    rows = bank.own(np.ones((2, 2), dtype=np.float32))
    assert rows.tolist() == [0, 1]
    assert bank.read(rows).tolist() == [[1.0, 1.0], [1.0, 1.0]]
