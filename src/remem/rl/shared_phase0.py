"""Phases 0 of pseudo tasks that policy trainings share: those for other numbers of phases, levels or searches."""

from pathlib import Path

from remem.errors import DamagedFileError
from remem.rl.paths import TaskKey
from remem.runs.migrations import migrate_episode
from remem.runs.phase0_cache import phase0_key
from remem.runs.prepared import Prepared
from remem.storage.tensorfile import Snapshot, load_snapshot, save_snapshot

KEY = "key"


class SharedPhase0:
    """A folder of snapshots after phase 0, named by everything that phase 0 of a pseudo task depends on."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def find(self, task: TaskKey, prepared: Prepared) -> Snapshot | None:
        """Returns None if no training has come that far, or if the file is damaged or another's."""
        path = self._file(task, prepared)
        try:
            snapshot = load_snapshot(path, migrate_episode)
        except DamagedFileError:
            return None
        return snapshot if snapshot.facts.pop(KEY, None) == path.stem else None

    def put(self, task: TaskKey, prepared: Prepared, snapshot: Snapshot) -> None:
        path = self._file(task, prepared)
        self.folder.mkdir(parents=True, exist_ok=True)
        save_snapshot(path, Snapshot({**snapshot.facts, KEY: path.stem}, snapshot.tensors))

    def _file(self, task: TaskKey, prepared: Prepared) -> Path:
        """The random streams of a pseudo task depend on its number, and not only on what a target's phase 0 does."""
        return self.folder / f"{task.stream.replace(' ', '-')}-{phase0_key(prepared)}.snapshot"
