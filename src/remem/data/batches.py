"""Samples -> mini-batches: shuffled, shared out between processes, and read ahead in one background thread."""

import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise

import numpy as np

from remem.errors import InputError
from remem.types import IntArray, Reader, Samples, Values

SMALLEST = 2  # samples that batch norm needs in training
HAND_OVER = 5e-4  # seconds: less than this is not worth a thread


def batches(
    samples: Samples, size: int, rng: np.random.Generator | None, *, world: int = 1, each: int = SMALLEST
) -> Iterator[Samples]:
    """One epoch, every sample once, in batches that `world` processes share.

    A last batch too small to give every process `each` samples is merged into the one before it.
    """
    need = max(SMALLEST, each * world)
    if size < need:
        raise InputError(f"batch size: {size} given, at least {need} expected with {world} process(es)")
    if world > 1 and 0 < len(samples) < need:
        raise InputError(f"samples: {len(samples)} given, at least {need} expected with {world} processes")
    order = np.arange(len(samples)) if rng is None else rng.permutation(len(samples))
    starts = list(range(0, len(samples), size))
    if len(starts) > 1 and len(samples) - starts[-1] < need:
        starts.pop()
    return (samples.take(order[start:stop]) for start, stop in pairwise([*starts, len(samples)]))


def share(count: int, rank: int, world: int) -> slice:
    """The places of a batch that one of `world` processes works on; shares differ by at most one sample."""
    return slice(count * rank // world, count * (rank + 1) // world)


def prefetched(reader: Reader, parts: Iterable[Samples]) -> Iterator[tuple[Values, IntArray]]:
    """Values and labels of each batch in order; the next one is read while the current one is used.

    Only once a batch has shown that it is worth a thread: rows that lie in memory are there sooner than it would wake.
    """
    left = iter(parts)
    for part in left:
        started = time.perf_counter()
        values = reader.read(part.rows)
        if time.perf_counter() - started < HAND_OVER:
            yield values, part.labels
        else:
            yield from _read_ahead(reader, part, values, left)


def _read_ahead(
    reader: Reader, current: Samples | None, values: Values | None, left: Iterator[Samples]
) -> Iterator[tuple[Values, IntArray]]:
    """A batch that is there, and all that are left, read by a thread."""
    # The thread begins with the first `submit`, so that a single batch does not pay for one.
    with ThreadPoolExecutor(max_workers=1) as pool:  # leaving the block, also by an early stop, ends the thread
        while current is not None and values is not None:
            after = next(left, None)
            coming: Future[Values] | None = None if after is None else pool.submit(reader.read, after.rows)
            yield values, current.labels
            current, values = after, None if coming is None else coming.result()
