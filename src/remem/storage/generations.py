"""Checkpoints in two generations: the newer one, and the one before it in case the newer one is damaged."""

from collections.abc import Callable
from pathlib import Path

from remem.errors import DamagedFileError
from remem.storage.atomic import write_atomically
from remem.storage.tensorfile import Migration, Snapshot, encode_snapshot, load_snapshot

Say = Callable[[str], None]


def previous(path: Path) -> Path:
    """Where the older generation is: `checkpoint.safetensors` -> `checkpoint.previous.safetensors`."""
    return path.with_name(f"{path.stem}.previous{path.suffix}")


def save_generation(path: Path, snapshot: Snapshot) -> None:
    """Saves a checkpoint and keeps the one before it."""
    write_atomically(path, encode_snapshot(snapshot), keep=previous(path))


def has_generation(path: Path) -> bool:
    return path.exists() or previous(path).exists()


def load_generation(path: Path, say: Say, migrate: Migration | None = None) -> Snapshot | None:
    """The newest whole checkpoint, or None if there is none of either generation. Says when it is the older one."""
    if not has_generation(path):
        return None
    try:
        return load_snapshot(path, migrate)
    except DamagedFileError as error:
        if not previous(path).exists():
            raise DamagedFileError(
                f"{error}; there is no older one, so remove the file and `remem resume {path.parent}` starts again"
            ) from error
        try:
            older = load_snapshot(previous(path), migrate)
        except DamagedFileError as worse:
            raise DamagedFileError(
                f"{error}; {previous(path).name} is damaged as well, so remove both and "
                f"`remem resume {path.parent}` starts again"
            ) from worse
        say(f"{error}; going on from the one before it, {previous(path).name}")
        return older
