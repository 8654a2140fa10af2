"""The one runner of parallel work: jobs go in, answers come out. What a worker is, local.py and ray.py know."""

import builtins
import os
import signal
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from queue import SimpleQueue
from threading import current_thread, main_thread
from types import TracebackType
from typing import Any, Protocol, Self

from remem import errors
from remem.policies.policy import policy_folder
from remem.runs.build import with_absolute_paths
from remem.runs.config import RunConfig

TRIES = 3  # a job whose worker was lost this often is given up


@dataclass(frozen=True)
class Job:
    """Something for a worker to do: settings and paths as JSON; the far end rebuilds the objects."""

    name: str  # unique among the jobs of a call; what messages call it
    kind: str  # what the far end does: "run", "phase0" or "node"
    order: Mapping[str, Any]  # JSON; "config" and "out", a folder that all workers see, are always there
    after: tuple[str, ...] = ()  # names of jobs of the same call that must be done first
    place: tuple[Hashable, ...] = ()  # a worker goes on near its last place: what it has at hand can be used
    threads: int = 1  # that the job computes with


def run_job(name: str, config: RunConfig, out: Path, *, phase0: Path | None = None, after: tuple[str, ...] = ()) -> Job:
    """A run in its folder: begun, resumed or, where it is complete, reused; `phase0` is a folder of shared phases 0."""
    folder = policy_folder(config.policy)
    if folder is not None:
        config = config.model_copy(update={"policy": str(folder.absolute())})
    order = _order(config, out) | ({} if phase0 is None else {"phase0": str(phase0.absolute())})
    return Job(name, "run", order, after, threads=config.train.threads)


def phase0_job(name: str, config: RunConfig, shelf: Path, *, after: tuple[str, ...] = ()) -> Job:
    """Phase 0 alone, for the runs that begin with it; their policies play no part yet, and need not exist."""
    config = config.model_copy(update={"policy": "static", "policy_sha256": None, "sample_actions": False})
    return Job(name, "phase0", _order(config, shelf), after, threads=config.train.threads)


def _order(config: RunConfig, out: Path) -> dict[str, Any]:
    return {"config": with_absolute_paths(config).model_dump(mode="json"), "out": str(out.absolute())}


class WorkerDiedError(RuntimeError):
    """Workers ended without an answer, again and again: they were killed, or ran out of memory."""


class Worker(Protocol):
    """Does one job at a time and posts messages: `ready` once; `event`s, then `done` or `error`; None at its end."""

    def give(self, job: Job) -> None: ...

    def fate(self) -> str:
        """After its end: how it came, such as `was killed by SIGKILL`."""
        ...

    def close(self) -> None:
        """Ends it, whatever it does: files are written whole, so nothing is damaged."""
        ...


Answers = SimpleQueue[tuple[Worker, dict[str, Any] | None]]


class Team(Protocol):
    """A kind of workers."""

    about: str  # how many of what, for a line of text

    def open(self, threads: int) -> int:
        """Makes ready to hire, if it is not; how many workers with so many threads there may be."""
        ...

    def hire(self, answers: Answers, threads: int) -> Worker: ...

    def close(self) -> None: ...


def ignore(job: Job, event: dict[str, Any]) -> None:
    """Nobody listens."""


@dataclass
class Desk:
    """What the crew knows of one worker."""

    ready: bool = False
    pid: int = 0  # on its machine
    job: Job | None = None
    last: Job | None = None

    def distance(self, job: Job) -> tuple[bool, int]:
        """How little of the last job can be used."""
        here = () if self.last is None else self.last.place
        shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(job.place, here, strict=False)))
        return (True, 0) if not shared else (False, len(job.place) + len(here) - 2 * shared)


