"""Long-tailed training data: every class is cut to its place on an exponential curve (Cui et al., CVPR 2019)."""

import hashlib
from dataclasses import dataclass, replace

import numpy as np

from remem.data.source import Dataset, Source
from remem.errors import InputError
from remem.seeding import Streams
from remem.types import IntArray, Values


@dataclass(frozen=True)
class Selected:
    """Some rows of another split, renumbered from 0."""

    source: Source
    rows: IntArray

    @property
    def labels(self) -> IntArray:
        return self.source.labels[self.rows]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.source.shape

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(self.source.fingerprint.encode() + self.rows.astype("<i8").tobytes()).hexdigest()

    def read(self, rows: IntArray) -> Values:
        return self.source.read(self.rows[rows])


def long_tailed(dataset: Dataset, ratio: float) -> Dataset:
    """The data set with fewer training samples; the test set stays balanced.

    Which classes are small, and which samples they keep, depends on the data set alone: not on the class order, which
    would otherwise put all small classes into late phases, and not on a seed of the run.
    """
    labels, classes = dataset.train.labels, len(dataset.class_names)
    if classes < 2:
        raise InputError(
            f"data.imbalance: {ratio:g} given; expected at least two classes, {dataset.name} has {classes}"
        )
    streams, places = Streams(0, "imbalance"), Streams(0, "imbalance").numpy(0, "classes").permutation(classes)
    kept = []
    for label, place in enumerate(places.tolist()):
        rows = np.flatnonzero(labels == label)
        count = max(1, round(len(rows) * ratio ** (-place / (classes - 1))))
        kept.append(streams.numpy(0, f"class {label}").permutation(rows)[:count])
    return replace(dataset, train=Selected(dataset.train, np.sort(np.concatenate(kept)).astype(np.int64)))
