"""Workers as processes of this machine: jobs and messages are lines of JSON, and nothing is left behind."""

import json
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from threading import Thread
from typing import Any

from remem.runs.crew import Answers, Job

COMMAND = (sys.executable, "-P", "-m", "remem.runs.worker")  # -P: no module is taken from the working folder
PATIENCE = 5.0  # seconds that a process has to end by itself


class LocalTeam:
    """Up to so many processes."""

    def __init__(self, workers: int) -> None:
        self.about = "1 process" if workers == 1 else f"{workers} processes"
        self._workers = workers

    def open(self, threads: int) -> int:
        return self._workers

    def hire(self, answers: Answers, threads: int) -> "LocalWorker":
        return LocalWorker(answers)

    def close(self) -> None:
        """Nothing but the processes was opened."""


class LocalWorker:
    """One process; a thread passes its messages on, and None when it has ended."""

    def __init__(self, answers: Answers) -> None:
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  (closed with the process)
        self.process = subprocess.Popen(
            COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            encoding="utf-8",
            errors="replace",  # a line that is no text is ignored like any other that is no message
        )
        self._thread = Thread(target=self._listen, args=(answers,), daemon=True)
        self._thread.start()

    def give(self, job: Job) -> None:
        line = json.dumps({"kind": job.kind, "order": job.order})
        assert self.process.stdin is not None
        with suppress(OSError):  # it has ended, which its thread tells
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()

    def fate(self) -> str:
        code = self.process.wait()
        self._stderr.seek(0)
        said = self._stderr.read().decode(errors="replace").strip().splitlines()[-1:]
        words = "".join(f" ({line})" for line in said)
        return (f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}") + words

    def close(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._thread.join()
        for stream in (self.process.stdin, self.process.stdout, self._stderr):
            if stream is not None:
                with suppress(BrokenPipeError):  # its last line was never read
                    stream.close()

    def _listen(self, answers: Answers) -> None:
        assert self.process.stdout is not None
        try:
            for line in self.process.stdout:
                message = parsed(line)
                if message is not None:
                    answers.put((self, message))
        finally:  # whatever happens here, nobody waits for ever
            answers.put((self, None))


def parsed(line: str) -> dict[str, Any] | None:
    """A message; None for a line that is none, such as one that a library wrote past Python."""
    try:
        message = json.loads(line)
    except ValueError:
        return None
    return message if isinstance(message, dict) else None
