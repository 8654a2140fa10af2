"""Herding (iCaRL, Alg. 4): rank samples so that every prefix has a mean close to the class mean; exact, ties too."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from remem.types import IntArray

FloatArray = NDArray[np.float64]

_GRID_BITS = 16
_EXACT = 2**53  # whole numbers up to here are exact in float64
_CHUNK_BYTES = 16 * 2**20  # features and Gram matrices at a time: more falls out of the cache (measured)
_GRAM_BYTES = 512 * 2**20  # of one class; beyond, its columns are made one by one


def herd(features: NDArray[np.floating], groups: Sequence[IntArray], limit: int | None = None) -> list[IntArray]:
    """Rank every group of positions by herding on unit features, best first; `limit` ends each ranking early."""
    if not np.isfinite(features).all():
        raise ValueError("features hold NaN or infinity: training has diverged")
    ranked: list[IntArray] = [np.empty(0, np.int64)] * len(groups)
    for chunk in _chunks([len(group) for group in groups], features.shape[1]):
        members = np.stack([groups[index] for index in chunk])  # (classes, n)
        picks = herd_exact(_on_grid(features[members]), limit)
        for index, order in zip(chunk, picks, strict=True):
            ranked[index] = groups[index][order]
    return ranked


def herd_exact(units: FloatArray, limit: int | None = None) -> IntArray:
    """Herd classes of equal size whose sums of products are exact in float64; (classes, n, d) -> (classes, picks).

    Pick k maximises v . (k T - n S), T the class's sum and S that of the picks before: for unit features the running
    mean nearest to the class mean. Ties go to the lower position.
    """
    classes, n, _ = units.shape
    picks = np.empty((classes, n if limit is None else min(n, limit)), np.int64)
    each = np.arange(classes)
    towards = (units @ units.sum(axis=1)[:, :, None])[:, :, 0]  # v . T
    away, across = -n * units, units.swapaxes(1, 2)
    gram = away @ across if 8 * n * n <= _GRAM_BYTES else None  # row p: -n v . p for every v
    score = np.zeros_like(towards)
    for k in range(picks.shape[1]):
        score += towards
        best = score.argmax(axis=1)
        picks[:, k] = best
        score += (away[each, best, None] @ across)[:, 0] if gram is None else gram[each, best]
        score[each, best] = -np.inf
    return picks


def _chunks(sizes: Sequence[int], width: int) -> Iterator[list[int]]:
    """Indices of groups of equal size, together as many as their features and Gram matrices may fill a chunk."""
    for size in sorted(set(sizes)):
        alike = [index for index, other in enumerate(sizes) if other == size]
        step = max(1, _CHUNK_BYTES // max(1, 8 * size * (size + width)))
        for start in range(0, len(alike), step):
            yield alike[start : start + step]


def _on_grid(features: NDArray[np.floating]) -> FloatArray:
    """Unit features as whole numbers of steps so small, and so few, that all sums of products are exact."""
    units = features.astype(np.float64)
    norms = np.sqrt(np.einsum("...i,...i->...", units, units))[..., None]
    units /= np.where(norms > 0, norms, 1.0) / 2.0 ** _bits(features.shape[1])
    return np.rint(units, out=units)


def _bits(size: int) -> int:
    """The finest grid for a class of this size: k v.T and n v.S stay below size^2 4^bits; a factor of 4 to spare."""
    return max(bits for bits in range(_GRID_BITS + 1) if bits == 0 or 4 * size * size * 4**bits <= _EXACT)
