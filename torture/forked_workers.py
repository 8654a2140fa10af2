"""Workers as forks of the command that starts them: they need not import torch, which takes seconds of each."""

import os
import signal
import subprocess
import sys
import time
from typing import IO

from remem import interrupts
from remem.parallel import processes, worker


def use_forks() -> None:
    """From now on, this process forks its workers instead of starting Python anew."""
    vars(processes)["subprocess"] = _Subprocess


class _Fork:
    """What a worker needs of a process. Jobs, messages, signals and the end of the pipe are those of a real one."""

    def __init__(self, command: object, *, stderr: IO[bytes], encoding: str, errors: str, **pipes: int) -> None:
        jobs, messages = os.pipe(), os.pipe()
        self.returncode: int | None = None
        self.pid = os.fork()
        if not self.pid:
            self._work(jobs[0], messages[1], stderr.fileno())
        for end in (jobs[0], messages[1]):
            os.close(end)
        self.stdin = os.fdopen(jobs[1], "w", encoding=encoding)
        self.stdout = os.fdopen(messages[0], encoding=encoding, errors=errors)

    def _work(self, jobs: int, messages: int, errors: int) -> None:
        for place, end in enumerate((jobs, messages, errors)):
            os.dup2(end, place)
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))  # or it would hold the pipes of others, and the folder's lock
        sys.stdin = os.fdopen(0, encoding="utf-8")
        for number in interrupts.STOPPING:
            signal.signal(number, signal.SIG_DFL)
        interrupts._State.deferring, interrupts._State.requested = 0, None  # the command's
        try:
            worker.main()
        finally:
            os._exit(1)

    def wait(self, timeout: float | None = None) -> int:
        until = None if timeout is None else time.monotonic() + timeout
        while self.returncode is None:
            if os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
            elif until is not None and time.monotonic() > until:
                raise subprocess.TimeoutExpired("worker", timeout or 0.0)
            else:
                time.sleep(0.002)
        return self.returncode

    def terminate(self) -> None:
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        self._send(signal.SIGKILL)

    def _send(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)


class _Subprocess:
    """Stands in for the module `subprocess` where workers are started."""

    Popen = _Fork
    PIPE = subprocess.PIPE
    TimeoutExpired = subprocess.TimeoutExpired
