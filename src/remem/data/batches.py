"""Mini-batches of samples: shuffled, sharded across processes, and prefetched by a background thread."""

import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise

import numpy as np

from remem.errors import InputError
from remem.types import IntArray, Reader, Samples, Values

SMALLEST = 2  # batch norm needs two samples in training
HAND_OVER = 5e-4  # seconds; faster reads are not worth a thread


def batches(
    samples: Samples, size: int, rng: np.random.Generator | None, *, world: int = 1, each: int = SMALLEST
) -> Iterator[Samples]:
    """One epoch in batches that `world` processes share; every sample occurs once.

    A last batch with fewer than `each` samples per process is merged into the batch before it.
    """
    need = max(SMALLEST, each * world)
    if size < need:
        raise InputError(f"batch size: {size} given, at least {need} expected with {world} process(es)")
    if world > 1 and 0 < len(samples) < need:
        raise InputError(f"samples: {len(samples)} given, at least {need} expected with {world} processes")
    order = np.arange(len(samples)) if rng is None else rng.permutation(len(samples))
    starts = batch_starts(len(samples), size, need)
    return (samples.take(order[start:stop]) for start, stop in pairwise([*starts, len(samples)]))


def batch_starts(samples: int, size: int, need: int = SMALLEST) -> list[int]:
    """Where the batches of an epoch start; a last one with fewer than `need` samples joins the one before it."""
    starts = list(range(0, samples, size))
    if len(starts) > 1 and samples - starts[-1] < need:
        starts.pop()
    return starts


def shard(count: int, rank: int, world: int) -> slice:
    """The positions of a batch that process `rank` of `world` works on; shards differ by at most one sample."""
    return slice(count * rank // world, count * (rank + 1) // world)


def prefetched(reader: Reader, parts: Iterable[Samples]) -> Iterator[tuple[Values, IntArray]]:
    """Yields values and labels of each batch; the next batch is read while the current one is used.

    A thread starts only after a slow read: rows in memory are read faster than a thread wakes up.
    """
    remaining = iter(parts)
    for part in remaining:
        started = time.perf_counter()
        values = reader.read(part.rows)
        if time.perf_counter() - started < HAND_OVER:
            yield values, part.labels
        else:
            yield from _read_ahead(reader, part, values, remaining)


def _read_ahead(
    reader: Reader, current: Samples | None, values: Values | None, remaining: Iterator[Samples]
) -> Iterator[tuple[Values, IntArray]]:
    """Yields a batch that has been read, then all remaining batches, read by a thread."""
    # The thread starts at the first `submit`, so a single batch starts none.
    with ThreadPoolExecutor(max_workers=1) as pool:  # the thread ends with the block, also if the consumer stops early
        while current is not None and values is not None:
            after = next(remaining, None)
            coming: Future[Values] | None = None if after is None else pool.submit(reader.read, after.rows)
            yield values, current.labels
            current, values = after, None if coming is None else coming.result()
