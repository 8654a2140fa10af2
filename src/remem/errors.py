"""Exceptions of remem. The command line prints an InputError as one line and exits with code 2."""

import errno
from collections.abc import Sequence


class InputError(ValueError):
    """The user's input is wrong. The message names the field, the given value and the allowed values."""


class DamagedFileError(InputError):
    """A file that remem reads is missing, truncated or of another kind."""


class BudgetError(RuntimeError):
    """More samples would be held at once than the budget allows (protocol 1). Never caught during a run."""


class WorkerDiedError(RuntimeError):
    """Workers ended repeatedly without an answer: killed, or out of memory."""


class ExportError(RuntimeError):
    """A model cannot be written in another format, or would predict something else there."""


class NotHeldError(RuntimeError):
    """A row was read that is not in memory (protocol 1: discarded samples are gone)."""


class SealedError(RuntimeError):
    """The test set was read during policy training (protocol 3: no choice may depend on a test set)."""


def listed(names: Sequence[str], most: int = 8) -> str:
    """Names in a message: all of them, or the first and how many more there are."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


# EIO: of the disk below it; EINVAL: its own numbers lead outside of it
OF_THE_FILE = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EIO, errno.EINVAL)


def is_damage(error: Exception) -> bool:
    """Whether what went wrong while a file was read is the file's fault.

    If not, it is raised as it is: no permission, no memory or no more open files are no reason to call a file damaged.
    """
    if isinstance(error, OSError):
        return error.errno is None or error.errno in OF_THE_FILE
    return not isinstance(error, MemoryError)
