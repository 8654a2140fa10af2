"""WorkerPool: distributes jobs over workers, restarts lost ones and collects the answers."""

import builtins
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Self

from remem import errors
from remem.errors import WorkerDiedError
from remem.events import Event
from remem.interrupts import held
from remem.parallel.backend import Backend, Message, Messages, Worker
from remem.parallel.jobs import Job, import_kind

TRIES = 3  # a job is given up after losing this many workers


def ignore(job: Job, event: Event) -> None:
    """A subscriber that does nothing."""


@dataclass
class Slot:
    """The pool's record of one worker."""

    ready: bool = False
    pid: int = 0  # on the worker's machine
    job: Job | None = None
    last: Job | None = None

    def distance(self, job: Job) -> tuple[bool, int]:
        """Steps from the last job's place to this one's; jobs with no common prefix come last."""
        here = () if self.last is None else self.last.place
        shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(job.place, here, strict=False)))
        return (True, 0) if not shared else (False, len(job.place) + len(here) - 2 * shared)


class WorkerPool:
    """A pool whose workers start with the first job and live until it is closed. Lost workers are replaced."""

    def __init__(self, backend: Backend) -> None:
        self.about = backend.about
        self._backend = backend
        self._threads = 1
        self._messages: Messages = SimpleQueue()
        self._slots: dict[Worker, Slot] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._close(list(self._slots))
        finally:
            self._backend.close()

    def run(
        self, jobs: Sequence[Job], emit: Callable[[Job, Event], None] = ignore
    ) -> Iterator[tuple[Job, dict[str, Any]]]:
        """Yields answers as they arrive and emits events in between; the first failure of a job is raised here.

        Every job is assigned to one worker, and again only if that worker is lost. Jobs wait for those in `after`.
        """
        queue = JobQueue(jobs)
        size = self._open(jobs)
        try:
            while queue.waiting or self._busy():
                self._assign(queue, size)
                worker, message = self._messages.get()
                slot = self._slots.get(worker)
                if slot is None:  # closed before its last messages were read
                    continue
                if message is None:
                    self._replace(worker, queue)
                elif "ready" in message:
                    slot.ready, slot.pid = True, message["ready"]
                    queue.losses.pop(None, None)
                elif "error" in message:
                    raise rebuild_error("a worker" if slot.job is None else slot.job.name, message)
                elif "event" in message and slot.job is not None:
                    emit(slot.job, decode_event(slot.job, message))
                elif "done" in message and slot.job is not None:
                    job, slot.job, slot.last = slot.job, None, slot.job
                    queue.unfinished.discard(job.name)
                    yield job, message["done"]
        finally:
            self._close(self._busy())

    def _open(self, jobs: Sequence[Job]) -> int:
        """Returns the number of workers allowed; closes those started for fewer threads than the jobs need."""
        threads = max((job.threads for job in jobs), default=1)
        if threads > self._threads:
            self._close(list(self._slots))
            self._threads = threads
        return self._backend.open(self._threads) if jobs else 0

    def _busy(self) -> list[Worker]:
        return [worker for worker, slot in self._slots.items() if slot.job is not None]

    def _assign(self, queue: "JobQueue", size: int) -> None:
        """Starts workers for which there is work, and gives every idle one the job closest to its last."""
        while len(self._slots) < min(size, len(queue.runnable()) + len(self._busy())):
            with held():  # a worker must not be started without being recorded
                self._slots[self._backend.start(self._messages, self._threads)] = Slot()
        for worker, slot in self._slots.items():
            runnable = queue.runnable()
            if slot.ready and slot.job is None and runnable:
                slot.job = min(runnable, key=slot.distance)
                del queue.waiting[slot.job.name]
                worker.submit(slot.job)

    def _replace(self, worker: Worker, queue: "JobQueue") -> None:
        """Removes a worker that has ended and puts its job back, unless the job has lost too many workers."""
        slot = self._slots.pop(worker)
        exit_reason = worker.exit_reason()
        worker.close()
        if slot.ready and slot.job is None:  # it was idle: nothing is lost
            return
        name = None if slot.job is None else slot.job.name
        queue.losses[name] += 1
        if queue.losses[name] == TRIES:
            who = "a worker that had not begun: it" if name is None else f"{name}: its worker"
            raise WorkerDiedError(f"{who} {exit_reason}, {TRIES} times; what is done is kept, and it can be resumed")
        if slot.job is not None:
            queue.waiting = {slot.job.name: slot.job, **queue.waiting}

    def _close(self, workers: Sequence[Worker]) -> None:
        for worker in workers:
            worker.stop()
        for worker in workers:
            worker.close()
            del self._slots[worker]


class JobQueue:
    """The jobs of one call."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.waiting = {job.name: job for job in jobs}
        self.unfinished = set(self.waiting)
        self.losses: Counter[str | None] = Counter()  # lost workers by job; None: before they were ready
        if len(self.waiting) < len(jobs):
            raise ValueError(f"jobs with the same name among {[job.name for job in jobs]}")
        seen: set[str] = set()
        for job in jobs:
            if not seen.issuperset(job.after):
                raise ValueError(f"{job.name} comes after {job.after}, which are not among the jobs before it")
            seen.add(job.name)

    def runnable(self) -> list[Job]:
        """Waiting jobs whose predecessors are all done."""
        return [job for job in self.waiting.values() if self.unfinished.isdisjoint(job.after)]


def decode_event(job: Job, message: Message) -> Event:
    """An event of a job; the classes of its events are registered by the module of its kind."""
    import_kind(job.kind)
    return Event.from_json(message["event"])


def rebuild_error(name: str, message: Mapping[str, Any]) -> Exception:
    """A worker's exception, with its original type if that is built in or one of remem's."""
    kind = getattr(errors, message["error"], getattr(builtins, message["error"], None))
    error: Exception = RuntimeError(f"{message['error']}: {message['message']}")
    if "system" in message:
        error, kind = OSError(*message["system"]), None
    if isinstance(kind, type) and issubclass(kind, Exception):
        with suppress(TypeError):  # some built-in types need more than a message
            error = kind(message["message"])
    error.add_note(f"in the process of {name}:\n{message['traceback']}")
    return error


def open_pool(workers: int | None, ray: str | None) -> WorkerPool:
    """Local processes, one per core by default; with `ray` ("local" or an address of a cluster) Ray actors."""
    if ray is not None:
        from remem.parallel.ray import RayBackend

        return WorkerPool(RayBackend(ray, workers))
    from remem.parallel.processes import ProcessBackend

    return WorkerPool(ProcessBackend(workers or os.cpu_count() or 1))
