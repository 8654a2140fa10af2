"""Runs side by side on this machine: every job in a fresh process, events and errors back here, nothing left behind."""

import builtins
import json
import signal
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any

from remem import errors
from remem.runs.results import RunResult, load_result

COMMAND = (sys.executable, "-P", "-m", "remem.runs.worker")  # -P: no module is taken from the working folder
PATIENCE = 5.0  # seconds that a worker has to end by itself


@dataclass(frozen=True)
class Job:
    """One run for a worker: settings as JSON and a folder; the worker rebuilds the objects."""

    name: str
    config: Mapping[str, Any]
    out: Path


class WorkerDiedError(RuntimeError):
    """A worker's process ended without an answer: it was killed, or ran out of memory."""


def run_side_by_side(
    jobs: Sequence[Job], workers: int, report: Callable[[str, dict[str, Any]], None]
) -> list[RunResult]:
    """The results in the order of the jobs; the first error of a worker stops all and is raised here.

    A job's folder is begun, resumed or, where its run is complete, reused.
    """
    answers: Answers = SimpleQueue()
    waiting, running = deque(jobs), list[Worker]()
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                running.append(Worker(waiting.popleft(), answers))
            worker, answer = answers.get()
            if answer is None:
                worker.require_done()
                running.remove(worker)
            elif "event" in answer:
                report(worker.job.name, answer["event"])
            elif "error" in answer:
                raise rebuilt(worker.job.name, answer)
    finally:
        stop(running)
    return [load_result(job.out) for job in jobs]


class Worker:
    """A process with one job; a thread passes its answers on, and None when it has ended."""

    def __init__(self, job: Job, answers: "Answers") -> None:
        self.job = job
        self.stderr = tempfile.TemporaryFile()  # noqa: SIM115  (closed with the process)
        self.process = subprocess.Popen(
            COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.stderr,
            encoding="utf-8",
            errors="replace",  # a line that is no text is ignored like any other that is no answer
        )
        self._done = False
        self._thread = Thread(target=self._listen, args=(answers,), daemon=True)
        self._thread.start()

    def require_done(self) -> None:
        """After its last answer: raises unless that was `done`."""
        code = self.process.wait()
        if not self._done:
            reason = f"killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
            self.stderr.seek(0)
            said = self.stderr.read().decode(errors="replace").strip().splitlines()[-1:]
            words = "".join(f" ({line})" for line in said)
            raise WorkerDiedError(f"{self.job.name}: its process was {reason}{words}; {self.job.out} can be resumed")
        self.close()

    def close(self) -> None:
        self._thread.join()
        for stream in (self.process.stdin, self.process.stdout, self.stderr):
            if stream is not None:
                stream.close()

    def _listen(self, answers: "Answers") -> None:
        stdin, stdout = self.process.stdin, self.process.stdout
        assert stdin is not None
        assert stdout is not None
        try:
            with suppress(BrokenPipeError), stdin:  # a worker that died at once is told by its exit code
                json.dump({"config": self.job.config, "out": str(self.job.out)}, stdin)
            for line in stdout:
                answer = parsed(line)
                if answer is not None:
                    self._done = self._done or "done" in answer
                    answers.put((self, answer))
        finally:  # whatever happens here, nobody waits for ever
            answers.put((self, None))


Answers = SimpleQueue[tuple[Worker, dict[str, Any] | None]]


def parsed(line: str) -> dict[str, Any] | None:
    """An answer; None for a line that is none, such as one that a library wrote past Python."""
    try:
        answer = json.loads(line)
    except ValueError:
        return None
    return answer if isinstance(answer, dict) else None


def stop(workers: Sequence[Worker]) -> None:
    """Ends processes that still run: checkpoints are written whole, so nothing is damaged."""
    for worker in workers:
        worker.process.terminate()
    for worker in workers:
        try:
            worker.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            worker.process.kill()
            worker.process.wait()
        worker.close()


def rebuilt(name: str, answer: Mapping[str, Any]) -> Exception:
    """The error that a worker met: of the same type where that is remem's own or Python's."""
    kind = getattr(errors, answer["error"], getattr(builtins, answer["error"], None))
    error: Exception = RuntimeError(f"{answer['error']}: {answer['message']}")
    if isinstance(kind, type) and issubclass(kind, Exception):
        with suppress(TypeError):  # some of Python's own want more than a message
            error = kind(answer["message"])
    error.add_note(f"in the process of {name}:\n{answer['traceback']}")
    return error
