"""What work will cost: ranges of seconds, and whether other programs keep the machine busy."""

import os
import time
from dataclasses import dataclass
from typing import NamedTuple

from remem.threads import usable_cores

NOTICEABLE = 0.5  # cores that other programs use before it is worth a word
SQUEEZED = 1.25  # times as long on the clock as in CPU seconds


@dataclass(frozen=True)
class Range:
    """From `low` to `high`, mostly seconds. Parts of a sum are fast or slow together: the machine is the same."""

    low: float = 0.0
    high: float = 0.0

    def __add__(self, other: "Range") -> "Range":
        return Range(self.low + other.low, self.high + other.high)

    def __mul__(self, factor: "float | Range") -> "Range":
        factors = factor if isinstance(factor, Range) else Range(factor, factor)
        return Range(self.low * factors.low, self.high * factors.high)

    def shares_of(self, other: "Range") -> "Range":
        """How many times the other one, both on a quiet machine or both on a slow one."""
        return Range(*sorted((self.low / other.low, self.high / other.high)))


class Machine(NamedTuple):
    """The cores of this machine, and how many of them other programs use."""

    cores: int
    others: float

    def crowding(self, needed: float) -> float:
        """How many times as long work on this many cores takes because of other programs; at least 1."""
        return max(1.0, (min(needed, self.cores) + self.others) / self.cores)

    def is_crowded(self, needed: float) -> bool:
        return self.others >= NOTICEABLE and self.crowding(needed) > 1


def machine_now() -> Machine:
    """The load of the last minute, without this program's own part."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    return Machine(usable_cores(), others_of(load, time.process_time()))


def others_of(load: float, own_seconds: float) -> float:
    """The load of other programs. This one, seconds old, has been part of the last minute for its CPU seconds."""
    return max(0.0, load - own_seconds / 60)


def parallel(workers: int, jobs: int, threads: int, cores: int) -> float:
    """How many jobs are really trained at a time: more workers than cores gain nothing."""
    return max(1.0, min(workers, jobs, cores / threads))
