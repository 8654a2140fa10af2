"""The same work on many things, by threads that live as long as the process: for what lets the interpreter go."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from itertools import islice
from typing import TypeVar

BLOCK = 8  # handed over at a time: one by one costs as much as opening a file
AHEAD = 2  # blocks under way for each thread: the rest is not looked at yet

T = TypeVar("T")
S = TypeVar("S")


def usable_cores() -> int:
    """The cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


THREADS = min(16, usable_cores())


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="helper")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # a child has none of its parent's threads


def in_threads(
    function: Callable[[S], T], items: Iterable[S], *, threads: int | None = None, block: int | None = None
) -> Iterator[T]:
    """Results in the order of the items; the first item that raises ends it, and what has not begun never will."""
    left, waiting = iter(items), deque[Future[list[T]]]()
    threads, size = threads or THREADS, block or BLOCK
    pool = _pool(threads)
    try:
        while True:
            while len(waiting) < AHEAD * threads and (some := list(islice(left, size))):
                waiting.append(pool.submit(_each, function, some))
            if not waiting:
                return
            yield from waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()


def _each(function: Callable[[S], T], block: list[S]) -> list[T]:
    return [function(item) for item in block]
