"""One incremental phase of `icarl`, ResNet-32 at 32 px, batch 128: ours against the customary pipeline."""

import statistics
from typing import Any

from benchmarks.phase import BATCH
from benchmarks.table import Row
from benchmarks.timing import child, shown

SIDES = {"ours": ("ours",), "no workers": ("customary",), "2 workers": ("customary", "--workers", "2")}


def measure(threads: int, rounds: int) -> dict[str, dict[str, Any]]:
    """Seconds of a step and what else the sides tell, all in turn; processes of their own, since memory and threads
    are settings of a process."""
    told: dict[str, list[dict[str, Any]]] = {side: [] for side in SIDES}
    for _ in range(rounds):
        for side, arguments in SIDES.items():
            told[side].append(child("benchmarks.phase", *arguments, "--threads", str(threads)))
    steps = {side: [step for found in all_found for step in found["steps"]] for side, all_found in told.items()}
    return {side: {**told[side][-1], "step": statistics.median(steps[side])} for side in SIDES}


def rows_of(threads: int, rounds: int) -> list[Row]:
    found = measure(threads, rounds)
    ours, better = found["ours"], min(("no workers", "2 workers"), key=lambda side: found[side]["step"])
    step, plain = ours["step"], found[better]["step"]
    name = f"{threads} thread{'s' if threads > 1 else ''}"
    # Forward, backward (twice as much), and the teacher's forward pass.
    speed = 4 * ours["flops"] / step
    return [
        Row(
            f"samples per second, {name}",
            plain / step,
            "x",
            "at least 1.2x (2x with bf16)",
            f"{BATCH / step:.0f}/s against {BATCH / plain:.0f}/s with {better}",
        ),
        Row(
            f"data handling, share of a step, {name}",
            100 * ours["data"] / step,
            "%",
            "under 5%",
            f"{shown(ours['data'])} of {shown(step)}",
        ),
        Row(
            f"share of the peak, {name}",
            100 * speed / ours["peak"],
            "%",
            "",
            f"{speed / 1e9:.0f} of {ours['peak'] / 1e9:.0f} GFLOP/s, the fastest matrix product",
        ),
    ]


def rows(rounds: int = 2) -> list[Row]:
    return [row for threads in (1, 2) for row in rows_of(threads, rounds)]
