"""A bank of frozen features: one table of exact samples, and one of the samples as each codec stores them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from remem.codecs.codec import Arrays
from remem.codecs.table import RAW
from remem.data.bank import Bank
from remem.data.source import ArraySource
from remem.types import IntArray, Values

Features = NDArray[np.float32]  # (n, d)


@dataclass(frozen=True)
class CodedFeatures:
    """The features of decoded samples, and the bytes that the samples cost."""

    features: Features
    sizes: IntArray  # (n,)


class FeatureBank(Bank):
    """Keeping a row by a codec means that it is read from that codec's table. What is billed are the samples.

    A sample that is encoded again at another rung is taken from that rung's table, as if it were encoded once.
    """

    def __init__(self, exact: Features, tables: Mapping[str, CodedFeatures], stored_shape: tuple[int, ...]) -> None:
        super().__init__(ArraySource(exact, np.zeros(len(exact), np.int64)))
        self._exact, self._tables, self._stored_shape = exact, dict(tables), stored_shape
        self._kept: dict[str, set[int]] = {}

    @property
    def stored_shape(self) -> tuple[int, ...]:
        return self._stored_shape

    @property
    def stored_bytes(self) -> int:
        return int(np.prod(self._stored_shape, dtype=np.int64)) * (1 if len(self._stored_shape) == 3 else 4)

    @property
    def has_files(self) -> bool:
        return True  # whether the samples are files was checked where the features were computed

    def fresh_copy(self) -> "FeatureBank":
        return FeatureBank(self._exact, self._tables, self._stored_shape)

    def table(self, codec: str) -> Features:
        """The features of all rows as stored by a codec."""
        return self._exact if codec not in self._tables else self._tables[codec].features

    def read(self, rows: IntArray) -> Values:
        values = super().read(rows)
        for codec, kept in self._kept.items():
            places = [place for place, row in enumerate(rows.tolist()) if row in kept]
            values[places] = self.table(codec)[rows[places]]
        return values

    def keep(self, rows: IntArray, codec: str) -> IntArray:
        self.drop(rows)
        if codec != RAW:
            self._kept.setdefault(codec, set()).update(rows.tolist())
        return self.measure(rows, codec)

    def drop(self, rows: IntArray) -> None:
        super().drop(rows)
        for kept in self._kept.values():
            kept.difference_update(rows.tolist())

    def measure(self, rows: IntArray, codec: str) -> IntArray:
        if codec in self._tables:
            return self._tables[codec].sizes[rows]
        return np.full(len(rows), self.stored_bytes, np.int64)

    def code_state(self, rows: IntArray, codec: str) -> dict[str, NDArray[Any]]:
        return {}

    def restore_codes(self, arrays: Arrays, rows: IntArray, codec: str) -> None:
        self._kept = {}
        self.keep(rows, codec)
