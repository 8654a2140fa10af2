"""Herding (iCaRL, Alg. 4): rank samples so that every prefix has a mean close to the class mean; exact, ties too."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from remem.types import IntArray

FloatArray = NDArray[np.float64]

_GRID_BITS = 16
_EXACT = 2**53  # whole numbers up to here are exact in float64
_ROUGH, _FINE = 2.0**-24, 2.0**-46  # rounding of float32; of float64, with a hundredfold to spare
_CHUNK_BYTES = 36 * 2**20  # of classes at a time: fewer pay for more calls, more fall out of the cache (measured)
_GRAM_BYTES = 256 * 2**20  # of one class; beyond, its columns are made one by one


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

    With w = v - T / n, one pick lowers every score v . (k T / n - S) by w . w' of the pick, up to a part that all v
    share. Those products are made in float32: who leads by more than their errors so far is best, else exact sums
    decide, and errors begin anew.
    """
    classes, n, _ = units.shape
    picks = np.empty((classes, n if limit is None else min(n, limit)), np.int64)
    total = units.sum(axis=1)
    mean = total / n
    away = np.subtract(units, mean[:, None], out=np.empty(units.shape, np.float32), casting="same_kind")
    gram = away @ away.swapaxes(1, 2) if 4 * n * n <= _GRAM_BYTES else None
    score = np.ascontiguousarray((units @ mean[:, :, None])[:, :, 0])
    each, first, scores = np.arange(classes), np.arange(classes) * n, score.reshape(-1)
    step = _doubt(away, mean)
    doubt = step.copy()
    for k in range(picks.shape[1]):
        best = score.argmax(axis=1)
        highest = scores[first + best]
        scores[first + best] = -np.inf
        lead = highest - scores[first + score.argmax(axis=1)]
        for unsure in np.flatnonzero(lead <= doubt):
            exact = _exact_scores(units[unsure], total[unsure], picks[unsure, :k])
            best[unsure] = exact.argmax()
            exact[best[unsure]] = -np.inf
            score[unsure], doubt[unsure] = exact / n, 0.0
        picks[:, k] = best
        score -= gram[each, best] if gram is not None else (away @ away[each, best, :, None])[:, :, 0]
        doubt += step
    return picks


def _exact_scores(units: FloatArray, total: FloatArray, picked: IntArray) -> FloatArray:
    """v . (k T - n S) of all samples of a class; what is picked scores no more."""
    scores: FloatArray = units @ ((len(picked) + 1) * total - len(units) * units[picked].sum(axis=0))
    scores[picked] = -np.inf
    return scores


def _doubt(away: NDArray[np.float32], mean: FloatArray) -> FloatArray:
    """How far one pick can move the difference of two scores away from its true value; (classes,).

    A sum of d products is off by at most d roundings of float32 times |w| |w'|, in whatever order it is made, and by
    two more since w is rounded; differences have that twice. The rest is float64.
    """
    _, n, width = away.shape
    reach = np.einsum("cnd,cnd->cn", away, away).max(axis=1).astype(np.float64)
    length = np.einsum("cd,cd->c", mean, mean)
    bound: FloatArray = 2 * (width + 4) * _ROUGH * 1.01 * reach + (n + width) * _FINE * (reach + length)
    return bound


def _chunks(sizes: Sequence[int], width: int) -> Iterator[list[int]]:
    """Indices of groups of equal size, together as many as their features and Gram matrices may fill a chunk."""
    for size in sorted(set(sizes) - {0}):
        alike = [index for index, other in enumerate(sizes) if other == size]
        step = max(1, _CHUNK_BYTES // max(1, 4 * size * (size + 3 * width)))
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
