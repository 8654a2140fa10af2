"""The account of a stream's memory: what is held of every class, and how it is stored."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from html import escape

from remem.types import Json

Label = str | int | float | bool


@dataclass(frozen=True)
class MemoryRow:
    """What is held of one class."""

    label: Label
    samples: int
    bytes: int  # as stored: codes and records
    codec: str
    since: tuple[int, int]  # the updates that brought the oldest and the latest of its samples
    half: str | None  # harder or easier half of its phase; None until its first exemplars are chosen


@dataclass(frozen=True)
class MemoryTable:
    """All classes in their order of arrival."""

    rows: tuple[MemoryRow, ...]
    budget: str  # as given: 2000, 2MB, growing:20
    budget_bytes: int | None  # None where samples are counted

    @property
    def total_samples(self) -> int:
        return sum(row.samples for row in self.rows)

    @property
    def total_bytes(self) -> int:
        return sum(row.bytes for row in self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[MemoryRow]:
        return iter(self.rows)

    def __getitem__(self, place: int) -> MemoryRow:
        return self.rows[place]

    def to_json(self) -> Json:
        totals = {"samples": self.total_samples, "bytes": self.total_bytes}
        return {"budget": self.budget, **totals, "classes": [asdict(row) for row in self.rows]}

    def cells(self) -> list[tuple[str, ...]]:
        """The table as text, its header first."""
        header = ("class", "samples", "bytes", "codec", "since update", "half")
        return [header, *(_cells(row) for row in self.rows)]

    def __str__(self) -> str:
        cells = self.cells()
        widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in cells]
        total = f"{self.total_samples} samples, {self.total_bytes} bytes; budget {self.budget}"
        return "\n".join([*(line.rstrip() for line in lines), total])

    def _repr_html_(self) -> str:
        """For notebooks."""
        header, *rows = ("".join(f"<td>{escape(cell)}</td>" for cell in row) for row in self.cells())
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        return f"<table><thead><tr>{header}</tr></thead><tbody>{body}</tbody></table>"


def _cells(row: MemoryRow) -> tuple[str, ...]:
    first, last = row.since
    since = str(first) if first == last else f"{first} to {last}"
    return str(row.label), str(row.samples), str(row.bytes), row.codec, since, row.half or "latest"
