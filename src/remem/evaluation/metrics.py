"""Accuracies, forgetting, nearest-mean classification and confidence intervals, in numpy (protocol 5)."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from remem.types import IntArray

FloatArray = NDArray[np.float64]

BLOCK = 2**14  # samples converted to float64 at a time


def accuracy(labels: IntArray, predicted: IntArray) -> float:
    """The fraction of correct predictions."""
    if not len(labels):
        raise ValueError("there are no samples to evaluate")
    return float(np.mean(labels == predicted))


def accuracy_by_phase(labels: IntArray, predicted: IntArray, phase_of_class: Mapping[int, int]) -> list[float]:
    """Accuracy on the classes of each phase, from phase 0 to the last phase in `labels`."""
    phases = np.array([phase_of_class[label] for label in labels.tolist()], np.int64)
    return [accuracy(labels[phases == p], predicted[phases == p]) for p in range(int(phases.max()) + 1)]


def accuracy_per_class(labels: IntArray, predicted: IntArray) -> dict[int, float]:
    """Accuracy on every class in `labels`."""
    classes, where = np.unique(labels, return_inverse=True)
    rates = np.bincount(where, weights=labels == predicted) / np.bincount(where)
    return dict(zip(classes.tolist(), rates.tolist(), strict=True))


def old_new_accuracy(labels: IntArray, predicted: IntArray, old_classes: int) -> tuple[float | None, float]:
    """Accuracy on the first `old_classes` classes (None in phase 0) and on the new classes."""
    old = labels < old_classes
    return accuracy(labels[old], predicted[old]) if old_classes else None, accuracy(labels[~old], predicted[~old])


def confusion(labels: IntArray, predicted: IntArray, classes: int) -> IntArray:
    """The confusion matrix (classes, classes): rows are true classes, columns are predictions."""
    cells = np.bincount(labels * classes + predicted, minlength=classes * classes)
    return cells.reshape(classes, classes).astype(np.int64)


def forgetting(matrix: Sequence[Sequence[float]]) -> float:
    """Best earlier accuracy minus the final one, averaged over all phases but the last.

    Row i of `matrix` is `accuracy_by_phase` after phase i.
    """
    *earlier, final = matrix
    if not earlier:
        return 0.0
    lost = [max(row[phase] for row in earlier[phase:]) - final[phase] for phase in range(len(earlier))]
    return sum(lost) / len(lost)


def class_means(
    features: NDArray[np.floating],
    labels: IntArray,
    classes: Sequence[int],
    mirrored: NDArray[np.floating] | None = None,
) -> FloatArray:
    """Normalised means of unit features, in the order of `classes`; `mirrored` adds features of flipped images."""
    means = np.zeros((len(classes), features.shape[1]))
    for mean, label in zip(means, classes, strict=True):
        places = np.flatnonzero(labels == label)
        if not len(places):
            raise ValueError(f"class {label} has no features, so it has no mean")
        views = [features[places]] if mirrored is None else [features[places], mirrored[places]]
        mean[:] = unit(np.concatenate(views)).mean(axis=0)
    return unit(means)


def nearest_mean(features: NDArray[np.floating], means: FloatArray) -> IntArray:
    """The index of the nearest class mean of every sample; for unit means it has the largest inner product."""
    nearest = np.empty(len(features), np.int64)
    for start in range(0, len(features), BLOCK):
        scores: FloatArray = features[start : start + BLOCK].astype(np.float64) @ means.T  # (block, classes)
        nearest[start : start + BLOCK] = scores.argmax(axis=1)
    return nearest


def mean_interval(values: Sequence[float]) -> tuple[float, float | None]:
    """The mean and the half width of its 95 % confidence interval (Student's t); None for a single value."""
    n = len(values)
    mean = float(np.mean(values))
    if n < 2:
        return mean, None
    from scipy.special import stdtrit  # type: ignore[import-untyped]

    return mean, float(stdtrit(n - 1, 0.975) * np.std(values, ddof=1) / np.sqrt(n))


def unit(vectors: NDArray[np.floating]) -> FloatArray:
    """Rows of length 1, in float64; rows of zeros stay."""
    values = vectors.astype(np.float64)
    norms = np.linalg.norm(values, axis=1, keepdims=True)
    units: FloatArray = np.divide(values, norms, out=np.zeros_like(values), where=norms > 0)
    return units
