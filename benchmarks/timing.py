"""Medians of interleaved timings: both sides feel the same noise of the machine."""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.table import Row


def alternate(
    sides: Mapping[str, Callable[[], object]], repeats: int, clock: Callable[[], float] = time.process_time
) -> dict[str, float]:
    """Seconds of every side: all in turn, once to warm up and then `repeats` times; the medians.

    Of the processor, unless told otherwise: waiting for a core that others use is no work.
    """
    times: dict[str, list[float]] = {name: [] for name in sides}
    for attempt in range(repeats + 1):
        for name, work in sides.items():
            started = clock()
            work()
            if attempt:
                times[name].append(clock() - started)
    return {name: statistics.median(taken) for name, taken in times.items()}


def ratio(what: str, ours: float, plain: float, against: str, wanted: str = "") -> Row:
    """How many times faster ours is."""
    return Row(what, plain / ours, "x", wanted, f"{shown(ours)} against {shown(plain)} of {against}")


def shown(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1e3 * seconds:.3g} ms"


def child(module: str, *arguments: str) -> dict[str, Any]:
    """What a benchmark prints, as its last line, from a process of its own."""
    command = [sys.executable, "-m", module, *arguments]
    found = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    answer: dict[str, Any] = json.loads(found.splitlines()[-1])
    return answer
