"""How sure the nearest-mean readout is: a softmax of similarities, with a scale that is fitted on held samples."""

import math

import numpy as np
from numpy.typing import NDArray

from remem.evaluation.metrics import FloatArray, unit
from remem.types import IntArray

PLAIN_SCALE = 2.0  # for unit vectors 2 u m = 2 - |u - m|^2: the softmax of negative squared distances
LEAST, MOST = 0.01, 1000.0
STEPS = 100
LARGEST = 10_000  # samples that a scale is fitted on; of more, every k-th


def similarities(features: NDArray[np.floating], means: FloatArray) -> FloatArray:
    """The inner products (n, C) of unit features and unit class means."""
    products: FloatArray = unit(features) @ means.T
    return products


def softmax(values: NDArray[np.floating]) -> FloatArray:
    """Probabilities (n, C), in float64."""
    exact = values.astype(np.float64)
    weights: FloatArray = np.exp(exact - exact.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    return weights


def fit_scale(
    features: NDArray[np.floating],
    labels: IntArray,
    means: FloatArray,
    mirrored: NDArray[np.floating] | None = None,
) -> float:
    """The scale s for which softmax(s * similarities) has the least cross-entropy on held samples.

    `labels` are rows of `means`; `mirrored` are features of mirror images, if the means contain them. A held sample is
    part of its class's mean, so it is compared with the mean of the others. Classes count equally, however many samples
    they hold. Samples that are alone in their class say nothing; without any others the plain scale is returned.
    """
    counts = np.bincount(labels, minlength=len(means))
    places = np.flatnonzero(counts[labels] > 1)
    if not len(places) or len(means) < 2:
        return PLAIN_SCALE
    own = _without_itself(features, labels, len(means), mirrored)
    places = places[:: -(-len(places) // LARGEST)]
    scores = similarities(features[places], means)
    scores[np.arange(len(places)), labels[places]] = own[places]
    weights = 1 / np.bincount(labels[places], minlength=len(means))[labels[places]]
    return float(f"{_least(scores, labels[places], weights / weights.sum()):.6g}")


def _without_itself(
    features: NDArray[np.floating], labels: IntArray, classes: int, mirrored: NDArray[np.floating] | None
) -> FloatArray:
    """The similarity (n,) of every sample to the mean of the other samples of its class."""
    units = unit(features)
    views = units if mirrored is None else units + unit(mirrored)
    sums = np.zeros((classes, views.shape[1]))
    np.add.at(sums, labels, views)
    others: FloatArray = np.einsum("nd,nd->n", units, unit(sums[labels] - views))
    return others


def _least(scores: FloatArray, labels: IntArray, weights: FloatArray) -> float:
    """Minimises the cross-entropy, which is convex in the scale, by Newton steps inside a shrinking bracket.

    Targets are a little below 1, as in Platt scaling: samples that are all right would ask for an infinite scale.
    """
    count, classes = scores.shape
    rest = 1 / (count + 2)
    own, total = scores[np.arange(count), labels], scores.sum(axis=1)
    wanted = (1 - rest) * own + rest * (total - own) / (classes - 1)
    low, high, scale = LEAST, MOST, PLAIN_SCALE
    for _ in range(STEPS):
        chances = softmax(scale * scores)
        mean = (chances * scores).sum(axis=1)
        slope = float(weights @ (mean - wanted))
        curvature = float(weights @ ((chances * scores**2).sum(axis=1) - mean**2))
        low, high = (low, scale) if slope > 0 else (scale, high)
        step = scale - slope / curvature if curvature > 0 else 0.0
        after = step if low < step < high else math.sqrt(low * high)
        if abs(after - scale) <= 1e-9 * scale:
            break
        scale = after
    return scale
