"""A bank: the rows of one split by number. Source rows are read-only; owned rows can be added and dropped."""

from collections.abc import Mapping

import numpy as np

from remem.data.source import ArraySource, Source
from remem.errors import NotHeldError
from remem.types import IntArray, Values


class Bank:
    """Rows 0..n-1 belong to the source; streamed samples and refined images get numbers from n up, never reused."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._source_rows = len(source.labels)
        self._owned: dict[int, Values] = {}
        self._next = self._source_rows

    @property
    def shape(self) -> tuple[int, ...]:
        return self._source.shape

    @property
    def dtype(self) -> np.dtype[np.uint8] | np.dtype[np.float32]:
        return np.dtype(np.uint8) if len(self.shape) == 3 else np.dtype(np.float32)

    @property
    def row_bytes(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize

    @property
    def memory_bytes(self) -> int:
        """Memory used by the source's rows; 0 if they are read from files."""
        return self._source.values.nbytes if isinstance(self._source, ArraySource) else 0

    @property
    def fingerprint(self) -> str:
        """The source's fingerprint; owned rows are not part of it."""
        return self._source.fingerprint

    def fresh_copy(self) -> "Bank":
        """Another bank over the same source without owned rows; every episode has its own."""
        return Bank(self._source)

    @property
    def next_row(self) -> int:
        """The number of the next owned row. Part of a snapshot, since numbers of dropped rows are not reused."""
        return self._next

    def read(self, rows: IntArray) -> Values:
        """A new array with the values of `rows`, in their order."""
        rows = np.asarray(rows, dtype=np.int64)
        if len(rows) and rows.min() < 0:
            raise NotHeldError(f"row {rows.min()} is not in the bank")
        from_source = rows < self._source_rows
        if len(rows) and from_source.all():
            return self._source.read(rows)
        values = np.empty((len(rows), *self.shape), dtype=self.dtype)
        if from_source.any():
            values[from_source] = self._source.read(rows[from_source])
        for place in np.flatnonzero(~from_source):
            values[place] = self._owned_row(int(rows[place]))
        return values

    def _owned_row(self, row: int) -> Values:
        if row not in self._owned:
            raise NotHeldError(f"row {row} is not in the bank: it was dropped or never there")
        return self._owned[row]

    def own(self, values: Values) -> IntArray:
        """Adds copies of `values` as owned rows and returns their numbers."""
        if values.shape[1:] != self.shape or values.dtype != self.dtype:
            raise ValueError(
                f"rows of shape {values.shape[1:]} and type {values.dtype}; expected {self.shape} and {self.dtype}"
            )
        rows = np.arange(self._next, self._next + len(values), dtype=np.int64)
        self._owned.update((int(row), _read_only_copy(value)) for row, value in zip(rows, values, strict=True))
        self._next += len(values)
        return rows

    def drop(self, rows: IntArray) -> None:
        """Frees owned rows; source rows are not affected."""
        for row in np.asarray(rows, dtype=np.int64).tolist():
            self._owned.pop(row, None)

    def owned(self) -> dict[int, Values]:
        """The owned rows by number; the arrays are shared and read-only."""
        return dict(self._owned)

    def restore_owned(self, owned: Mapping[int, Values], next_row: int | None = None) -> None:
        """Replaces all owned rows; the next new row is `next_row`, or one more than the highest number."""
        for row, value in owned.items():
            if row < self._source_rows or value.shape != self.shape or value.dtype != self.dtype:
                raise ValueError(f"row {row} of shape {value.shape} and type {value.dtype} does not fit this bank")
        self._owned = {int(row): _read_only_copy(value) for row, value in owned.items()}
        lowest = max((row + 1 for row in self._owned), default=self._source_rows)
        self._next = lowest if next_row is None else max(lowest, next_row)


def _read_only_copy(value: Values) -> Values:
    """A copy of one row: a view would keep the whole array alive after other rows are dropped."""
    if value.base is None and not value.flags.writeable:
        return value
    copy = value.copy()
    copy.flags.writeable = False
    return copy
