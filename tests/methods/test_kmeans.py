"""K-means centres are scikit-learn's own, to the bit."""

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.cluster import KMeans, kmeans_plusplus

from remem.methods.kmeans import LARGEST, STARTS, PlusPlus, kmeans_centres, squared_distances


def units(seed: int, count: int) -> NDArray[np.float32]:
    """Unit vectors in the positive quadrant, like features of a network that ends in a ReLU."""
    values = np.maximum(np.random.default_rng(seed).normal(size=(count, 64)), 0).astype(np.float32)
    unit: NDArray[np.float32] = values / np.linalg.norm(values, axis=1, keepdims=True)
    return unit


@pytest.mark.parametrize("seed", range(20))
def test_centres_equal_those_of_scikit_learn(seed: int) -> None:
    values = units(seed, count=11 + 23 * seed)
    expected = KMeans(n_clusters=10, n_init=10, random_state=seed).fit(values).cluster_centers_
    np.testing.assert_array_equal(kmeans_centres(values, 10, seed), expected)


def test_repeated_samples() -> None:
    values = np.repeat(units(0, count=12), 5, axis=0)
    expected = KMeans(n_clusters=10, n_init=10, random_state=3).fit(values).cluster_centers_
    np.testing.assert_array_equal(kmeans_centres(values, 10, 3), expected)


def test_more_samples_than_distances_fit() -> None:
    values = units(1, count=LARGEST + 1)
    expected = KMeans(n_clusters=3, n_init=10, random_state=0).fit(values).cluster_centers_
    np.testing.assert_array_equal(kmeans_centres(values, 3, 0), expected)


def test_starts_equal_those_of_scikit_learn_one_after_another() -> None:
    values, init, random = units(2, count=40), PlusPlus(), np.random.RandomState(7)
    expected = np.random.RandomState(7)
    for _ in range(STARTS):
        centres, _ = kmeans_plusplus(values, 5, random_state=expected)
        np.testing.assert_array_equal(init(values, 5, random), centres)


def test_squared_distances_by_hand() -> None:
    values = np.array([[0, 0], [3, 4], [3, 0]], np.float32)
    np.testing.assert_array_equal(squared_distances(values), [[0, 25, 9], [25, 0, 16], [9, 16, 0]])
