"""Rows of figures: printed, kept as JSON, and as a table in docs/reports/performance.md."""

import json
import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LATEST = ROOT / "benchmarks" / "latest.json"  # what this machine measured last
KEPT = ROOT / "results" / "benchmarks.json"  # what the documentation shows
PAGE = ROOT / "docs" / "reports" / "performance.md"
BEGIN, END = "<!-- begin: python -m benchmarks --write-docs -->\n", "<!-- end -->\n"


@dataclass(frozen=True)
class Row:
    """One figure: what was measured, how much, how much was wanted, and what it comes from."""

    what: str
    value: float
    unit: str  # "x" for ratios, else "%", "GB", "points", ...
    wanted: str  # "" where nothing was
    detail: str

    @property
    def figure(self) -> str:
        digits = 2 if abs(self.value) < 10 else 1 if abs(self.value) < 100 else 0
        if 0 < abs(self.value) < 0.01:
            digits = 4
        return f"{self.value:.{digits}f}{'' if self.unit in 'x%' else ' '}{self.unit}"


Parts = dict[str, list[Row]]


def load(path: Path) -> Parts:
    """The rows of a file by part; none where there is no file."""
    if not path.exists():
        return {}
    return {part: [Row(**row) for row in rows] for part, rows in json.loads(path.read_text())["parts"].items()}


def save(path: Path, parts: Parts) -> None:
    machine = {"processor": processor(), "cores": os.cpu_count(), "python": platform.python_version()}
    rows = {part: [asdict(row) for row in rows] for part, rows in parts.items()}
    path.write_text(json.dumps({"machine": machine, "parts": rows}, separators=(",", ":")) + "\n")


def processor() -> str:
    """What the system calls it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def text(parts: Parts) -> str:
    rows = [("what", "figure", "wanted", "from")]
    rows += [(row.what, row.figure, row.wanted, row.detail) for part in parts.values() for row in part]
    return "\n".join("  ".join(cells).rstrip() for cells in padded(rows))


def markdown(parts: Parts) -> str:
    """The block of the page between its two marks."""
    lines = []
    for name, rows in parts.items():
        lines += [f"### {name}", "", "| what | figure | wanted | from |", "|---|--:|--:|---|"]
        lines += [f"| {row.what} | {row.figure} | {row.wanted} | {row.detail} |" for row in rows]
        lines.append("")
    return "\n".join(lines)


def block(page: str) -> str:
    """What a page has between the marks."""
    return page.partition(BEGIN)[2].partition(END)[0]


def write_docs() -> None:
    """The latest figures become those of the documentation."""
    parts = load(LATEST)
    save(KEPT, parts)
    page = PAGE.read_text()
    PAGE.write_text(page.replace(BEGIN + block(page) + END, BEGIN + markdown(parts) + END))


def padded(rows: Sequence[Sequence[str]]) -> Iterable[list[str]]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ([cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in rows)
