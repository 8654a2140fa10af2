"""The kinds of work that a folder can hold, told apart by their settings files: how to resume each after Ctrl-C.

Ctrl-C may come while torch is being imported, so nothing here imports it.
"""

import json
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from remem.cli.boundary import FULL, Stopped
from remem.cli.console import is_follower
from remem.errors import InputError
from remem.interrupts import exit_code
from remem.storage.pointer import POINTER


@dataclass(frozen=True)
class FolderWork:
    """A kind of work as users see it."""

    name: str
    settings_file: str
    resume: str  # import path of the function that resumes it
    stopped: Callable[[Path], str]  # how far it got, for the line after Ctrl-C

    @contextmanager
    def interruptible(self, out: Path) -> Iterator[None]:
        """Turns Ctrl-C, SIGTERM and SIGHUP into one line that says what is kept and how to go on."""
        try:
            yield
        except KeyboardInterrupt as stopped:
            if not is_follower():
                typer.echo(self._last_words(out), err=True)
            raise Stopped(exit_code(stopped)) from None
        except OSError as error:
            if error.errno not in FULL:
                raise
            raise InputError(self._full(out, error)) from error

    def _last_words(self, out: Path) -> str:
        if not (out / self.settings_file).exists():
            return f"stopped before the {self.name} began; nothing was written"
        return f"stopped {self.stopped(out)} go on with `remem resume {out}`"

    def _full(self, out: Path, error: OSError) -> str:
        """The disk is full: what to do, and the command that goes on afterwards."""
        began = (out / self.settings_file).exists()
        command = f"`remem resume {shlex.quote(str(out))}`" if began else "the same command"
        where = error.filename if isinstance(error.filename, str) else out
        return f"{where}: {error.strerror}; {FULL[error.errno or 0]} and go on with {command}"


def _run(out: Path) -> str:
    done = len(_facts(out / "result.json").get("phases", ()))
    return f"after phase {done - 1};" if done else "in phase 0;"


def _learning(out: Path) -> str:
    log = out / "log.jsonl"
    done = len(log.read_bytes().splitlines()) if log.exists() else 0
    where = f"after epoch {done}" if done else "in the first epoch"
    return f"{where}; every reward so far is kept,"


def _study(out: Path) -> str:
    results = map(_facts, (out / "runs").glob("*/result.json"))
    return f"with {sum(result.get('status') == 'complete' for result in results)} runs complete;"


def _facts(path: Path) -> dict[str, Any]:
    """A result for the last words, which nothing may stop: a damaged one counts as none."""
    try:
        facts = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return facts if isinstance(facts, dict) else {}


RUN = FolderWork("run", "config.json", "remem.cli.run:resume_run", _run)
LEARNING = FolderWork("learning", "learning.json", "remem.cli.learn_policy:resume_learning", _learning)
STUDY = FolderWork("study", "study.json", "remem.cli.study:resume_study", _study)


WORKS = (RUN, LEARNING, STUDY)


def work_in(folder: Path) -> FolderWork:
    """What a folder holds."""
    for work in WORKS:
        if (folder / work.settings_file).is_file():
            return work
    if (folder / POINTER).is_file():
        raise InputError(f"{folder}: a model, with nothing to resume; `remem update {folder} DATA` goes on with it")
    files = ", ".join(work.settings_file for work in WORKS)
    raise InputError(f"{folder}: no run, learning or study; expected a folder with one of {files}")
