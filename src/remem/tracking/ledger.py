"""Which run of a tracker belongs to a folder, so that resumed work goes on with it: `tracking/KIND/NAME.json`."""

import json
from pathlib import Path

from remem.storage.jsonfile import write_json
from remem.types import Json

FOLDER = "tracking"


class Ledger:
    """The tracker's own name for a run, and whatever else the tracker cannot be asked for."""

    def __init__(self, out: Path, kind: str, name: str) -> None:
        self._path = out / FOLDER / kind / f"{name}.json"

    def read(self) -> Json:
        """Empty if nothing was tracked so far, or if the file is damaged: then a new run of the tracker begins."""
        try:
            facts = json.loads(self._path.read_bytes())
        except (OSError, ValueError, RecursionError):
            return {}
        return facts if isinstance(facts, dict) else {}

    def write(self, facts: Json) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        write_json(self._path, facts)
