"""One incremental phase of `icarl`, batch 128: ours against the customary pipeline, ResNet-32 at 32 px, small at 16."""

from contextlib import ExitStack
from statistics import median
from typing import Any

from benchmarks.phase import BATCH, NETS
from benchmarks.table import Row
from benchmarks.timing import Turns, shown, speed_up

SIDES = {"ours": ("ours",), "no workers": ("customary",), "2 workers": ("customary", "--workers", "2")}
STEPS = {32: 3, 16: 12}  # in a turn, by the side of a picture: a second or two
WANTED = {32: 2.0, 16: 2.5}  # with bf16


def measure(size: int, threads: int, turns: int) -> dict[str, list[dict[str, Any]]]:
    """Measurements of all sides, a few steps of each in turn, in processes of their own: threads are per process."""
    measured: dict[str, list[dict[str, Any]]] = {side: [] for side in SIDES}
    options = ("--threads", str(threads), "--size", str(size), "--steps", str(STEPS[size]))
    with ExitStack() as stack:
        sides = {
            side: stack.enter_context(Turns("benchmarks.phase", *arguments, *options))
            for side, arguments in SIDES.items()
        }
        for turn in range(turns + 1):
            for side, process in sides.items():
                found = process.turn()
                if turn:  # the first warms up
                    measured[side].append(found)
    return measured


def rows_of(size: int, threads: int, turns: int) -> list[Row]:
    measured = measure(size, threads, turns)
    steps = {side: [found["step"] for found in results] for side, results in measured.items()}
    better = min(("no workers", "2 workers"), key=lambda side: median(steps[side]))
    step, plain = median(steps["ours"]), median(steps[better])
    data, peak = (median(found[key] for found in measured["ours"]) for key in ("data", "peak"))
    # Forward, backward (twice as much), and the teacher's forward pass.
    speed = 4 * measured["ours"][0]["flops"] / step
    name, precision = f"{size} px, {threads} thread{'s' * (threads > 1)}", measured["ours"][0]["precision"]
    return [
        Row(
            f"samples per second, {name}",
            speed_up(steps["ours"], steps[better]),
            "x",
            f"at least {WANTED[size] if precision == 'bf16' else 1.2:g}x",
            f"{NETS[size]}: {BATCH / step:.0f}/s in {precision} against {BATCH / plain:.0f}/s with {better}",
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
    return [row for size in NETS for threads in (1, 2) for row in rows_of(size, threads, turns)]
