"""How errors leave the command: one line with the file and the way on; `--debug` shows the traceback."""

import errno
import os
import re
import sys
import traceback
from typing import Any, cast

import typer

from remem.errors import ExportError, InputError, WorkerDiedError

UsageError = cast(type[Exception], typer.BadParameter.__mro__[1])  # a wrong flag; typer does not export it
FULL = {  # work in a folder goes on afterwards
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some of your quota",
    errno.EFBIG: "raise the limit on the size of files",
}
WAYS_ON = {  # what the user can mend, and how
    **{number: f"{way} and go on with the same command or `remem resume`" for number, way in FULL.items()},
    errno.EROFS: "choose a folder that can be written",
    errno.EACCES: "change its permissions, or choose another",
    errno.EPERM: "change its permissions, or choose another",
    errno.ENOENT: "check the path",
    errno.ENOTDIR: "check the path: a part of it is not a folder",
    errno.EISDIR: "expected a file, not a folder",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.ELOOP: "its links lead in a circle: check them",
    errno.EMFILE: "raise the limit on open files (`ulimit -n`)",
    errno.ENFILE: "close other programs: the system has no more open files",
}
LESS_MEMORY = "a smaller network, image size or train.batch_size, fewer --workers or fewer devices need less"


class Stopped(Exception):
    """The work was interrupted, and the user knows how to go on."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def explain(error: Exception) -> tuple[int, str] | None:
    """The exit code and the line: 2 for what the user can mend, 1 for anything else; None for a defect of remem.

    An empty line says nothing.
    """
    if isinstance(error, InputError):
        return 2, str(error)
    if isinstance(error, UsageError):
        return 2, _usage(error)
    if isinstance(error, BrokenPipeError):  # whoever read our output has gone
        return 1, ""
    if isinstance(error, OSError) and error.errno is not None:
        where = f"{os.fspath(error.filename)}: " if isinstance(error.filename, str | os.PathLike) else ""
        line = f"{where}{error.strerror or error}"
        return (2, f"{line}; {WAYS_ON[error.errno]}") if error.errno in WAYS_ON else (1, line)
    if isinstance(error, MemoryError) or "DefaultCPUAllocator: can't allocate memory" in str(error):
        return 1, f"out of memory{_amount(error)}; {LESS_MEMORY}"
    if str(error) == "can't start new thread":
        return 1, f"no thread can be started: out of memory or of processes (`ulimit -u`); {LESS_MEMORY}"
    if isinstance(error, RecursionError):
        return 2, "the input is nested too deep"
    if isinstance(error, UnicodeError):
        return 2, f"text that cannot be decoded ({error})"
    return (1, str(error)) if isinstance(error, WorkerDiedError | ExportError) else None


def report(error: Exception, *, debug: bool) -> int:
    """Prints an error and returns the exit code. Raises a defect of remem: its traceback is what a report needs."""
    explained = explain(error)
    if explained is None:
        raise error
    code, line = explained
    if debug:
        traceback.print_exception(error)
    if line:
        print(f"error: {' '.join(line.split())}", file=sys.stderr)
    return code


def _amount(error: Exception) -> str:
    """What could not be had, as numpy or torch say it."""
    numpy_says = re.match(r"Unable to allocate ([\d.]+ \w+) ", str(error))
    torch_says = re.search(r"tried to allocate (\d+ bytes)", str(error))
    said = numpy_says or torch_says
    return f" ({said.group(1)} at once)" if said else ""


def _usage(error: Exception) -> str:
    usage: Any = error
    message, command = usage.format_message().rstrip("."), usage.ctx.command_path if usage.ctx else "remem"
    return message and f"{message}; see {command} --help"


def without_debug(arguments: list[str]) -> tuple[list[str], bool]:
    """The arguments without `--debug`, which may stand anywhere, and whether it was there."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    kept = [word for word in arguments[:end] if word != "--debug"]
    return [*kept, *arguments[end:]], len(kept) < end or bool(os.environ.get("REMEM_DEBUG"))