class Crew:
    """Workers that live as long as it is open; the first job starts them, and a lost one is replaced."""

    def __init__(self, team: Team) -> None:
        self.about = team.about
        self._team = team
        self._threads = 1
        self._answers: Answers = SimpleQueue()
        self._desks: dict[Worker, Desk] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._dismiss(list(self._desks))
        finally:
            self._team.close()

    def run(
        self, jobs: Sequence[Job], tell: Callable[[Job, dict[str, Any]], None] = ignore
    ) -> Iterator[tuple[Job, dict[str, Any]]]:
        """Answers as they come in; `tell` hears events. The first error of a job ends the call and is raised here.

        No job is given to two workers; one whose worker was lost is given again. A job waits for those in `after`.
        """
        todo = Todo(jobs)
        size = self._prepare(jobs)
        try:
            while todo.waiting or self._busy():
                self._hand_out(todo, size)
                worker, message = self._answers.get()
                desk = self._desks.get(worker)
                if desk is None:  # dismissed before its last words came
                    continue
                if message is None:
                    self._replace(worker, todo)
                elif "ready" in message:
                    desk.ready, desk.pid = True, message["ready"]
                    todo.losses.pop(None, None)
                elif "error" in message:
                    raise rebuilt("a worker" if desk.job is None else desk.job.name, message)
                elif "event" in message and desk.job is not None:
                    tell(desk.job, message["event"])
                elif "done" in message and desk.job is not None:
                    job, desk.job, desk.last = desk.job, None, desk.job
                    todo.undone.discard(job.name)
                    yield job, message["done"]
        finally:  # whoever still works does so for nobody
            self._dismiss(self._busy())

    def _prepare(self, jobs: Sequence[Job]) -> int:
        """How many workers there may be; those that were hired for fewer threads leave."""
        threads = max((job.threads for job in jobs), default=1)
        if threads > self._threads:
            self._dismiss(list(self._desks))
            self._threads = threads
        return self._team.open(self._threads) if jobs else 0

    def _busy(self) -> list[Worker]:
        return [worker for worker, desk in self._desks.items() if desk.job is not None]

    def _hand_out(self, todo: "Todo", size: int) -> None:
        while len(self._desks) < min(size, len(todo.possible()) + len(self._busy())):
            with undisturbed():
                self._desks[self._team.hire(self._answers, self._threads)] = Desk()
        for worker, desk in self._desks.items():
            possible = todo.possible()
            if desk.ready and desk.job is None and possible:
                desk.job = min(possible, key=desk.distance)
                del todo.waiting[desk.job.name]
                worker.give(desk.job)

    def _replace(self, worker: Worker, todo: "Todo") -> None:
        """After the end of a worker: what it had goes back, unless it is what ends workers."""
        desk = self._desks.pop(worker)
        fate = worker.fate()
        worker.close()
        if desk.ready and desk.job is None:  # it left while it had nothing to do
            return
        name = None if desk.job is None else desk.job.name
        todo.losses[name] += 1
        if todo.losses[name] == TRIES:
            whose = "a worker that had not begun: it" if name is None else f"{name}: its worker"
            raise WorkerDiedError(f"{whose} {fate}, {TRIES} times; what is done is kept, and it can be resumed")
        if desk.job is not None:
            todo.waiting = {desk.job.name: desk.job, **todo.waiting}

    def _dismiss(self, workers: Sequence[Worker]) -> None:
        for worker in workers:
            worker.close()
            del self._desks[worker]


class Todo:
    """The jobs of one call."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.waiting = {job.name: job for job in jobs}
        self.undone = set(self.waiting)
        self.losses: Counter[str | None] = Counter()  # workers, by job; None: those that had not begun
        if len(self.waiting) < len(jobs):
            raise ValueError(f"jobs with the same name among {[job.name for job in jobs]}")
        seen: set[str] = set()
        for job in jobs:
            if not seen.issuperset(job.after):
                raise ValueError(f"{job.name} comes after {job.after}, which are not among the jobs before it")
            seen.add(job.name)

    def possible(self) -> list[Job]:
        """Those that wait for nobody."""
        return [job for job in self.waiting.values() if self.undone.isdisjoint(job.after)]


@contextmanager
def undisturbed() -> Iterator[None]:
    """Ctrl-C waits until the end: a process that is started and not yet in the books would be left behind."""
    if current_thread() is not main_thread():  # no signal is handled there
        yield
        return
    heard: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before or signal.SIG_DFL)
    for number in heard[:1]:
        signal.raise_signal(number)


def rebuilt(name: str, answer: Mapping[str, Any]) -> Exception:
    """The error that a worker met: of the same type where that is remem's own or Python's."""
    kind = getattr(errors, answer["error"], getattr(builtins, answer["error"], None))
    error: Exception = RuntimeError(f"{answer['error']}: {answer['message']}")
    if isinstance(kind, type) and issubclass(kind, Exception):
        with suppress(TypeError):  # some of Python's own want more than a message
            error = kind(answer["message"])
    error.add_note(f"in the process of {name}:\n{answer['traceback']}")
    return error


def open_crew(workers: int | None, ray: str | None) -> Crew:
    """Processes of this machine, by default one per core; or with `ray`, `local` or an address, workers of Ray."""
    if ray is not None:
        from remem.runs.ray import RayTeam

        return Crew(RayTeam(ray, workers))
    from remem.runs.local import LocalTeam

    return Crew(LocalTeam(workers or os.cpu_count() or 1))
