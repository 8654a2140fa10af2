"""The values that packages hand to each other: frozen dataclasses with plain arithmetic only, no torch."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from remem.action import Decision

IntArray = NDArray[np.int64]
Values = NDArray[Any]  # (n, h, w, c) uint8 images or (n, d) float32 vectors
Json = dict[str, Any]  # a JSON object


class Reader(Protocol):
    """Whatever turns row numbers into samples: a bank, or a view of it that raises on rows that are not held."""

    def read(self, rows: IntArray) -> Values: ...


@dataclass(frozen=True)
class Samples:
    """Rows of a bank with the class of each; classes are positions in the class order."""

    rows: IntArray  # (n,)
    labels: IntArray  # (n,)

    def __len__(self) -> int:
        return len(self.rows)

    def of(self, classes: Collection[int]) -> "Samples":
        """Those of some classes, in the same order."""
        return self.take(np.isin(self.labels, list(classes)))

    def take(self, places: NDArray[Any] | slice) -> "Samples":
        """Those at some places, or where a mask is true."""
        return Samples(self.rows[places], self.labels[places])

    def with_(self, others: "Samples") -> "Samples":
        """These, then the others."""
        return Samples(np.concatenate([self.rows, others.rows]), np.concatenate([self.labels, others.labels]))


EMPTY = Samples(np.empty(0, np.int64), np.empty(0, np.int64))


def joined(parts: Iterable[Samples]) -> Samples:
    """All parts, one after another."""
    rows, labels = zip(*((part.rows, part.labels) for part in (EMPTY, *parts)), strict=True)
    return Samples(np.concatenate(rows), np.concatenate(labels))


@dataclass(frozen=True)
class Phase:
    """What one phase brings: its classes, their training rows, and the samples, if any, to evaluate on."""

    index: int
    classes: tuple[int, ...]  # positions in the class order, ascending
    train: Mapping[int, IntArray]  # class -> rows of the training bank
    eval_samples: Samples = EMPTY  # rows of the evaluation bank: test data, or validation data cut from training

    @property
    def arriving(self) -> int:
        return sum(len(rows) for rows in self.train.values())


@dataclass(frozen=True)
class Group:
    """The harder and the easier half of one phase's classes, and the split they keep from then on (protocol 2.3)."""

    hard: tuple[int, ...]
    easy: tuple[int, ...]
    level2_tenths: int = 5

    @property
    def classes(self) -> tuple[int, ...]:
        return tuple(sorted(self.hard + self.easy))


@dataclass(frozen=True)
class Allocation:
    """Quotas of one phase, in samples, by class."""

    budget: int
    decision: Decision | None  # None where a method keeps no exemplars, so that there is nothing to decide
    old: Mapping[int, int]
    new: Mapping[int, int]
    rung: int = 0  # how the samples of the phase are stored, as a place in the ladder of codecs


@dataclass(frozen=True)
class Predictions:
    """Predicted classes of the evaluation samples of all seen classes, by both readouts where they exist."""

    labels: IntArray  # (n,)
    cnn: IntArray  # (n,)
    nme: IntArray | None  # None where a seen class has no held sample to take a mean of


@dataclass(frozen=True)
class PhaseResult:
    """Everything that one phase reports; accuracies are fractions, `accuracy` that of the method's own head."""

    phase: int
    classes_seen: int
    accuracy: float
    accuracy_cnn: float
    accuracy_nme: float | None
    accuracy_by_phase: tuple[float, ...]
    accuracy_old: float | None  # None in phase 0
    accuracy_new: float
    accuracy_per_class: Mapping[int, float]
    decision: Decision | None  # None where no action was taken
    budget: int | None
    held_old: int
    held_new: int
    held_per_class: Mapping[int, int]
    measures: Mapping[str, tuple[float, ...]]  # numbers of the method's own, such as AANets' branch weights
    seconds: Mapping[str, float]
    predictions: Predictions
    codec: str | None = None  # None where samples are counted and stored as they are
    budget_bytes: int | None = None  # None where the budget is in samples
    held_bytes: int | None = None  # as stored; None with `codec`
