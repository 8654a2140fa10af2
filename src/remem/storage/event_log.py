"""Append-only event logs: `log.jsonl` of a run or a policy's learning, one JSON object per line."""

import json
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from remem.events import Event
from remem.storage.atomic import named, sync, write_atomically
from remem.storage.limits import parse_json
from remem.types import Json

LOG = "log.jsonl"
SYNC_SECONDS = 1.0  # a power cut loses at most the lines of so many seconds; a kill loses none


class LineFile:
    """Appends lines to a file, and syncs it about once per second."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._synced = 0.0

    def append(self, line: str) -> None:
        try:
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(line + "\n")
                if time.monotonic() - self._synced > SYNC_SECONDS:
                    file.flush()
                    sync(file.fileno())
                    self._synced = time.monotonic()
        except OSError as error:
            raise named(error, self.path) from None


class EventLog:
    """A subscriber that appends events of some kinds to a file."""

    def __init__(self, path: Path, kinds: tuple[type[Event], ...]) -> None:
        self._path, self._kinds, self._lines = path, kinds, LineFile(path)

    def __call__(self, event: Event) -> None:
        if isinstance(event, self._kinds):
            self._lines.append(json.dumps(event.to_json()))

    def write_text(self, text: str) -> None:
        """Replaces the whole log."""
        write_atomically(self._path, text.encode())

    def trim(self, keep: Callable[[Json], bool], *, first: int = 0) -> None:
        """Drops entries of work that was cut off and will be done again, and lines that were damaged.

        The first so many entries are kept in any case.
        """
        entries = enumerate(read_log(self._path))
        kept = [json.dumps(entry) + "\n" for place, entry in entries if place < first or keep(entry)]
        write_atomically(self._path, "".join(kept).encode())


def read_log(path: Path) -> list[Json]:
    """The entries of a log; lines that were cut off or damaged are left out."""
    entries: list[Json] = []
    if path.exists():
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            with suppress(ValueError):
                entry = parse_json(line.encode())
                if isinstance(entry, dict):
                    entries.append(entry)
    return entries
