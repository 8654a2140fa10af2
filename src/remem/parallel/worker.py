"""The worker side: receives jobs as JSON, runs their handlers, and sends back events and one answer per job."""

import json
import os
import platform
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from threading import Thread

from remem.errors import InputError
from remem.interrupts import Interrupted, handled
from remem.parallel.backend import Message
from remem.parallel.jobs import find_handler
from remem.threads import limit_spinning

Send = Callable[[Message], None]


def main() -> None:
    """Runs as a process: jobs on standard input, messages on standard output, until the parent closes the pipe."""
    limit_spinning()  # the parent may be a program that did not; torch is imported with the first job
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent too, which ends its workers
    output = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # keeps what libraries print out of the messages
    lines: SimpleQueue[str] = SimpleQueue()

    def listen() -> None:
        for line in sys.stdin:
            lines.put(line)
        os._exit(0)  # the parent is gone; an orphaned job would keep its folder locked

    def send(message: Message) -> None:
        output.write(json.dumps(message) + "\n")
        output.flush()

    Thread(target=listen, daemon=True).start()
    send({"ready": os.getpid()})
    try:
        with handled(signal.SIGTERM):
            while True:
                serve(lines.get(), send)
    except Interrupted as stopped:  # the parent has asked for it; a run has saved what it has
        os._exit(stopped.code)


def serve(text: str, send: Send) -> None:
    """Runs one job: sends its events, then `done` or `error`."""
    try:
        job = json.loads(text)
        require_visible(job["marker"])
        answer = find_handler(job["kind"])(job["payload"], lambda event: send({"event": event.to_json()}))
        send({"done": answer})
    except Exception as error:
        facts: Message = {"error": type(error).__name__, "message": str(error), "traceback": traceback.format_exc()}
        if isinstance(error, OSError) and error.errno is not None:
            facts["system"] = [error.errno, error.strerror, None if error.filename is None else str(error.filename)]
        send(facts)


def require_visible(marker: str | None) -> None:
    """Checks that this machine sees the folder of the job, in which the parent has put a marker file."""
    if marker is not None and not Path(marker).exists():
        folder = Path(marker).parent
        raise InputError(f"--out: {folder} is not seen by the worker on {platform.node()}; expected a shared folder")


if __name__ == "__main__":
    main()
