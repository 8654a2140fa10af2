"""Interleaved timings: all sides in turn, so that each feels the same noise; medians of paired ratios."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from statistics import median
from types import TracebackType
from typing import Any, Self

from benchmarks.table import Row


def alternate(
    sides: Mapping[str, Callable[[], object]],
    repeats: int,
    clock: Callable[[], float] = time.process_time,
    *,
    wake: float = 0,
) -> dict[str, list[float]]:
    """Seconds of every side: all in turn, once to warm up and then `repeats` times.

    By default CPU seconds, which do not count waiting for a busy core. Each side first works for `wake` seconds that
    are not measured, because a core that was idle while another side used one thread is slow at first.
    """
    times: dict[str, list[float]] = {name: [] for name in sides}
    for attempt in range(repeats + 1):
        for name, work in sides.items():
            awake = time.perf_counter() + wake
            while time.perf_counter() < awake:
                work()
            started = clock()
            work()
            if attempt:
                times[name].append(clock() - started)
    return times


class CpuClock:
    """Measures CPU seconds by part."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, part: str) -> Iterator[None]:
        started = time.process_time()
        yield
        self.seconds[part] = time.process_time() - started


def speed_up(ours: Sequence[float], plain: Sequence[float]) -> float:
    """How many times faster ours is: the median over turns, since a machine has fast and slow minutes."""
    return median(b / a for a, b in zip(ours, plain, strict=True))


def ratio(what: str, ours: Sequence[float], plain: Sequence[float], against: str, wanted: str = "") -> Row:
    detail = f"{shown(median(ours))} against {shown(median(plain))} of {against}"
    return Row(what, speed_up(ours, plain), "x", wanted, detail)


def shown(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1e3 * seconds:.3g} ms"


def child(module: str, *arguments: str) -> dict[str, Any]:
    """What a benchmark prints, as its last line, from a process of its own."""
    command = [sys.executable, "-m", module, *arguments]
    found = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    answer: dict[str, Any] = json.loads(found.splitlines()[-1])
    return answer


class Turns:
    """A benchmark in a process of its own; whenever it is asked, it works for a while and prints what that took."""

    def __init__(self, module: str, *arguments: str) -> None:
        command = [sys.executable, "-m", module, *arguments]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()  # the end of its input tells it to go

    def turn(self) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer


def wait_for_turn() -> None:
    """The other end: goes on when asked, ends with the input."""
    if not sys.stdin.readline():
        raise SystemExit
