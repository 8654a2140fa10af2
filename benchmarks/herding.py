"""Herding of 100 classes x 500 samples x 64 features against the two loops that public code has."""

import numpy as np
from numpy.typing import NDArray

from benchmarks.timing import Row, compare
from remem.selection.herding import herd

CLASSES, SAMPLES, WIDTH, PICKS = 100, 500, 64, 200


def distances(units: NDArray[np.float64]) -> list[int]:
    """Recomputes all distances for every pick and deletes the row that it picked."""
    mean, left, places = units.mean(axis=0), units.copy(), list(range(len(units)))
    picked, total = [], np.zeros(units.shape[1])
    for k in range(1, PICKS + 1):
        best = int(np.linalg.norm(mean - (total + left) / k, axis=1).argmin())
        total += left[best]
        picked.append(places.pop(best))
        left = np.delete(left, best, axis=0)
    return picked


def products(units: NDArray[np.float64]) -> list[int]:
    """One matrix-vector product for every pick."""
    mean = units.mean(axis=0)
    towards, free, picked = mean.copy(), np.zeros(len(units)), []
    for _ in range(PICKS):
        best = int((units @ towards + free).argmax())
        free[best] = -np.inf
        picked.append(best)
        towards = towards + mean - units[best]
    return picked


def rows(repeats: int = 5) -> list[Row]:
    features = np.random.default_rng(0).standard_normal((CLASSES * SAMPLES, WIDTH))
    groups = list(np.arange(CLASSES * SAMPLES).reshape(CLASSES, SAMPLES))
    units = features / np.linalg.norm(features, axis=1, keepdims=True)
    name = f"herding {CLASSES} x {SAMPLES} x {WIDTH}, {PICKS} each"

    def ours() -> object:
        return herd(features, groups, PICKS)

    return [
        compare(name, ours, lambda: [distances(units[g]) for g in groups], "all distances, rows deleted", repeats),
        compare(name, ours, lambda: [products(units[g]) for g in groups], "matrix-vector products", repeats),
    ]
