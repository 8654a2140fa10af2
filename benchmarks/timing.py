"""Medians of interleaved timings: both sides feel the same noise of the machine."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One line of the table: what was measured, ours and the plain version in seconds, how often."""

    name: str
    ours: float
    plain: float
    plain_name: str

    @property
    def ratio(self) -> float:
        return self.plain / self.ours


def compare(name: str, ours: Callable[[], object], plain: Callable[[], object], plain_name: str, repeats: int) -> Row:
    """Both sides in turn, once to warm up and then `repeats` times; the medians."""
    times: tuple[list[float], list[float]] = ([], [])
    for attempt in range(repeats + 1):
        for side, work in enumerate((ours, plain)):
            started = time.perf_counter()
            work()
            if attempt:
                times[side].append(time.perf_counter() - started)
    return Row(name, statistics.median(times[0]), statistics.median(times[1]), plain_name)
