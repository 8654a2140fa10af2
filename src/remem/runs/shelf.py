"""Snapshots of inner nodes on disk, shared by the processes of one learner, within a size limit."""

import hashlib
import os
from contextlib import suppress
from pathlib import Path

from remem.episode import Snapshot
from remem.errors import DamagedFileError
from remem.rl.paths import Node
from remem.runs.checkpoint import load_snapshot, save_snapshot

SUFFIX = ".snapshot"


class DiskShelf:
    """A file per node; when the limit is passed, those not used for longest go first. Nothing here is irreplaceable."""

    def __init__(self, folder: Path, limit_bytes: int) -> None:
        self._folder = folder
        self._limit = limit_bytes

    def put(self, node: Node, snapshot: Snapshot) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        save_snapshot(self._file(node), snapshot)
        self._make_room()

    def find(self, node: Node) -> Snapshot | None:
        """None where it was never put, was removed (another process may do so at any moment), or is damaged."""
        path = self._file(node)
        try:
            snapshot = load_snapshot(path)
        except DamagedFileError:
            return None
        with suppress(FileNotFoundError):
            os.utime(path)
        return snapshot

    def _file(self, node: Node) -> Path:
        return self._folder / (hashlib.sha256(repr(node).encode()).hexdigest()[:32] + SUFFIX)

    def _make_room(self) -> None:
        files = []
        for path in self._folder.glob(f"*{SUFFIX}"):
            with suppress(FileNotFoundError):
                status = path.stat()
                files.append((status.st_mtime_ns, status.st_size, path))
        total = sum(size for _, size, _ in files)
        for _, size, path in sorted(files):
            if total <= self._limit:
                return
            path.unlink(missing_ok=True)
            total -= size
