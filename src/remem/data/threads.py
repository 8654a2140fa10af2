"""The same work on many files, by threads that live as long as the process. Pillow runs beside itself in them."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from itertools import islice
from typing import TypeVar

BLOCK = 8  # files handed over at a time: one by one costs as much as opening them
AHEAD = 2  # blocks under way for each thread: the rest of the files is not looked at yet

T = TypeVar("T")
S = TypeVar("S")


def usable_cores() -> int:
    """The cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


THREADS = min(16, usable_cores())


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="files")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # a child has none of its parent's threads


def in_threads(function: Callable[[S], T], items: Iterable[S]) -> Iterator[T]:
    """Results in the order of the items; the first item that raises ends it, and what has not begun never will."""
    left, waiting = iter(items), deque[Future[list[T]]]()
    pool = _pool(THREADS)
    try:
        while True:
            while len(waiting) < AHEAD * THREADS and (block := list(islice(left, BLOCK))):
                waiting.append(pool.submit(_each, function, block))
            if not waiting:
                return
            yield from waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()


def _each(function: Callable[[S], T], block: list[S]) -> list[T]:
    return [function(item) for item in block]
