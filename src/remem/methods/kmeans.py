"""K-means centres of one class, as scikit-learn finds them, with starts that take a tenth of the time.

A policy training begins thousands of phases, each with a k-means per new class. On a few hundred samples almost all of
scikit-learn's time goes into k-means++, which checks and converts its arrays for every candidate. Here all distances
are computed once, and all starts are chosen together. Random numbers are drawn in scikit-learn's order, so the centres
are the same.
"""

import math

import numpy as np
from numpy.typing import NDArray

from remem.types import IntArray

STARTS = 10
LARGEST = 4096  # samples; the distances of more of them do not fit into tens of megabytes

Floats = NDArray[np.float32]


def kmeans_centres(values: Floats, clusters: int, seed: int) -> Floats:
    """The centres (clusters, d) of the best of ten starts."""
    from sklearn.cluster import KMeans  # loading it takes half as long as torch, and a model that predicts never does

    init = PlusPlus() if len(values) <= LARGEST else "k-means++"
    centres = KMeans(n_clusters=clusters, init=init, n_init=STARTS, random_state=seed).fit(values).cluster_centers_
    return np.asarray(centres, dtype=np.float32)


class PlusPlus:
    """Greedy k-means++ (Arthur and Vassilvitskii, 2007): the first call computes all starts, each call returns one."""

    def __init__(self) -> None:
        self._starts: list[IntArray] = []

    def __call__(self, values: Floats, clusters: int, random_state: np.random.RandomState) -> Floats:
        """Returns the first centres (clusters, d)."""
        if not self._starts:
            self._starts = list(plus_plus(values, clusters, random_state))
        return values[self._starts.pop(0)]


def plus_plus(values: Floats, clusters: int, random: np.random.RandomState) -> IntArray:
    """The samples (starts, clusters) that k-means begins with."""
    distances, count, trials = squared_distances(values), len(values), 2 + int(math.log(clusters))
    draws = random.random_sample((STARTS, 1 + (clusters - 1) * trials))  # scikit-learn draws start after start
    uniform = np.full(count, np.float32(1 / count)).astype(np.float64).cumsum()
    chosen = np.empty((STARTS, clusters), np.int64)
    chosen[:, 0] = (uniform / uniform[-1]).searchsorted(draws[:, 0], side="right")
    closest = distances[chosen[:, 0]]  # (starts, n)
    potential, each = closest.sum(axis=1), np.arange(STARTS)
    for cluster in range(1, clusters):
        drawn = draws[:, 1 + (cluster - 1) * trials :][:, :trials] * potential[:, None]
        below = np.cumsum(closest, axis=1)[:, None] < drawn[:, :, None]  # (starts, trials, n)
        candidates = np.minimum(below.sum(axis=2), count - 1)
        nearer = np.minimum(closest[:, None], distances[candidates])
        potentials = nearer.sum(axis=2)
        best = potentials.argmin(axis=1)
        closest, potential = nearer[each, best], potentials[each, best]
        chosen[:, cluster] = candidates[each, best]
    return chosen


def squared_distances(values: Floats) -> Floats:
    """All squared distances (n, n), computed in float64 as scikit-learn does."""
    exact = values.astype(np.float64)
    squares = np.einsum("nd,nd->n", exact, exact)
    found: NDArray[np.float64] = squares[:, None] + squares[None, :] - 2 * (exact @ exact.T)
    return np.maximum(found, 0, out=found).astype(np.float32)
