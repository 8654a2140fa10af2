"""A bank: the rows of one split by number. Source rows are read-only; owned rows can be added and dropped.

Rows that are held can be stored by a codec. From then on the bank has only their codes, and reading decodes them.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from remem.codecs.codec import Arrays, Codec, bill, code_arrays, codes_from
from remem.codecs.table import CODECS, RAW
from remem.data.source import ArraySource, FileSource, Source
from remem.errors import NotHeldError
from remem.types import IntArray, Values

SLICE = 1024  # rows that are encoded at a time


class Bank:
    """Rows 0..n-1 belong to the source; streamed samples and refined images get numbers from n up, never reused."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._source_rows = len(source.labels)
        self._owned: dict[int, Values] = {}
        self._codes: dict[str, dict[int, bytes]] = {}  # codec -> row -> code
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
    def stored_shape(self) -> tuple[int, ...]:
        """Shape of the samples that codecs store."""
        return self.shape

    @property
    def stored_bytes(self) -> int:
        """Bytes of one sample as it is."""
        return self.row_bytes

    @property
    def has_files(self) -> bool:
        """Whether rows are image files, which the codec `file` needs."""
        return isinstance(self._source, FileSource)

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
        return self._read_coded(rows) if self._codes else self._read_plain(rows)

    def _read_coded(self, rows: IntArray) -> Values:
        """Decodes the rows that have codes; a batch is a working copy."""
        numbers = rows.tolist()
        plain = np.ones(len(rows), np.bool_)
        values: Values | None = None
        for name, codes in self._codes.items():
            places = [place for place, row in enumerate(numbers) if row in codes]
            if not places:
                continue
            decoded = CODECS[name].decode([codes[numbers[place]] for place in places], self.shape)
            if len(places) == len(rows):
                return decoded
            values = np.empty((len(rows), *self.shape), dtype=self.dtype) if values is None else values
            values[places], plain[places] = decoded, False
        if values is None:
            return self._read_plain(rows)
        if plain.any():
            values[plain] = self._read_plain(rows[plain])
        return values

    def _read_plain(self, rows: IntArray) -> Values:
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
        """Frees owned rows and codes; source rows are not affected."""
        for row in np.asarray(rows, dtype=np.int64).tolist():
            self._owned.pop(row, None)
            for codes in self._codes.values():
                codes.pop(row, None)

    def keep(self, rows: IntArray, codec: str) -> IntArray:
        """Stores rows by a codec from now on, encoded from what `read` returns. Returns the bytes that each costs."""
        if codec == RAW:
            if any(row in codes for row in rows.tolist() for codes in self._codes.values()):
                raise ValueError("a row that was stored coarsely cannot become exact again")
            return self.measure(rows, codec)
        known = self._codes.get(codec, {})
        fresh = np.array([row for row in rows.tolist() if row not in known], np.int64)
        codes = self._encode(fresh, codec)
        self.drop(fresh)  # their former codes and values
        self._codes.setdefault(codec, {}).update(zip(fresh.tolist(), codes, strict=True))
        self._codes = {name: own for name, own in self._codes.items() if own}
        return self.measure(rows, codec)

    def measure(self, rows: IntArray, codec: str) -> IntArray:
        """Returns the bytes that each row costs, or would cost, by a codec."""
        chosen = CODECS[codec]
        size = chosen.size(self.stored_shape)
        if size is not None:
            return np.full(len(rows), size, np.int64)
        known = self._codes.get(codec, {})
        fresh = np.array([row for row in rows.tolist() if row not in known], np.int64)
        new = dict(zip(fresh.tolist(), self._encode(fresh, codec), strict=True))
        return bill(chosen, [known.get(row) or new[row] for row in rows.tolist()], self.shape)

    def _encode(self, rows: IntArray, codec: str) -> list[bytes]:
        chosen: Codec = CODECS[codec]
        if chosen.from_file:
            if not isinstance(self._source, FileSource) or (rows >= self._source_rows).any():
                raise ValueError(f"the codec {codec} stores the files of a folder")
            return self._source.files(rows)
        parts = np.split(rows, range(SLICE, len(rows), SLICE))
        return [code for part in parts for code in chosen.encode(self.read(part))]

    def codes(self) -> dict[str, dict[int, bytes]]:
        """The codes by codec and row."""
        return {name: dict(codes) for name, codes in self._codes.items() if codes}

    def code_state(self, rows: IntArray, codec: str) -> dict[str, NDArray[Any]]:
        """The codes of these rows, which are all that have any, as arrays."""
        return code_arrays(self._codes.get(codec, {}), rows, CODECS[codec], self.shape)

    def restore_codes(self, arrays: Arrays, rows: IntArray, codec: str) -> None:
        """Replaces all codes by those of `code_state`."""
        self._codes = {}
        if codec != RAW:
            self._codes[codec] = codes_from(arrays, rows, CODECS[codec], self.shape)

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
