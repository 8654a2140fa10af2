"""Files and folders that survive a kill: writes that happen whole or not at all, and a lock on a folder."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from remem.errors import InputError

PART = ".part"  # ends the names of files that are being written


def write_atomically(path: Path, content: bytes, *, keep: Path | None = None) -> None:
    """Write aside, sync, rename, sync the folder: at any moment the file is the old one or the new one, never a part.

    `keep` is where the old file stays under another name.
    """
    part = part_of(path)
    try:
        with open(part, "wb") as file:
            file.write(content)
            file.flush()
            sync(file.fileno())
        if keep is not None and path.exists():
            _keep(path, keep)
        part.replace(path)
    except OSError as error:
        raise named(error, path) from None
    finally:
        part.unlink(missing_ok=True)
    sync_folder(path.parent)


def named(error: OSError, path: Path) -> OSError:
    """The same error with the file that the user knows: a full disk names none, and a part has a name of its own."""
    return type(error)(error.errno, error.strerror or str(error), str(path))


def part_of(path: Path) -> Path:
    """The name under which this process writes a file."""
    return path.with_name(f"{path.name}.{os.getpid()}{PART}")


def sync(file: int) -> None:
    """Waits until a file is on the disk."""
    os.fsync(file)


def sync_folder(folder: Path) -> None:
    """Waits until renames in a folder are on the disk, where the system can do that."""
    with suppress(OSError):  # some file systems have no such thing; the file itself is synced
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


def _keep(path: Path, keep: Path) -> None:
    """Gives the old file a second name, so that there is no moment without it; renames it where links are unknown."""
    link = part_of(keep)
    link.unlink(missing_ok=True)
    try:
        os.link(path, link)
    except OSError:
        path.replace(keep)
    else:
        link.replace(keep)


def sweep(folder: Path, *, older: float = 0.0) -> None:
    """Removes what killed processes have left half-written. Only for folders that nobody else is writing to.

    `older` spares files of the last so many seconds, for folders that are shared.
    """
    limit = time.time() - older
    for path in folder.glob(f"*{PART}"):
        with suppress(OSError):
            if not older or path.stat().st_mtime < limit:
                path.unlink()


@contextmanager
def folder_lock(out: Path, complaint: str = "") -> Iterator[None]:
    """Exclusive use of a folder; the operating system releases the lock however the process ends."""
    if sys.platform == "win32":  # has no such lock
        yield
        return
    import fcntl

    folder = os.open(out, os.O_RDONLY)
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            usual = f"--out: {out} is in use by another process; expected a folder of its own"
            raise InputError(complaint or usual) from error
        yield
    finally:
        os.close(folder)
