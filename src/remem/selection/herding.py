"""Herding (iCaRL, Alg. 4): ranks samples so that every prefix has a mean close to the class mean; exact in ties."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from remem.threads import in_threads
from remem.types import IntArray

FloatArray = NDArray[np.float64]

_GRID_BITS = 16
_EXACT = 2**53  # float64 represents integers up to this exactly
_ROUGH, _FINE = 2.0**-24, 2.0**-46  # rounding error of float32; of float64, with a safety factor of about 100
_CHUNK_BYTES = 8 * 2**20  # float32 values per chunk: smaller ones need more calls, larger ones exceed the cache
_STEPS = 20  # picks between two checks for doubtful picks
_WORTH_A_THREAD = 20  # classes per thread; with fewer, threads wait for each other at every call


def herd(
    features: NDArray[np.floating], groups: Sequence[IntArray], limit: int | None = None, threads: int = 1
) -> list[IntArray]:
    """Ranks each group of positions by herding on unit features, best first; `limit` truncates every ranking."""
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
    """Herds classes of equal size whose sums of products are exact in float64; (classes, n, d) -> (classes, picks).

    Pick k maximises v . (k T - n S), where T is the sum of the class and S the sum of the previous picks. For unit
    features this gives the running mean nearest to the class mean. Ties go to the lower position.

    Scores are computed in float32. A pick whose lead exceeds the error bound is correct. The others are checked after
    every few picks and decided by exact sums.
    """
    rough = _RoughHerding(units)
    classes, n, _ = units.shape
    picks = np.empty((classes, n if limit is None else min(n, limit)), np.int64)
    for start in range(0, picks.shape[1], _STEPS):
        steps = np.arange(start, min(start + _STEPS, picks.shape[1]))
        picks[:, steps], in_doubt = rough.pick(steps)
        for one in np.flatnonzero(in_doubt.any(axis=1)):
            before, wrong = picks[one].copy(), False
            for k, doubted in zip(steps, in_doubt[one], strict=True):
                if doubted or wrong:  # all picks after a wrong one are unreliable
                    picks[one, k] = _exact_best(units[one], rough.total[one], picks[one, :k])
                    wrong = wrong or picks[one, k] != before[k]
            if wrong:
                rough.correct(one, picks[one, : steps[-1] + 1])
    return picks


class _RoughHerding:
    """Picks samples of all classes by float32 scores and reports which picks are within the error bound."""

    def __init__(self, units: FloatArray) -> None:
        classes, n, width = units.shape
        self.total = units.sum(axis=1)
        self._units, self._mean, self._chosen = units, self.total / n, np.zeros_like(self.total)
        # (classes, d + 1, n), the fastest layout for products. The last row excludes samples that have been picked.
        self._columns = np.empty((classes, width + 1, n), np.float32)
        self._columns[:, :width] = units.swapaxes(1, 2)
        self._columns[:, width] = 0
        self._first = np.arange(classes) * n  # index of each class's first sample
        self._last_row = np.arange(classes) * (width + 1) * n + width * n  # index of each class's last row
        self._scores = np.empty((_STEPS, classes, n), np.float32)
        self._aims = np.ones((_STEPS, classes, width + 1), np.float32)
        self._by_length, self._by_step = _error_bounds(units, self._mean)

    def pick(self, steps: IntArray) -> tuple[IntArray, NDArray[np.bool_]]:
        """Picks number `steps`, and a mask of those in doubt; both (classes, steps)."""
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

    def correct(self, one: np.intp, picked: IntArray) -> None:
        """Replaces all picks of one class so far."""
        self._columns[one, -1] = 0
        self._columns[one, -1, picked] = -np.inf
        self._chosen[one] = self._units[one, picked].sum(axis=0)


def _exact_best(units: FloatArray, total: FloatArray, picked: IntArray) -> int:
    """The sample of a class with the highest v . (k T - n S), computed exactly."""
    scores: FloatArray = units @ ((len(picked) + 1) * total - len(units) * units[picked].sum(axis=0))
    scores[picked] = -np.inf
    return int(scores.argmax())


def _error_bounds(units: FloatArray, mean: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Error bounds of the difference of two scores: per unit length of the aim, and per step k; both (classes,).

    In any order of summation, a sum of d products is off by at most d float32 roundings times |v| |aim|, plus two for
    the rounding of both factors; a difference has twice that. The aim itself has float64 rounding errors.
    """
    _, n, width = units.shape
    reach = np.sqrt(np.einsum("cnd,cnd->cn", units, units).max(axis=1))
    length = np.sqrt(np.einsum("cd,cd->c", mean, mean))
    return 2 * (width + 4) * _ROUGH * 1.01 * reach, 2 * (n + width) * _FINE * reach * length


def _chunks(sizes: Sequence[int], width: int, threads: int) -> Iterator[list[int]]:
    """Splits group indices into chunks of groups with equal size, bounded in bytes and balanced over threads."""
    for size in sorted(set(sizes) - {0}):
        alike = [index for index, other in enumerate(sizes) if other == size]
        full = max(1, _CHUNK_BYTES // (4 * size * (width + _STEPS)))
        busy = max(1, min(threads, len(alike) // _WORTH_A_THREAD))
        parts = busy * -(-len(alike) // (busy * full))
        yield from (alike[part::parts] for part in range(parts))


def _on_grid(features: NDArray[np.floating]) -> FloatArray:
    """Unit features rounded to integer multiples of a grid step, chosen so that all sums of products are exact."""
    units = features.astype(np.float64)
    norms = np.sqrt(np.einsum("...i,...i->...", units, units))[..., None]
    units *= 2.0 ** _bits(features.shape[1]) / np.where(norms > 0, norms, 1.0)
    return np.rint(units, out=units)


def _bits(size: int) -> int:
    """The finest grid for a class of this size: k v.T and n v.S stay below size^2 4^bits, with a margin of 4."""
    return max(bits for bits in range(_GRID_BITS + 1) if bits == 0 or 4 * size * size * 4**bits <= _EXACT)
