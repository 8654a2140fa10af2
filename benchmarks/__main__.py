"""Prints one table of figures and keeps them: `python -m benchmarks [PART ...] [--write-docs]`."""

import argparse
from collections.abc import Callable

from benchmarks import (
    accuracy,
    codecs,
    decoding,
    herding,
    limits,
    pictures,
    plain_phase,
    policy_learning,
    startup,
    step,
    table,
    tried,
    whole_runs,
    workers,
)
from benchmarks.table import Row
from remem.runs.devices import limit_threads
from remem.runs.heap import keep_freed_memory

PARTS: dict[str, Callable[[], list[Row]]] = {
    "startup": startup.rows,
    "herding": herding.rows,
    "pictures": pictures.rows,
    "decoding": decoding.rows,
    "codecs": codecs.rows,
    "step": step.rows,
    "limits": limits.rows,
    "phases": plain_phase.rows,
    "runs": whole_runs.rows,
    "learning": policy_learning.cost_rows,
    "search": policy_learning.search_rows,
    "exhaustive": policy_learning.exhaustive_rows,
    "memory": policy_learning.memory_rows,
    "accuracy": accuracy.rows,
    "tried": tried.rows,
    "workers": workers.rows,
}
SLOW = (  # minutes each: only when they are named
    "phases",
    "learning",
    "exhaustive",
    "memory",
    "accuracy",
    "tried",
    "workers",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; none: all but {SLOW}")
    parser.add_argument("--write-docs", action="store_true", help="copy the latest figures into the docs")
    options = parser.parse_args()
    unknown = [part for part in options.parts if part not in PARTS]
    if unknown:
        parser.error(f"no part '{unknown[0]}'; there are {', '.join(PARTS)}")
    if not options.write_docs or options.parts:
        limit_threads(1)
        keep_freed_memory()  # as every run does
        for name in options.parts or [part for part in PARTS if part not in SLOW]:
            rows = PARTS[name]()
            print(table.text({name: rows}), flush=True)
            latest = table.load(table.LATEST) | {name: rows}
            table.save(table.LATEST, {part: latest[part] for part in PARTS if part in latest})
    if options.write_docs:
        table.write_docs()


if __name__ == "__main__":
    main()
