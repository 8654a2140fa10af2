"""Kills work by SIGKILL, again and again, and compares what is left with work never killed.

At every file event below its folder and at random ones; at random moments; and its worker processes at random moments.
Every attempt is a fork of a process that has imported everything.
"""

import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from shutil import rmtree
from typing import Any

from remem.cli.main import main
from torture.forked_workers import use_forks
from torture.workloads import Workload, contents, workloads

EVENTS = ("open", "os.rename", "os.remove", "os.rmdir", "os.link", "os.mkdir", "os.truncate")
LONGEST = 3600.0  # seconds of one attempt: all take a few, but minutes where nothing is left for them
REAL_WORKERS = 20  # of so many pieces of work, one starts its workers as users do; forks are much faster
TURNS = 6  # pieces of work without workers, which are quick, for each one with workers
PAUSE = 0.01  # seconds between two looks at a command


@dataclass(frozen=True)
class Kill:
    """What is killed, and when: at the so-manieth file event of the command, or after so many seconds."""

    event: int | None = None
    seconds: float | None = None
    worker: bool = False  # one of its workers, so many seconds after the first has begun, not the command itself

    @property
    def kind(self) -> str:
        return "workers" if self.worker else "moments" if self.seconds is not None else "events"


SPARED = Kill()


@dataclass(frozen=True)
class Whole:
    """What work leaves that was never killed, and how long it takes."""

    contents: dict[str, Any]
    seconds: float


@dataclass
class Tally:
    kills: int = 0
    by_kind: Counter[str] = field(default_factory=Counter)
    by_work: Counter[str] = field(default_factory=Counter)
    finished: Counter[str] = field(default_factory=Counter)
    swept: Counter[str] = field(default_factory=Counter)  # how often each file event of the work was the first kill
    failures: list[str] = field(default_factory=list)


@dataclass
class Attempt:
    """A command in a fork, and how it ended."""

    words: list[str]
    out: Path
    kill: Kill
    log: Path
    forks: bool = False  # whether its workers are forks, too
    killed: bool = False
    code: int = 0

    def run(self) -> "Attempt":
        child = os.fork()
        if not child:
            self._command()
        began, workers = time.monotonic(), set[int]()
        deadline = began + LONGEST
        while not os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if self.kill.worker and not workers:
                began = time.monotonic()
            workers.update(children(child))
            if time.monotonic() > deadline:
                os.kill(child, signal.SIGKILL)
            elif self.kill.seconds is not None and time.monotonic() - began >= self.kill.seconds and not self.killed:
                self.killed = self._kill(child)
            time.sleep(PAUSE)
        self.code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        self.killed |= self.kill.event is not None and self.code == -signal.SIGKILL
        while any(map(is_running, workers)) and time.monotonic() < deadline:  # they notice that it has gone
            time.sleep(PAUSE)
        return self

    def _kill(self, child: int) -> bool:
        """Kills the command or one of its workers; False if there is none yet."""
        victim = next(children(child), None) if self.kill.worker else child
        if victim is None:
            return False
        with suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)
            return True
        return False

    def _command(self) -> None:
        """In the fork: the command itself."""
        target = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(target, 1)
        os.dup2(target, 2)
        if self.forks:
            use_forks()
        seen, command = 0, os.getpid()

        def hook(event: str, arguments: tuple[Any, ...]) -> None:
            nonlocal seen
            if event in EVENTS and is_below(event, arguments, self.out) and os.getpid() == command:
                seen += 1
                if seen == self.kill.event:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(hook)
        try:
            main([*self.words, "--quiet"])
        except SystemExit as end:
            os._exit(int(end.code or 0))
        except BaseException:
            import traceback

            traceback.print_exc()
            os._exit(70)
        os._exit(0)


def children(process: int) -> Iterator[int]:
    """The child processes, where the system lists them."""
    with suppress(OSError):
        yield from map(int, Path(f"/proc/{process}/task/{process}/children").read_text().split())


def is_running(process: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def is_below(event: str, arguments: tuple[Any, ...], out: Path) -> bool:
    """Whether an event is about a file below `out`. A tree is removed by names inside of open folders."""
    path = str(arguments[0])
    return path.startswith(str(out)) or (event in ("os.remove", "os.rmdir") and arguments[-1] >= 0 and "/" not in path)


def torture(kills: int, rng: Random, folder: Path) -> Tally:
    """At least so many kills, in turn over all kinds of work, each until all its file events have been tried."""
    import remem.cli.learn_policy
    import remem.cli.run
    import remem.cli.study
    import remem.studies.run  # noqa: F401  (imports torch, once for all forks)

    tally, log = Tally(), folder / "output"
    works = workloads(folder)
    wholes = {kind: _whole(work, folder / "whole", log) for kind, work in works.items()}
    event: dict[str, int] = {}
    while tally.kills < kills:
        event = event or dict.fromkeys(works, 1)  # once more, with other random kills
        turns = [each for each in event for _ in range(1 if works[each].has_workers else TURNS)]
        for kind in turns:
            if kind not in event or tally.kills >= kills:
                continue
            first, out = event[kind], folder / kind
            event[kind] += 1
            plan = _plan(Kill(event=first), works[kind], wholes[kind].seconds, rng)
            if not _in_pieces(kind, works[kind], out, plan, tally, log):
                del event[kind]  # beyond its last event
                tally.swept[kind] += 1
            if contents(out) != wholes[kind].contents:
                tally.failures.append(f"{kind}, first killed at event {first}: not equal")
            tally.finished[kind] += 1
            rmtree(out)
        print(f"{tally.kills} kills, {len(tally.failures)} failures", file=sys.stderr, flush=True)
    return tally


def _whole(work: Workload, out: Path, log: Path) -> Whole:
    """The work done without a kill."""
    began = time.monotonic()
    attempt = Attempt(work.start(out), out, SPARED, log, forks=True).run()
    assert attempt.code == 0, log.read_text()
    whole = Whole(contents(out), time.monotonic() - began)
    rmtree(out)
    return whole


def _plan(first: Kill, work: Workload, seconds: float, rng: Random) -> list[Kill]:
    """One after another: at a file event, twice or three times at random, and at last none.

    What is resumed takes less time than the whole, so that later moments would find nothing to kill.
    """
    rest = [Kill(event=rng.randint(1, 60)), Kill(seconds=rng.uniform(0, seconds / 2))]
    if work.has_workers:
        rest.append(Kill(seconds=rng.uniform(0, seconds / 2), worker=True))
    rng.shuffle(rest)
    return [first, *rest, SPARED]


def _in_pieces(kind: str, work: Workload, out: Path, plan: list[Kill], tally: Tally, log: Path) -> bool:
    """Kills a command, and those that resume it, until one is let through; whether the first one was killed."""
    first, forks = False, tally.finished[kind] % REAL_WORKERS != 1
    for place, kill in enumerate(plan):
        words = work.resume(out) if work.begun(out) else work.start(out)
        attempt = Attempt(words, out, kill, log, forks=forks).run()
        tally.kills += attempt.killed
        tally.by_kind[kill.kind] += attempt.killed
        tally.by_work[kind] += attempt.killed
        first |= attempt.killed and place == 0
        fine = (0, -signal.SIGKILL) if attempt.killed and not kill.worker else (0,)
        if attempt.code not in fine:  # whoever loses a worker starts another, and ends well
            tally.failures.append(f"{' '.join(words)} ended with {attempt.code}: {log.read_text()[-500:]}")
    return first
