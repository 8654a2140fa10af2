"""Threads of this process: a pool for work that releases the GIL, such as decoding images, and how OpenMP waits."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from itertools import islice
from typing import TypeVar

BLOCK = 8  # items per task: submitting items one by one costs as much as opening a file
AHEAD = 2  # blocks submitted ahead for each thread; later items are not taken from the iterable yet
# Looks at the lock before a waiting OpenMP thread sleeps. libgomp's own number is 300,000, some milliseconds. That is
# a scheduler's slice: on busy cores a waiting thread uses up the time that the thread it waits for would need.
SPINS = 10_000

T = TypeVar("T")
S = TypeVar("S")


def usable_cores() -> int:
    """The number of cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


THREADS = min(16, usable_cores())


def limit_spinning() -> None:
    """Lets OpenMP threads that wait for others sleep sooner. It must be called before torch is imported.

    No result depends on it (docs/reports/performance.md). A user's own `GOMP_SPINCOUNT` or `OMP_WAIT_POLICY` stays.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", str(SPINS))


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="helper")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # threads do not survive a fork


def in_threads(
    function: Callable[[S], T], items: Iterable[S], *, threads: int | None = None, block: int | None = None
) -> Iterator[T]:
    """Maps `function` over `items` in the pool and yields results in order.

    The first exception is raised in its place, and tasks that have not started are cancelled.
    """
    remaining, pending = iter(items), deque[Future[list[T]]]()
    threads, size = threads or THREADS, block or BLOCK
    pool = _pool(threads)
    try:
        while True:
            while len(pending) < AHEAD * threads and (chunk := list(islice(remaining, size))):
                pending.append(pool.submit(_map, function, chunk))
            if not pending:
                return
            yield from pending.popleft().result()
    finally:
        for future in pending:
            future.cancel()


def _map(function: Callable[[S], T], items: list[S]) -> list[T]:
    return [function(item) for item in items]
