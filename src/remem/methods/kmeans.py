"""K-means centres of one class, as scikit-learn finds them, with starts that take a tenth of the time.

A policy training begins thousands of phases, each with a k-means per new class. On a few hundred samples almost all of
scikit-learn's time goes into k-means++, which checks and converts its arrays for every candidate. Here all distances
are computed once for all starts. Random numbers are drawn in scikit-learn's order, so the centres are the same.
"""

import math

import numpy as np
from numpy.typing import NDArray

STARTS = 10
LARGEST = 4096  # samples; the distances of more of them do not fit into tens of megabytes


def kmeans_centres(values: NDArray[np.float32], clusters: int, seed: int) -> NDArray[np.float32]:
    """The centres (clusters, d) of the best of ten starts."""
    from sklearn.cluster import KMeans  # loading it takes half as long as torch, and a model that predicts never does

    init = PlusPlus() if len(values) <= LARGEST else "k-means++"
    centres = KMeans(n_clusters=clusters, init=init, n_init=STARTS, random_state=seed).fit(values).cluster_centers_
    return np.asarray(centres, dtype=np.float32)


class PlusPlus:
    """Greedy k-means++ (Arthur and Vassilvitskii, 2007) for several starts on the same samples."""

    def __init__(self) -> None:
        self._distances: NDArray[np.float32] | None = None

    def __call__(
        self, values: NDArray[np.float32], clusters: int, random_state: np.random.RandomState
    ) -> NDArray[np.float32]:
        """Returns the first centres (clusters, d)."""
        if self._distances is None:
            self._distances = squared_distances(values)
        distances, count = self._distances, len(values)
        trials = 2 + int(math.log(clusters))
        chosen = [int(random_state.choice(count, p=np.full(count, np.float32(1 / count))))]
        closest = distances[chosen[0]]
        potential = closest.sum()
        for _ in range(1, clusters):
            drawn = random_state.uniform(size=trials) * potential
            candidates = np.minimum(np.searchsorted(np.cumsum(closest), drawn), count - 1)
            nearer = np.minimum(closest, distances[candidates])  # (trials, n)
            potentials = nearer.sum(axis=1)
            best = int(np.argmin(potentials))
            closest, potential = nearer[best], potentials[best]
            chosen.append(int(candidates[best]))
        return values[chosen]


def squared_distances(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """All squared distances (n, n), computed in float64 as scikit-learn does."""
    exact = values.astype(np.float64)
    squares = np.einsum("nd,nd->n", exact, exact)
    found: NDArray[np.float64] = squares[:, None] + squares[None, :] - 2 * (exact @ exact.T)
    return np.maximum(found, 0, out=found).astype(np.float32)
