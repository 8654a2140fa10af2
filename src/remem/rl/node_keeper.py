"""Training that is saved inside a node of the prefix tree: after every `train.checkpoint_minutes`, and on a signal."""

import time
from pathlib import Path

from remem.errors import DamagedFileError
from remem.rl.paths import Node, node_name
from remem.storage.tensorfile import Snapshot, load_snapshot, save_snapshot

SUFFIX, NODE = ".training", "node"


class NodeKeeper:
    """Keeps a file beside the snapshots of inner nodes while a node is trained.

    The file outlives its node until this process enters another one: only then is the node's reward in the log.
    """

    def __init__(self, folder: Path, seconds: float) -> None:
        self._folder, self._seconds = folder, seconds
        self._path: Path | None = None
        self._last = time.monotonic()

    def enter(self, node: Node) -> None:
        """Called before a node is trained."""
        path = self._folder / (node_name(node) + SUFFIX)
        if self._path is not None and self._path != path:
            self._path.unlink(missing_ok=True)
        self._path, self._last = path, time.monotonic()

    def resume(self, phase: int) -> Snapshot | None:
        """What was saved inside the node by this process or another one; None if that is nothing or damaged."""
        if self._path is None or not self._path.exists():
            return None
        try:
            saved = load_snapshot(self._path)
        except DamagedFileError:
            return None
        own = saved.facts.get(NODE) == self._path.stem and saved.facts.get("phase") == phase
        return saved if own else None

    def due(self) -> bool:
        return 0 < self._seconds <= time.monotonic() - self._last

    def save(self, snapshot: Snapshot) -> None:
        if self._path is not None:
            self._folder.mkdir(parents=True, exist_ok=True)
            save_snapshot(self._path, Snapshot({**snapshot.facts, NODE: self._path.stem}, snapshot.tensors))
        self._last = time.monotonic()
