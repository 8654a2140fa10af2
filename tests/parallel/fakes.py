"""Fake workers for tests of the pool: no processes, one thread, and answers from a script."""

from collections.abc import Callable, Iterable

from remem.parallel.backend import Message, Messages
from remem.parallel.jobs import Job

Script = Callable[["FakeWorker", Job], Iterable[Message | None]]


def answer(worker: "FakeWorker", job: Job) -> Iterable[Message | None]:
    return [{"done": {"by": worker.number}}]


def error(worker: "FakeWorker", job: Job) -> Iterable[Message | None]:
    return [{"error": "InputError", "message": "budget: 3 given", "traceback": "line 7"}]


class FakeWorker:
    """Answers at once, as the script says."""

    def __init__(self, backend: "FakeBackend", messages: Messages) -> None:
        self.number = len(backend.workers)
        self.closed = False
        self._backend, self._messages = backend, messages

    def post(self, message: Message | None) -> None:
        self._messages.put((self, message))

    def submit(self, job: Job) -> None:
        assert not self.closed
        self._backend.submitted.append((job.name, self.number))
        for message in self._backend.script(self, job):
            self.post(message)

    def exit_reason(self) -> str:
        return "was lost"

    def stop(self) -> None:
        """Nothing to save."""

    def close(self) -> None:
        self.closed = True


class FakeBackend:
    """Workers numbered from 0; all that the pool asks for is written down."""

    def __init__(self, size: int, script: Script = answer, *, starts: bool = True) -> None:
        self.about = "fakes"
        self.script = script
        self.opened: list[int] = []  # threads
        self.workers: list[FakeWorker] = []
        self.submitted: list[tuple[str, int]] = []  # job, worker
        self.closed = False
        self._size, self._starts = size, starts

    def open(self, threads: int) -> int:
        self.opened.append(threads)
        return self._size

    def start(self, messages: Messages, threads: int) -> FakeWorker:
        self.workers.append(FakeWorker(self, messages))
        self.workers[-1].post({"ready": 100 + self.workers[-1].number} if self._starts else None)
        return self.workers[-1]

    def close(self) -> None:
        self.closed = True
