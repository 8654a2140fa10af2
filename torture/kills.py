"""Kills work at every file event and at random ones, again and again, and compares what is left with work never killed.

Every attempt is a fork of a process that has imported everything, and kills itself by SIGKILL.
"""

import os
import signal
import sys
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from shutil import rmtree
from typing import Any

from remem.cli.main import main
from torture.workloads import commands, contents

EVENTS = ("open", "os.rename", "os.remove", "os.rmdir", "os.link", "os.mkdir", "os.truncate")


@dataclass
class Tally:
    kills: int = 0
    finished: int = 0  # pieces of work that were killed at least once, and are complete
    failures: list[str] = field(default_factory=list)


def attempt(words: list[str], out: Path, kill_at: int | None, log: Path, seconds: float | None = None) -> int:
    """Runs a command in a fork that is killed at its so-manieth file event below `out`, or after so many seconds.

    Returns the exit status.
    """
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    target = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(target, 1)
    os.dup2(target, 2)
    seen = 0

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal seen
        if event in EVENTS and is_below(arguments, out):
            seen += 1
            if seen == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
    if seconds is not None:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # ends a process as SIGKILL does: no code of its own runs
        signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        main([*words, "--quiet"])
    except SystemExit as end:
        os._exit(int(end.code or 0))
    except BaseException:
        import traceback

        traceback.print_exc()
        os._exit(70)
    os._exit(0)


def is_below(arguments: tuple[Any, ...], out: Path) -> bool:
    """Whether an event is about a file below `out`. A tree is removed by names inside of open folders."""
    path = str(arguments[0])
    return path.startswith(str(out)) or (isinstance(arguments[-1], int) and arguments[-1] >= 0 and "/" not in path)


def torture(kills: int, rng: Random, folder: Path) -> Tally:
    """At least so many kills, in turn over all kinds of work: first at every file event, then at random ones."""
    import remem.cli.learn_policy
    import remem.cli.run
    import remem.cli.study
    import remem.studies.run  # noqa: F401  (imports torch, once for all forks)

    tally, log = Tally(), folder / "output"
    works = commands(folder)
    wanted = {}
    for kind, words in works.items():
        code = attempt([*words, "--out", str(folder / f"whole-{kind}")], folder / "none", None, log)
        assert code == 0, log.read_text()
        wanted[kind] = contents(folder / f"whole-{kind}")
    event = dict.fromkeys(works, 1)
    while tally.kills < kills:
        for kind, words in works.items():
            out = folder / kind
            rmtree(out, ignore_errors=True)
            if not _in_pieces(words, out, event[kind], rng, tally, log):
                event[kind] = 0  # beyond the last event: from now on at random
            event[kind] += 1
            if contents(out) != wanted[kind]:
                tally.failures.append(f"{kind}, first killed at event {event[kind] - 1}: not equal")
    return tally


def _in_pieces(words: list[str], out: Path, first: int, rng: Random, tally: Tally, log: Path) -> bool:
    """Kills a command, and those that resume it, until one is let through; whether the first one was killed."""
    start = [*words, "--out", str(out)]
    hit = attempt(start, out, first, log) == -signal.SIGKILL
    tally.kills += hit
    for place in (rng.randint(1, 60), rng.randint(1, 60), None):
        resume = ["resume", str(out)] if any(out.glob("*.json")) else start
        code = attempt(resume, out, place, log)
        tally.kills += code == -signal.SIGKILL
        if code not in (0, -signal.SIGKILL):
            tally.failures.append(f"{' '.join(resume)} ended with {code}: {log.read_text()[-500:]}")
    tally.finished += hit
    return hit
