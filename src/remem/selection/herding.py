"""Herding (iCaRL, Alg. 4): rank samples so that every prefix has a mean close to the class mean; exact, ties too."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from remem.types import IntArray

FloatArray = NDArray[np.float64]

_GRID_BITS = 16
_EXACT = 2**53  # whole numbers up to here are exact in float64
_ROUGH, _FINE = 2.0**-24, 2.0**-46  # rounding of float32; of float64, with a hundredfold to spare
_CHUNK_BYTES = 4 * 2**20  # of float32 features at a time: fewer pay for more calls, more fall out of the cache


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

    Scores of all samples are made in float32. Who leads by more than their errors can be is best; else exact sums
    decide.
    """
    classes, n, width = units.shape
    picks = np.empty((classes, n if limit is None else min(n, limit)), np.int64)
    total = units.sum(axis=1)
    mean, chosen = total / n, np.zeros_like(total)
    columns = np.ascontiguousarray(units.swapaxes(1, 2), np.float32)  # (classes, d, n): its products are the fastest
    score, taken = np.empty((classes, n), np.float32), np.zeros((classes, n), np.float32)
    rows, scores, gone, first = units.reshape(-1, width), score.reshape(-1), taken.reshape(-1), np.arange(classes) * n
    rough, fine = _doubts(units, mean)
    for k in range(picks.shape[1]):
        aim = (k + 1) * mean - chosen
        np.matmul(aim[:, None].astype(np.float32), columns, out=score[:, None])
        score += taken
        best = first + score.argmax(axis=1)
        lead = scores[best]
        scores[best] = -np.inf
        lead -= scores[first + score.argmax(axis=1)]
        doubt = rough * np.sqrt(np.einsum("cd,cd->c", aim, aim)) + (k + 1) * fine
        for unsure in np.flatnonzero(lead <= doubt):
            best[unsure] = first[unsure] + _exact_best(units[unsure], total[unsure], picks[unsure, :k])
        picks[:, k] = best - first
        gone[best] = -np.inf
        chosen += rows[best]
    return picks


def _exact_best(units: FloatArray, total: FloatArray, picked: IntArray) -> int:
    """Who of a class's samples has the highest v . (k T - n S)."""
    scores: FloatArray = units @ ((len(picked) + 1) * total - len(units) * units[picked].sum(axis=0))
    scores[picked] = -np.inf
    return int(scores.argmax())


def _doubts(units: FloatArray, mean: FloatArray) -> tuple[FloatArray, FloatArray]:
    """How far the difference of two scores can be from its true value: by the length of the aim, and by k; (classes,).

    A sum of d products is off by at most d roundings of float32 times |v| |aim|, in whatever order it is made, and by
    two more since both are rounded; a difference has that twice. The aim itself is off by roundings of float64.
    """
    _, n, width = units.shape
    reach = np.sqrt(np.einsum("cnd,cnd->cn", units, units).max(axis=1))
    length = np.sqrt(np.einsum("cd,cd->c", mean, mean))
    return 2 * (width + 4) * _ROUGH * 1.01 * reach, 2 * (n + width) * _FINE * reach * length


def _chunks(sizes: Sequence[int], width: int) -> Iterator[list[int]]:
    """Indices of groups of equal size, together as many as their features may fill a chunk."""
    for size in sorted(set(sizes) - {0}):
        alike = [index for index, other in enumerate(sizes) if other == size]
        step = max(1, _CHUNK_BYTES // max(1, 4 * size * width))
        for start in range(0, len(alike), step):
            yield alike[start : start + step]


def _on_grid(features: NDArray[np.floating]) -> FloatArray:
    """Unit features as whole numbers of steps so small, and so few, that all sums of products are exact."""
    units = features.astype(np.float64)
    norms = np.sqrt(np.einsum("...i,...i->...", units, units))[..., None]
    units *= 2.0 ** _bits(features.shape[1]) / np.where(norms > 0, norms, 1.0)
    return np.rint(units, out=units)


def _bits(size: int) -> int:
    """The finest grid for a class of this size: k v.T and n v.S stay below size^2 4^bits; a factor of 4 to spare."""
    return max(bits for bits in range(_GRID_BITS + 1) if bits == 0 or 4 * size * size * 4**bits <= _EXACT)
