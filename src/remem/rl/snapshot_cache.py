"""Caches of inner-node snapshots, in memory or on disk, with a size limit. Evicted snapshots are trained again."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from remem.errors import DamagedFileError
from remem.recent import Recent
from remem.rl.paths import Node, node_name
from remem.runs.migrations import migrate_episode
from remem.storage.tensorfile import Snapshot, load_snapshot, save_snapshot

SUFFIX, NODE = ".snapshot", "node"


class SnapshotCache(Protocol):
    """Keeps the snapshots of inner nodes for training their children."""

    def put(self, node: Node, snapshot: Snapshot) -> None: ...

    def find(self, node: Node) -> Snapshot | None: ...


class MemorySnapshotCache(Recent[Node, Snapshot]):
    """Caches snapshots in memory."""

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(limit_bytes, size_of)


def size_of(snapshot: Snapshot) -> int:
    """Returns the bytes of a snapshot's tensors; its facts are small."""
    return sum(tensor.nbytes for tensor in snapshot.tensors.values())


class DiskSnapshotCache:
    """Caches one file per node, shared by all workers. Beyond the limit, the least recently used ones are evicted."""

    def __init__(self, folder: Path, limit_bytes: int) -> None:
        self.folder = folder
        self._limit = limit_bytes

    def put(self, node: Node, snapshot: Snapshot) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        facts = {**snapshot.facts, NODE: self._file(node).stem}
        save_snapshot(self._file(node), Snapshot(facts, snapshot.tensors))
        self._make_room()

    def find(self, node: Node) -> Snapshot | None:
        """Returns None if the snapshot was never put, was removed (by any process, at any time) or is damaged."""
        path = self._file(node)
        try:
            snapshot = load_snapshot(path, migrate_episode)
        except DamagedFileError:
            return None
        if snapshot.facts.pop(NODE, path.stem) != path.stem:  # another node's
            return None
        with suppress(OSError):
            os.utime(path)
        return snapshot

    def _file(self, node: Node) -> Path:
        return self.folder / (node_name(node) + SUFFIX)

    def _make_room(self) -> None:
        files = []
        for path in self.folder.glob(f"*{SUFFIX}"):
            with suppress(FileNotFoundError):
                status = path.stat()
                files.append((status.st_mtime_ns, status.st_size, path))
        total = sum(size for _, size, _ in files)
        for _, size, path in sorted(files):
            if total <= self._limit:
                return
            path.unlink(missing_ok=True)
            total -= size
