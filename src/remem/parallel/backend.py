"""The protocol between the pool and its workers: what a backend provides, and the messages that workers send."""

import json
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Protocol

from remem.parallel.jobs import Job

# Messages are JSON objects with one of these keys:
#   ready      the process id; once, before the first job
#   event      an event of the current job
#   done       the answer of the current job
#   error      the exception type of a failed job, beside `message` and `traceback`, and, for an error of the system,
#              `system`: its number, its text and its file
Message = dict[str, Any]


class Worker(Protocol):
    """Runs one job at a time and puts its messages into the queue; None means that it has ended."""

    def submit(self, job: Job) -> None: ...

    def exit_reason(self) -> str:
        """How it ended, such as `was killed by SIGKILL`."""
        ...

    def stop(self) -> None:
        """Asks it to save and end. Returns at once."""
        ...

    def close(self) -> None:
        """Ends it, even during a job: files are written atomically, so none is damaged."""
        ...


Messages = SimpleQueue[tuple[Worker, Message | None]]


class Backend(Protocol):
    """Starts workers of one kind."""

    about: str  # how many workers of what kind, for display

    def open(self, threads: int) -> int:
        """Connects if necessary; returns how many workers with this number of threads may run at once."""
        ...

    def start(self, messages: Messages, threads: int) -> Worker: ...

    def close(self) -> None: ...


def encode_job(job: Job, marker: Path | None = None) -> str:
    """A job as a worker receives it; `marker` is a file that the worker must be able to see."""
    return json.dumps({"kind": job.kind, "payload": job.payload, "marker": None if marker is None else str(marker)})
