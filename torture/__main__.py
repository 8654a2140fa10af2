"""`python -m torture`: kills, damaged files, mutated inputs and random allocations; exit code 1 if anything broke."""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from torture import allocations, damage, inputs, kills, updates


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="torture", description="Tries to break what reliability.md promises.")
    parser.add_argument("--kills", type=int, default=1000, metavar="N", help="of runs, learnings and studies")
    parser.add_argument("--updates", type=int, default=200, metavar="N", help="kills of updates of a model")
    parser.add_argument("--damage", type=int, default=5000, metavar="N", help="damaged state files")
    parser.add_argument("--inputs", type=int, default=100_000, metavar="N", help="mutated inputs")
    parser.add_argument("--steps", type=int, default=1_000_000, metavar="N", help="random allocation steps")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    failures = 0
    parts: dict[str, tuple[int, Callable[[int, Path], Any]]] = {
        "kills": (options.kills, lambda count, folder: kills.torture(count, Random(options.seed), folder)),
        "updates": (options.updates, lambda count, folder: updates.torture(count, Random(options.seed), folder)),
        "damage": (options.damage, lambda count, folder: damage.torture(count, Random(options.seed), folder)),
        "inputs": (options.inputs, lambda count, folder: inputs.torture(count, Random(options.seed), folder)),
        "steps": (options.steps, lambda count, _: allocations.torture(count, Random(options.seed))),
    }
    for name, (count, run) in parts.items():
        if count:
            started = time.perf_counter()
            with TemporaryDirectory(prefix="torture-") as folder:
                tally = run(count, Path(folder))
            facts = ", ".join(f"{key} {_short(value)}" for key, value in vars(tally).items() if key != "failures")
            print(f"{name}: {facts}; {len(tally.failures)} failures, {time.perf_counter() - started:.0f} s", flush=True)
            for failure in tally.failures[:20]:
                print(f"  {failure}", flush=True)
            failures += len(tally.failures)
    return 1 if failures else 0


def _short(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(dict(value) if isinstance(value, dict) else value)


if __name__ == "__main__":
    sys.exit(main())
