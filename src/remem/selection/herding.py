"""Herding (iCaRL, Alg. 4): rank samples so that every prefix has a mean close to the class mean; exact, ties too."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from remem.threads import in_threads
from remem.types import IntArray

FloatArray = NDArray[np.float64]

_GRID_BITS = 16
_EXACT = 2**53  # whole numbers up to here are exact in float64
_ROUGH, _FINE = 2.0**-24, 2.0**-46  # rounding of float32; of float64, with a hundredfold to spare
_CHUNK_BYTES = 8 * 2**20  # of float32 numbers at a time: fewer pay for more calls, more fall out of the cache
_STEPS = 20  # picks between two looks at who was in doubt
_WORTH_A_THREAD = 20  # classes; with fewer, threads wait for each other at every call


def herd(
    features: NDArray[np.floating], groups: Sequence[IntArray], limit: int | None = None, threads: int = 1
) -> list[IntArray]:
    """Rank every group of positions by herding on unit features, best first; `limit` ends each ranking early."""
    if not np.isfinite(features).all():
        raise ValueError("features hold NaN or infinity: training has diverged")

    def picks(chunk: list[int]) -> IntArray:
        members = np.stack([groups[index] for index in chunk])  # (classes, n)
        return herd_exact(_on_grid(features[members]), limit)

    chunks = list(_chunks([len(group) for group in groups], features.shape[1], threads))
    ranked: list[IntArray] = [np.empty(0, np.int64)] * len(groups)
    results = map(picks, chunks) if threads == 1 else in_threads(picks, chunks, threads=threads, block=1)
    for chunk, orders in zip(chunks, results, strict=True):
        for index, order in zip(chunk, orders, strict=True):
            ranked[index] = groups[index][order]
    return ranked


def herd_exact(units: FloatArray, limit: int | None = None) -> IntArray:
    """Herd classes of equal size whose sums of products are exact in float64; (classes, n, d) -> (classes, picks).

    Pick k maximises v . (k T - n S), T the class's sum and S that of the picks before: for unit features the running
    mean nearest to the class mean. Ties go to the lower position.

    Scores of all samples are made in float32. Who leads by more than their errors can be is best; where someone does
    not, which is looked at after every few picks, exact sums decide.
    """
    rough = _RoughHerding(units)
    classes, n, _ = units.shape
    picks = np.empty((classes, n if limit is None else min(n, limit)), np.int64)
    for start in range(0, picks.shape[1], _STEPS):
        steps = np.arange(start, min(start + _STEPS, picks.shape[1]))
        picks[:, steps], in_doubt = rough.go_on(steps)
        for one in np.flatnonzero(in_doubt.any(axis=1)):
            before, wrong = picks[one].copy(), False
            for k, doubted in zip(steps, in_doubt[one], strict=True):
                if doubted or wrong:  # what follows a wrong pick is wrong too
                    picks[one, k] = _exact_best(units[one], rough.total[one], picks[one, :k])
                    wrong = wrong or picks[one, k] != before[k]
            if wrong:
                rough.set_right(one, picks[one, : steps[-1] + 1])
    return picks


class _RoughHerding:
    """Picks of all classes by scores in float32, and whose lead is within what these can be off by."""

    def __init__(self, units: FloatArray) -> None:
        classes, n, width = units.shape
        self.total = units.sum(axis=1)
        self._units, self._mean, self._chosen = units, self.total / n, np.zeros_like(self.total)
        # (classes, d, n): its products are the fastest. One more row takes who is picked out of the running.
        self._columns = np.empty((classes, width + 1, n), np.float32)
        self._columns[:, :width] = units.swapaxes(1, 2)
        self._columns[:, width] = 0
        self._first = np.arange(classes) * n  # of each class, among the samples of all
        self._last_row = np.arange(classes) * (width + 1) * n + width * n  # of each class, among all numbers
        self._scores = np.empty((_STEPS, classes, n), np.float32)
        self._aims = np.ones((_STEPS, classes, width + 1), np.float32)
        self._by_length, self._by_step = _doubts(units, self._mean)

    def go_on(self, steps: IntArray) -> tuple[IntArray, NDArray[np.bool_]]:
        """Picks number `steps`, and where they are in doubt; both (classes, steps)."""
        samples, numbers = self._units.reshape(-1, self._units.shape[2]), self._columns.reshape(-1)
        picked = np.empty_like(self._chosen)
        scores, aims = self._scores[: len(steps)], self._aims[: len(steps)]
        picks = np.empty(scores.shape[:2], np.int64)
        for k, score, aim, best in zip(steps.tolist(), scores, aims, picks, strict=True):
            aim[:, :-1] = (k + 1) * self._mean - self._chosen
            np.matmul(aim[:, None], self._columns, out=score[:, None])
            score.argmax(axis=1, out=best)
            numbers[self._last_row + best] = -np.inf
            self._chosen += samples.take(self._first + best, axis=0, out=picked, mode="clip")  # clip: no copy of `out`
        winners = picks + np.arange(picks.size).reshape(picks.shape) * scores.shape[2]
        leads = scores.reshape(-1)[winners]
        scores.reshape(-1)[winners] = -np.inf
        leads -= scores.max(axis=2)
        lengths = np.sqrt(np.einsum("kcd,kcd->kc", aims[:, :, :-1], aims[:, :, :-1], dtype=np.float64))
        return picks.T, (leads <= self._by_length * lengths + (steps[:, None] + 1) * self._by_step).T

    def set_right(self, one: np.intp, picked: IntArray) -> None:
        """Go on from these picks of a class."""
        self._columns[one, -1] = 0
        self._columns[one, -1, picked] = -np.inf
        self._chosen[one] = self._units[one, picked].sum(axis=0)


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


def _chunks(sizes: Sequence[int], width: int, threads: int) -> Iterator[list[int]]:
    """Indices of groups of equal size, together as many as may fill a chunk, and chunks for all threads."""
    for size in sorted(set(sizes) - {0}):
        alike = [index for index, other in enumerate(sizes) if other == size]
        full = max(1, _CHUNK_BYTES // (4 * size * (width + _STEPS)))
        busy = max(1, min(threads, len(alike) // _WORTH_A_THREAD))
        parts = busy * -(-len(alike) // (busy * full))
        yield from (alike[part::parts] for part in range(parts))


def _on_grid(features: NDArray[np.floating]) -> FloatArray:
    """Unit features as whole numbers of steps so small, and so few, that all sums of products are exact."""
    units = features.astype(np.float64)
    norms = np.sqrt(np.einsum("...i,...i->...", units, units))[..., None]
    units *= 2.0 ** _bits(features.shape[1]) / np.where(norms > 0, norms, 1.0)
    return np.rint(units, out=units)


def _bits(size: int) -> int:
    """The finest grid for a class of this size: k v.T and n v.S stay below size^2 4^bits; a factor of 4 to spare."""
    return max(bits for bits in range(_GRID_BITS + 1) if bits == 0 or 4 * size * size * 4**bits <= _EXACT)
