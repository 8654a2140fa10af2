"""Checkpoints inside a phase: `training.safetensors`, after every `train.checkpoint_minutes` and when a signal comes.

There is one generation: the checkpoint of the phase before is the older one.
"""

import time
from pathlib import Path

from remem.errors import DamagedFileError
from remem.runs.prepared import Prepared
from remem.storage.event_log import LOG, read_log
from remem.storage.generations import Say
from remem.storage.jsonfile import differences
from remem.storage.tensorfile import Snapshot, load_snapshot, save_snapshot
from remem.types import Json

INSIDE = "training.safetensors"


class PhaseKeeper:
    """Saves training inside the phases of one run. All processes have one; the first writes."""

    def __init__(self, out: Path, prepared: Prepared, saved: Snapshot | None, *, writes: bool) -> None:
        self._path, self._log, self._writes = out / INSIDE, out / LOG, writes
        self._identity, self._saved = identity(prepared), saved
        self._seconds = 60 * prepared.config.train.checkpoint_minutes
        self._last = time.monotonic()
        self.log_lines = 0 if saved is None else int(saved.facts["log_lines"])

    def resume(self, phase: int) -> Snapshot | None:
        self._last = time.monotonic()
        saved, self._saved = self._saved, None
        return saved if saved is not None and saved.facts["phase"] == phase else None

    def due(self) -> bool:
        return 0 < self._seconds <= time.monotonic() - self._last

    def save(self, snapshot: Snapshot) -> None:
        if self._writes:
            facts = {**snapshot.facts, "identity": self._identity, "log_lines": len(read_log(self._log))}
            save_snapshot(self._path, Snapshot(facts, snapshot.tensors))
        self._last = time.monotonic()

    def clear(self) -> None:
        """Called once the whole phase is saved."""
        self._path.unlink(missing_ok=True)


def load_inside(out: Path, prepared: Prepared, phase: int, say: Say) -> Snapshot | None:
    """What was saved inside this phase; None if that is nothing, of another phase, or damaged."""
    path = out / INSIDE
    if not path.exists():
        return None
    try:
        saved = load_snapshot(path)
    except DamagedFileError as error:
        say(f"{error}; phase {phase} begins again")
        return None
    found = next(differences(identity(prepared), saved.facts.get("identity", {})), None)
    if found is not None:
        say(f"{path}: of another run ({found[0]} is {found[2]!r}, expected {found[1]!r}); phase {phase} begins again")
        return None
    return saved if saved.facts["phase"] == phase else None  # it was left by a kill just after the phase was saved


def identity(prepared: Prepared) -> Json:
    """Returns the settings and the data on which training inside a phase depends."""
    return {"config": prepared.config.public(), "data": prepared.scenario.fingerprint}
