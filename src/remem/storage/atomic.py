"""Files and folders that survive a kill: writes that happen whole or not at all, and a lock on a folder."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from remem.errors import InputError


def write_atomically(path: Path, content: bytes) -> None:
    """Write aside, sync, rename: at any moment the file is the old one or the new one, never a part."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with open(part, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def folder_lock(out: Path) -> Iterator[None]:
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
            raise InputError(f"--out: {out} is in use by another process; expected a folder of its own") from error
        yield
    finally:
        os.close(folder)
