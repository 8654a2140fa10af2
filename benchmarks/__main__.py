"""Prints one table of ratios and writes it to `benchmarks/latest.json`."""

import json
from dataclasses import asdict
from pathlib import Path

from benchmarks import herding, pictures, shared_prefixes, step
from remem.runs.build import limit_threads


def main() -> None:
    limit_threads(1)
    rows = [row for part in (herding, pictures, step) for row in part.rows()]
    print(f"{'what':<56} {'against':<30} {'ours':>9} {'plain':>9} {'ratio':>6}")
    for row in rows:
        times = f"{1e3 * row.ours:>6.1f} ms {1e3 * row.plain:>6.1f} ms {row.ratio:>5.1f}x"
        print(f"{row.name:<56} {row.plain_name:<30} {times}")
    print()
    shared_prefixes.main()
    path = Path(__file__).with_name("latest.json")
    path.write_text(json.dumps([{**asdict(row), "ratio": row.ratio} for row in rows], indent=1) + "\n")


if __name__ == "__main__":
    main()
