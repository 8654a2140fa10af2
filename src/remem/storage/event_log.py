"""Append-only event logs: `log.jsonl` of a run or a policy's learning, one JSON object per line."""

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from remem.events import Event
from remem.storage.atomic import write_atomically
from remem.types import Json

LOG = "log.jsonl"


class EventLog:
    """A subscriber that appends events of some kinds to a file."""

    def __init__(self, path: Path, kinds: tuple[type[Event], ...]) -> None:
        self._path, self._kinds = path, kinds

    def __call__(self, event: Event) -> None:
        if isinstance(event, self._kinds):
            with open(self._path, "a", encoding="utf-8") as file:
                file.write(json.dumps(event.to_json()) + "\n")

    def write_text(self, text: str) -> None:
        """Replaces the whole log."""
        write_atomically(self._path, text.encode())

    def trim(self, keep: Callable[[Json], bool]) -> None:
        """Drops entries of work that was cut off and will be done again, and lines that were damaged."""
        kept = [json.dumps(entry) + "\n" for entry in read_log(self._path) if keep(entry)]
        write_atomically(self._path, "".join(kept).encode())


def read_log(path: Path) -> list[Json]:
    """The entries of a log; lines that were cut off or damaged are left out."""
    entries: list[Json] = []
    if path.exists():
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            with suppress(ValueError):
                entry = json.loads(line)
                if isinstance(entry, dict):
                    entries.append(entry)
    return entries
