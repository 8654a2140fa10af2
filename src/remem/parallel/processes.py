"""Workers as processes of this machine; jobs and messages are lines of JSON."""

import json
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from threading import Thread

from remem.parallel.backend import Message, Messages, encode_job
from remem.parallel.jobs import Job

COMMAND = (sys.executable, "-P", "-m", "remem.parallel.worker")  # -P: no modules from the working directory
GRACE_SECONDS = 30.0  # between SIGTERM and SIGKILL, in which a run saves what it has


class ProcessBackend:
    """Up to `workers` processes."""

    def __init__(self, workers: int) -> None:
        self.about = "1 process" if workers == 1 else f"{workers} processes"
        self._workers = workers

    def open(self, threads: int) -> int:
        return self._workers

    def start(self, messages: Messages, threads: int) -> "ProcessWorker":
        return ProcessWorker(messages)

    def close(self) -> None:
        """Nothing to release besides the workers."""


class ProcessWorker:
    """One process, with a thread that reads its messages."""

    def __init__(self, messages: Messages) -> None:
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  (closed with the process)
        self.process = subprocess.Popen(
            COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            encoding="utf-8",
            errors="replace",  # lines that are not text are skipped like others that are not messages
        )
        self._thread = Thread(target=self._listen, args=(messages,), daemon=True)
        self._thread.start()

    def submit(self, job: Job) -> None:
        line = encode_job(job)
        assert self.process.stdin is not None
        with suppress(OSError):  # it has ended, and its thread reports that
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()

    def exit_reason(self) -> str:
        code = self.process.wait()
        self._stderr.seek(0)
        last_line = self._stderr.read().decode(errors="replace").strip().splitlines()[-1:]
        reason = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        return reason + "".join(f" ({line})" for line in last_line)

    def stop(self) -> None:
        self.process.terminate()

    def close(self) -> None:
        self.stop()
        try:
            self.process.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._thread.join()
        for stream in (self.process.stdin, self.process.stdout, self._stderr):
            if stream is not None:
                with suppress(BrokenPipeError):  # its last job was never read
                    stream.close()

    def _listen(self, messages: Messages) -> None:
        assert self.process.stdout is not None
        try:
            for line in self.process.stdout:
                message = parse_message(line)
                if message is not None:
                    messages.put((self, message))
        finally:  # the pool must learn of the end in any case
            messages.put((self, None))


def parse_message(line: str) -> Message | None:
    """A message; None for anything else, such as output of a library that bypasses Python."""
    try:
        message = json.loads(line)
    except ValueError:
        return None
    return message if isinstance(message, dict) else None
