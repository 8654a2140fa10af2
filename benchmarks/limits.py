"""Where the time of a training step goes, by torch's profiler: `python -m benchmarks.limits SIZE`, one thread."""

import json
import sys
from collections.abc import Mapping

from torch.profiler import ProfilerActivity, profile

from benchmarks.phase import BATCH, NETS, Ours, held, prepared_run, untrained
from benchmarks.table import Row
from benchmarks.timing import child
from remem.runs.devices import limit_threads
from remem.runs.heap import keep_freed_memory

STEPS = 12
KINDS = {  # by a part of an operator's name; the first that fits
    "convolutions": ("conv", "mkldnn"),
    "batch norm": ("batch_norm",),
    "additions, ReLU": ("add", "relu", "clamp", "threshold"),
    "conversions and copies": ("copy", "_to_copy", "contiguous", "empty", "zero", "fill"),
}
OTHER = "all else"


def measure(size: int) -> dict[str, float]:
    """Shares of a step in %, by kind of operator, teacher and optimiser included."""
    limit_threads(1)
    keep_freed_memory()
    prepared = prepared_run(1, 1, size=size)
    samples = held(prepared, 20, 500).take(slice(-STEPS * BATCH, None))
    ours = Ours(prepared)
    ours.fit(untrained(prepared), samples)  # warms up
    with profile(activities=[ProfilerActivity.CPU]) as found:
        ours.fit(untrained(prepared), samples)
    seconds = dict.fromkeys((*KINDS, OTHER), 0.0)
    for event in found.key_averages():
        if event.key.startswith(("aten::", "torch", "autograd", "Optimizer")):
            seconds[kind_of(event.key)] += event.self_cpu_time_total
    total = sum(seconds.values())
    return {kind: 100 * own / total for kind, own in seconds.items()}


def kind_of(operator: str) -> str:
    return next((kind for kind, parts in KINDS.items() if any(part in operator for part in parts)), OTHER)


def rows() -> list[Row]:
    return [row for size in NETS for row in rows_of(size, child("benchmarks.limits", str(size)))]


def rows_of(size: int, shares: Mapping[str, float]) -> list[Row]:
    name = f"{NETS[size]}, {size} px"
    return [Row(f"{kind}, share of a step, {name}", share, "%", "", "1 thread") for kind, share in shares.items()]


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]))))
