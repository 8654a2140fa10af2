"""Measures how long training takes: CPU time of short repeats, which depends little on what else the machine does."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

FEWEST, GROWTH, MOST_BATCHES = 2, 4, 8  # samples of the first attempt, growth factor, limit in batches
LEAST_REPEATS, MOST_REPEATS = 2, 5  # of the largest attempt
WORST_GAIN = 0.5  # of several threads on busy cores: they take twice as long as one, or even longer
PATIENCE = 3  # a busy machine may take this many times as long on the clock


class Lap(NamedTuple):
    """The time of one piece of work."""

    work: float  # CPU seconds of this process
    wall: float


Laps = Mapping[str, Lap]  # by stage


class Clock(NamedTuple):
    """Where times come from. On a GPU both are the same, since the CPU only waits."""

    work: Callable[[], float] = time.process_time
    wall: Callable[[], float] = time.perf_counter

    def now(self) -> Lap:
        return Lap(self.work(), self.wall())


class Stopwatch:
    """Returns the time since its last lap."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._last = clock, clock.now()

    def lap(self) -> Lap:
        now, last = self._clock.now(), self._last
        self._last = now
        return Lap(now.work - last.work, now.wall - last.wall)


@dataclass(frozen=True)
class Timing:
    """Repeated attempts with `count` samples, and one with fewer."""

    count: int
    batch: int  # samples of a real batch
    repeats: tuple[Laps, ...]
    smaller: tuple[int, Laps] | None = None

    def paces(self) -> dict[str, float]:
        """CPU seconds per sample of each stage, at the real batch size."""
        return {stage: self._pace(stage) for stage in self.repeats[0]}

    def _pace(self, stage: str) -> float:
        """Extrapolates if not even one batch was tried: a step takes a fixed time and a time per sample."""
        whole = median(laps[stage].work for laps in self.repeats)
        if self.count >= self.batch or self.smaller is None:
            return whole / self.count
        fewer, laps = self.smaller
        each = (whole - laps[stage].work) / (self.count - fewer)
        # Noise must not turn all of it into one or the other.
        each = min(max(each, whole / self.count / GROWTH), whole / self.count)
        return each + (whole - each * self.count) / self.batch


def repeat(attempt: Callable[[int], Laps], batch: int, seconds: float, clock: Clock) -> Timing:
    """Attempts more and more samples, up to some batches, while CPU time allows; then repeats the last attempt."""
    began = clock.now()

    def spent() -> float:
        now = clock.now()
        return max(now.work - began.work, (now.wall - began.wall) / PATIENCE)

    attempt(FEWEST)  # warm-up
    count, took, smaller = FEWEST, 0.0, None
    while True:
        before, shorter = spent(), took
        laps = attempt(count)
        took = spent() - before
        larger = _whole(GROWTH * count, batch)
        # A step takes a fixed time and a time for each sample. Two attempts tell them apart, so a second one is due.
        each = 0.0 if smaller is None else max(0.0, (took - shorter) / (count - smaller[0]))
        next_ones = 0.0 if smaller is None else LEAST_REPEATS * (took + each * (larger - count))
        if count >= MOST_BATCHES * batch or spent() + next_ones > seconds:
            break
        smaller, count = (count, laps), larger
    repeats = [laps]
    while len(repeats) < LEAST_REPEATS or (len(repeats) < MOST_REPEATS and spent() + took <= seconds):
        repeats.append(attempt(count))
    return Timing(count, batch, tuple(repeats), smaller)


def _whole(count: int, batch: int) -> int:
    """Rounds down to whole batches, if there is at least one: a smaller last batch would distort the average."""
    batches = min(count // batch, MOST_BATCHES)
    return batches * batch if batches else count


class Spread(NamedTuple):
    """Factors of an estimate that give its range on a quiet machine."""

    low: float
    high: float


# Repeats of one step differ by a tenth on a quiet virtual machine. The work between steps, and later phases with larger
# heads, take longer than what was measured more often than they take less.
LEAST_SPREAD = Spread(0.8, 1.3)


def spread_of(timings: Sequence[Timing]) -> Spread:
    """The fastest and the slowest repeats in relation to the median ones, or the least spread if that is wider."""
    repeats = [[lap.work for lap in laps] for timing in timings for laps in _by_stage(timing)]
    middle = sum(map(median, repeats))
    low, high = (sum(map(extreme, repeats)) / middle for extreme in (min, max))
    return Spread(min(LEAST_SPREAD.low, low), max(LEAST_SPREAD.high, high))


def stretch_of(timings: Sequence[Timing]) -> float:
    """How many times as long repeats took on the clock as on a core of their own; at least 1."""
    laps = [lap for timing in timings for stage in _by_stage(timing) for lap in stage]
    return max(1.0, sum(lap.wall for lap in laps) / sum(lap.work for lap in laps))


def _by_stage(timing: Timing) -> list[list[Lap]]:
    return [[laps[stage] for laps in timing.repeats] for stage in timing.repeats[0]]


class Gain(NamedTuple):
    """How many times as fast several threads are as one."""

    best: float = 1.0
    quiet: float = 1.0  # on a quiet machine, probably
    now: float = 1.0  # under the present load; below 1 if threads keep each other waiting


def gain_of(one: Lap, several: Lap, threads: int) -> Gain:
    """Compares the same work on one and on several threads. None of the figures goes beyond what is possible."""
    quiet = min(max(one.work * threads / several.work, 1.0), threads)
    return Gain(quiet, quiet, min(max(one.wall / several.wall, WORST_GAIN), threads))


def assumed_gain(threads: int) -> Gain:
    """What cannot be measured on a busy machine, where threads that wait for each other use CPU time, too.

    On a quiet one, two threads of this project were 1.0 (8 px) to 1.7 (32 px) times as fast as one.
    """
    return Gain(threads, threads**0.5, WORST_GAIN)
