"""A clock that adds up seconds by purpose."""

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Clock:
    """Measures seconds by purpose."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(("train", "select", "policy", "evaluate"), 0.0)

    @contextmanager
    def __call__(self, purpose: str) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[purpose] += time.perf_counter() - started
