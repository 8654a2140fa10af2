"""One incremental phase of `icarl`, ResNet-32 at 32 px, batch 128: ours against the customary pipeline."""

from contextlib import ExitStack
from statistics import median
from typing import Any

from benchmarks.phase import BATCH
from benchmarks.table import Row
from benchmarks.timing import Turns, shown, speed_up

SIDES = {"ours": ("ours",), "no workers": ("customary",), "2 workers": ("customary", "--workers", "2")}


def measure(threads: int, turns: int) -> dict[str, list[dict[str, Any]]]:
    """Measurements of all sides, a few steps of each in turn, in processes of their own: threads are per process."""
    measured: dict[str, list[dict[str, Any]]] = {side: [] for side in SIDES}
    with ExitStack() as stack:
        sides = {
            side: stack.enter_context(Turns("benchmarks.phase", *arguments, "--threads", str(threads)))
            for side, arguments in SIDES.items()
        }
        for turn in range(turns + 1):
            for side, process in sides.items():
                found = process.turn()
                if turn:  # the first warms up
                    measured[side].append(found)
    return measured


def rows_of(threads: int, turns: int) -> list[Row]:
    measured = measure(threads, turns)
    steps = {side: [found["step"] for found in results] for side, results in measured.items()}
    better = min(("no workers", "2 workers"), key=lambda side: median(steps[side]))
    step, plain = median(steps["ours"]), median(steps[better])
    data, peak = (median(found[key] for found in measured["ours"]) for key in ("data", "peak"))
    # Forward, backward (twice as much), and the teacher's forward pass.
    speed = 4 * measured["ours"][0]["flops"] / step
    name, precision = f"{threads} thread{'s' if threads > 1 else ''}", measured["ours"][0]["precision"]
    return [
        Row(
            f"samples per second, {name}",
            speed_up(steps["ours"], steps[better]),
            "x",
            f"at least {2 if precision == 'bf16' else 1.2}x",
            f"{BATCH / step:.0f}/s in {precision} against {BATCH / plain:.0f}/s with {better}",
        ),
        Row(
            f"data handling, share of a step, {name}",
            100 * data / step,
            "%",
            "under 5%",
            f"{shown(data)} of {shown(step)}",
        ),
        Row(
            f"share of the peak, {name}",
            100 * speed / peak,
            "%",
            "",
            f"{speed / 1e9:.0f} of {peak / 1e9:.0f} GFLOP/s, the fastest {precision} matrix product",
        ),
    ]


def rows(turns: int = 8) -> list[Row]:
    return [row for threads in (1, 2) for row in rows_of(threads, turns)]
