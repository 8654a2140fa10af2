"""The held rows by class and their bytes. Every load checks the budget; a view raises on rows that are not held."""

from collections.abc import Mapping
from typing import Self

import numpy as np
from numpy.typing import NDArray

from remem.errors import BudgetError, DamagedFileError, NotHeldError
from remem.fences import fenced
from remem.types import IntArray, Reader, Samples, Values, joined

_UNSEEN, _HELD, _FREED = 0, 1, 2
_NO_BOUND = -1  # None in exported states, which are int64


class Memory:
    """Held rows of each class, ranked best first once the class is old, so that shrinking is slicing."""

    def __init__(self) -> None:
        self._rows: dict[int, IntArray] = {}
        self._ranked: set[int] = set()
        self._status: NDArray[np.uint8] = np.zeros(1, np.uint8)  # by row number; grows with the largest row
        self._bytes: IntArray = np.zeros(1, np.int64)  # by row number, as stored; 0 where bytes are not counted
        self._total = self._total_bytes = 0
        self._bound: int | None = None
        self._byte_bound: int | None = None
        self._peak = self._byte_peak = 0

    @property
    def total(self) -> int:
        return self._total

    @property
    def bound(self) -> int | None:
        return self._bound

    @property
    def peak(self) -> int:
        """The most samples held at the same time since the first bound was set."""
        return self._peak

    @property
    def total_bytes(self) -> int:
        """The bytes that are stored for all held rows."""
        return self._total_bytes

    @property
    def byte_peak(self) -> int:
        """The most bytes held at the same time since the first bound was set."""
        return self._byte_peak

    def counts(self) -> dict[int, int]:
        return {label: len(self._rows[label]) for label in sorted(self._rows)}

    def rows(self, label: int) -> IntArray:
        """The held rows of a class, in stored order."""
        return self._rows[label].copy()

    def best(self, quotas: Mapping[int, int]) -> Samples:
        """The first rows of each class up to its quota, class after class."""
        parts = ((label, self._rows[label][:quota]) for label, quota in quotas.items())
        return joined(Samples(rows, np.full(len(rows), label)) for label, rows in parts)

    def samples(self) -> Samples:
        """All held samples, in class order, then in stored order."""
        counts = self.counts()
        rows = [self._rows[label] for label in counts]
        labels = np.repeat(np.array(list(counts), np.int64), np.array(list(counts.values()), np.int64))
        return Samples(np.concatenate(rows) if rows else np.empty(0, np.int64), labels)

    def holds(self, rows: IntArray) -> NDArray[np.bool_]:
        known = (rows >= 0) & (rows < len(self._status))
        held: NDArray[np.bool_] = known & (self._status[np.where(known, rows, 0)] == _HELD)
        return held

    def open(self, bound: int | None, byte_bound: int | None = None) -> None:
        """Sets the bounds. None is allowed only before the first bound, since only phase 0 is exempt."""
        for what, before, after in (("samples", self._bound, bound), ("bytes", self._byte_bound, byte_bound)):
            if after is None and before is not None:
                raise BudgetError(f"the budget of {before} {what} cannot be lifted: only phase 0 is exempt")
        _require_within(bound, self._total, f"{self._total} samples are held")
        _require_within(byte_bound, self._total_bytes, f"{self._total_bytes} bytes are held")
        self._bound, self._byte_bound = bound, byte_bound
        self._note_peak()

    def load(self, label: int, rows: IntArray, sizes: IntArray | None = None) -> None:
        """Adds rows of a new class, and the bytes that are stored for each.

        Raises if a bound would be exceeded or a row was held before.
        """
        rows = np.array(rows, np.int64)
        stored = 0 if sizes is None else int(sizes.sum())
        if sizes is not None and len(sizes) != len(rows):
            raise ValueError(f"{len(sizes)} sizes for {len(rows)} rows of class {label}")
        samples, total = self._total + len(rows), self._total_bytes + stored
        loading = f"loading {len(rows)} samples of class {label} would hold"
        _require_within(self._bound, samples, f"{loading} {samples} at the same time")
        _require_within(self._byte_bound, total, f"{loading} {total} bytes at the same time")
        if label in self._ranked:
            raise ValueError(f"class {label} is ranked already: old classes never return")
        self._take(rows)
        self._rows[label] = np.concatenate([self._rows.get(label, np.empty(0, np.int64)), rows])
        if sizes is not None:
            self._bytes[rows] = sizes
        self._total += len(rows)
        self._total_bytes += stored
        self._note_peak()

    def reopen(self, label: int) -> None:
        """Lets more rows of an old class in (protocol 7). It must be ranked again, over all that it then holds."""
        self._ranked.discard(label)

    def lift(self) -> None:
        """Takes the bounds away, for a user who sets another budget. `open` must follow before anything is loaded."""
        self._bound = self._byte_bound = None

    def discard(self, rows: IntArray) -> None:
        """Frees single rows wherever they are ranked, because the user wants them deleted."""
        gone = rows[self.holds(rows)]
        for label, held in self._rows.items():
            self._rows[label] = held[~np.isin(held, gone)]
        self._free(gone)

    def relabel(self, labels: Mapping[int, int]) -> None:
        """Gives every class another number. Classes that are left out must hold nothing."""
        if lost := sum(len(rows) for label, rows in self._rows.items() if label not in labels):
            raise ValueError(f"{lost} held rows would lose their class")
        self._rows = {labels[label]: rows for label, rows in self._rows.items() if label in labels}
        self._ranked = {labels[label] for label in self._ranked if label in labels}

    def resize(self, rows: IntArray, sizes: IntArray) -> None:
        """Notes that held rows are stored in another form, and the bytes that each costs now."""
        if not self.holds(rows).all():
            raise NotHeldError("a row that is not held cannot be stored in another form")
        stored = self._total_bytes + int(sizes.sum() - self._bytes[rows].sum())
        _require_within(self._byte_bound, stored, f"{stored} bytes would be held")
        self._bytes[rows] = sizes
        self._total_bytes = stored
        self._note_peak()

    def sizes(self, rows: IntArray) -> IntArray:
        """The bytes that are stored for each of some held rows."""
        return self._bytes[rows]

    def rank(self, label: int, order: IntArray) -> None:
        """Orders the rows of a class, best first; possible only once. `order` has positions in stored order."""
        rows = self._rows[label]
        if label in self._ranked:
            raise ValueError(f"class {label} is ranked already, and a ranking never changes")
        if not np.array_equal(np.sort(order), np.arange(len(rows))):
            raise ValueError(f"the order of class {label} is not a permutation of its {len(rows)} held rows")
        self._rows[label] = rows[order]
        self._ranked.add(label)

    def cut(self, quotas: Mapping[int, int]) -> IntArray:
        """Keeps the best rows of each class up to its quota. Returns the freed rows, which cannot be loaded again."""
        for label, quota in quotas.items():
            held = len(self._rows[label])
            if not 0 <= quota <= held:
                raise ValueError(f"class {label} holds {held} rows, which cannot be cut to {quota}")
            if 0 < quota < held and label not in self._ranked:
                raise ValueError(f"class {label} must be ranked before it is cut")
        freed = [self._rows[label][quota:] for label, quota in quotas.items()]
        for label, quota in quotas.items():
            self._rows[label] = self._rows[label][:quota].copy()
        rows = np.concatenate(freed) if freed else np.empty(0, np.int64)
        self._free(rows)
        return rows

    def replace(self, label: int, old_row: int, new_row: int, size: int | None = None) -> None:
        """Replaces a row by its refined version at the same rank, and frees the original.

        The new one may have another size. Raises if the bound in bytes would be exceeded.
        """
        places = np.flatnonzero(self._rows[label] == old_row)
        if not len(places):
            raise NotHeldError(f"row {old_row} of class {label} is not held, so nothing can replace it")
        stored = self._replaced_bytes(old_row, size)
        _require_within(self._byte_bound, stored, f"replacing row {old_row} would hold {stored} bytes")
        self._take(np.array([new_row], np.int64))
        self._rows[label][places[0]] = new_row
        self._status[old_row] = _FREED
        self._bytes[new_row] = self._bytes[old_row] if size is None else size
        self._total_bytes = stored
        self._note_peak()

    def can_replace(self, old_row: int, size: int | None = None) -> bool:
        """Whether the bound in bytes leaves room for another version of a held row, of this size."""
        return self._byte_bound is None or self._replaced_bytes(old_row, size) <= self._byte_bound

    def _replaced_bytes(self, old_row: int, size: int | None) -> int:
        return self._total_bytes if size is None else self._total_bytes + size - int(self._bytes[old_row])

    def _free(self, rows: IntArray) -> None:
        self._status[rows] = _FREED
        self._total -= len(rows)
        self._total_bytes -= int(self._bytes[rows].sum())

    def _take(self, rows: IntArray) -> None:
        """Marks rows as held. Raises if one was held before."""
        if not len(rows):
            return
        if rows.min() < 0 or len(np.unique(rows)) < len(rows):
            raise ValueError("rows to load must be distinct and not negative")
        if rows.max() >= len(self._status):
            grown = np.zeros(max(2 * len(self._status), int(rows.max()) + 1), np.uint8)
            grown[: len(self._status)] = self._status
            self._status = grown
            self._bytes = np.append(self._bytes, np.zeros(len(grown) - len(self._bytes), np.int64))
        taken = np.flatnonzero(self._status[rows] != _UNSEEN)
        if len(taken):
            row = int(rows[taken[0]])
            raise NotHeldError(
                f"row {row} is held already" if self._status[row] == _HELD else f"row {row} was freed and is gone"
            )
        self._status[rows] = _HELD

    def _note_peak(self) -> None:
        if self._bound is not None:
            self._peak = max(self._peak, self._total)
            self._byte_peak = max(self._byte_peak, self._total_bytes)

    def state(self) -> dict[str, IntArray]:
        """Returns the complete state as int64 arrays."""
        counts = self.counts()
        bits = np.packbits(self._status == _FREED, bitorder="little")
        words = np.zeros(-(-len(bits) // 8) * 8, np.uint8)
        words[: len(bits)] = bits
        state = {
            "labels": np.array(list(counts), np.int64),
            "counts": np.array(list(counts.values()), np.int64),
            "rows": self.samples().rows,
            "ranked": np.array(sorted(self._ranked), np.int64),
            "freed": np.trim_zeros(words.view("<i8").astype(np.int64), "b"),  # one bit per row number
            "bound": np.array([_NO_BOUND if self._bound is None else self._bound, self._peak], np.int64),
        }
        if self._total_bytes:  # bytes are counted
            bound = _NO_BOUND if self._byte_bound is None else self._byte_bound
            state["byte_bound"] = np.array([bound, self._byte_peak], np.int64)
        return state

    @classmethod
    def from_state(cls, state: Mapping[str, IntArray], sizes: IntArray | None = None) -> Self:
        """Restores a memory from `state()`. `sizes` has the bytes of each row, which its codes tell."""
        memory = cls()
        try:
            bits = np.unpackbits(state["freed"].astype("<i8").view(np.uint8), bitorder="little")
            memory._status = np.append(bits * np.uint8(_FREED), np.uint8(_UNSEEN))
            counts = state["counts"].tolist()
            if min(counts, default=0) < 0 or sum(counts) != len(state["rows"]):
                raise ValueError("rows and counts do not match")
            memory._bytes = np.zeros(len(memory._status), np.int64)
            sizes = np.zeros(len(state["rows"]), np.int64) if sizes is None else sizes
            parts = (np.split(values, np.cumsum(state["counts"]))[:-1] for values in (state["rows"], sizes))
            for label, rows, own in zip(state["labels"].tolist(), *parts, strict=True):
                memory.load(label, rows, own)
            memory._ranked = set(state["ranked"].tolist())
            bound, memory._peak = state["bound"].tolist()
            byte_bound, memory._byte_peak = state.get("byte_bound", np.array([_NO_BOUND, 0])).tolist()
            memory.open(*(None if value == _NO_BOUND else value for value in (bound, byte_bound)))
        except (KeyError, ValueError, BudgetError, NotHeldError) as error:
            raise DamagedFileError(f"memory state: {error}") from error
        return memory


def _require_within(bound: int | None, amount: int, what: str) -> None:
    """The budget's check: plain code that no flag and no `python -O` removes."""
    if bound is not None and amount > bound:
        raise BudgetError(f"{what}, but the budget is {bound}")


class HeldView:
    """A reader of held rows only (protocol 1: learners see nothing else). No attribute leads to the others."""

    __slots__ = ("_read",)

    def __init__(self, memory: Memory, reader: Reader) -> None:
        def read(rows: IntArray) -> Values:
            held = memory.holds(rows)
            if not held.all():
                raise NotHeldError(f"row {int(rows[np.argmin(held)])} is not held")
            return reader.read(rows)

        self._read = fenced(read)

    def read(self, rows: IntArray) -> Values:
        values: Values = self._read(rows)
        return values
