"""The values that rooms hand to each other: frozen dataclasses, no behaviour beyond plain arithmetic, no torch."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
Values = NDArray[Any]  # (n, h, w, c) uint8 images or (n, d) float32 vectors


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


@dataclass(frozen=True)
class Phase:
    """What one phase brings: its classes, their training rows, and the rows on which the model is judged."""

    index: int
    classes: tuple[int, ...]  # positions in the class order, ascending
    train: Mapping[int, IntArray]  # class -> rows of the training bank
    judge: Samples  # rows of the judging bank (test, or validation cut from the training data)

    @property
    def arriving(self) -> int:
        return sum(len(rows) for rows in self.train.values())


@dataclass(frozen=True)
class State:
    """What a policy sees before phase i >= 1 (protocol 2.1): the paper's two fractions, counts, feasible actions."""

    phase: int
    new_classes: int
    old_classes: int
    old_tenths: int  # nominal old share of phase i-1 in tenths; 0 for i = 1
    budget: int  # M_i
    exemplars: int  # E, the part of M_i that the conventional scheme gives to old classes
    arriving: int  # training samples that the new classes bring
    feasible: tuple[int, ...]  # every feasible old share of this phase, in tenths
    splits: bool  # whether phase i-1 has two classes or more, so that level 2 has something to split

    def vector(self) -> tuple[float, float]:
        """s_i of the paper: (C_i / sum_{t<i} C_t, |M_old| / |M|)."""
        return self.new_classes / self.old_classes, self.old_tenths / 10

    @property
    def reachable(self) -> tuple[int, ...]:
        """Feasible shares that level 1 can choose: any for i = 1, a change of at most a tenth later."""
        if self.phase == 1:
            return self.feasible
        return tuple(t for t in self.feasible if abs(t - self.old_tenths) <= 1)


@dataclass(frozen=True)
class Action:
    """A policy's answer: an old share in tenths (or, for `static`, an exact number) and the level-2 split."""

    old_tenths: int | None = None
    old_total: int | None = None
    level2_tenths: int = 5


@dataclass(frozen=True)
class Decision:
    """The action as it is carried out, after infeasible ones became the nearest feasible one."""

    old_total: int  # |M_old| before unused memory flows from one side to the other
    old_share: float  # nominal
    old_tenths: int  # nominal, what the next state reports
    level1: float | None  # the share (i = 1) or its change (i >= 2); None for an exact number
    level2: float | None  # None where there is nothing to split
    clamped: bool


@dataclass(frozen=True)
class Group:
    """The two halves of one phase's classes, and the split that they keep for ever (protocol 2.3)."""

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


@dataclass(frozen=True)
class Judgement:
    """What the model said of the judging samples of all seen classes; both heads, where they exist."""

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
    seconds: Mapping[str, float]
    judgement: Judgement
