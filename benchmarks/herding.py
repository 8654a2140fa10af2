"""Herding of 100 classes x 500 samples x 64 features against the two loops that public code has."""

import time
from functools import partial

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from benchmarks.table import Row
from benchmarks.timing import alternate, ratio
from remem.selection.herding import herd
from remem.types import IntArray

CLASSES, SAMPLES, WIDTH, PICKS = 100, 500, 64, 200


def distances(units: NDArray[np.float64], picks: int = PICKS) -> list[int]:
    """Recomputes all distances for every pick and deletes the row that it picked."""
    mean, left, places = units.mean(axis=0), units.copy(), list(range(len(units)))
    picked, total = [], np.zeros(units.shape[1])
    for k in range(1, picks + 1):
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


def normalised(features: NDArray[np.float32], group: IntArray) -> NDArray[np.float64]:
    units = features[group].astype(np.float64)
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    return units


def rows(repeats: int = 7) -> list[Row]:
    """All three begin with features as a network gives them, and have one thread, then two."""
    features = np.random.default_rng(0).standard_normal((CLASSES * SAMPLES, WIDTH)).astype(np.float32)
    groups = list(np.arange(CLASSES * SAMPLES).reshape(CLASSES, SAMPLES))
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            took = alternate(
                {
                    "ours": partial(herd, features, groups, PICKS, threads),
                    "distances": lambda: [distances(normalised(features, group)) for group in groups],
                    "products": lambda: [products(normalised(features, group)) for group in groups],
                },
                repeats,
                time.perf_counter,
                wake=0.3,
            )
        what = f"herding {CLASSES} x {SAMPLES} x {WIDTH}, {PICKS} each, {threads} thread{'s' * (threads > 1)}"
        wanted = ("at least 20x", "at least 2.5x") if threads == 2 else ("", "")
        found += [
            ratio(what, took["ours"], took["distances"], "all distances, rows deleted", wanted[0]),
            ratio(what, took["ours"], took["products"], "matrix-vector products", wanted[1]),
        ]
    return found
