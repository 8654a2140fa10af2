"""Makes a remem process signal itself at a chosen event, so that tests of interrupts do not depend on timing.

Python imports this module at the start of every process whose PYTHONPATH has its folder. The process of the role that
`$REMEM_TEST_INTERRUPT` names writes the ids of its children to a file and sends the signal; once, or as often as it
says, even over several processes.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import remem.events
import remem.interrupts
import remem.parallel.jobs

PLAN = json.loads(os.environ["REMEM_TEST_INTERRUPT"])
ROLE = "driver" if sys.orig_argv[1:3] == ["-m", "remem"] else "worker"  # a process of its own, or Ray's


def interrupt(event: Any) -> None:
    while hasattr(event, "progress"):  # an event of one run of a study
        event = event.progress
    if type(event).__name__ != PLAN["event"] or getattr(event, "phase", 0) < PLAN["phase"]:
        return
    if not any(mark(f"{PLAN['mark']}{turn or ''}") for turn in range(PLAN["times"])):
        return
    if PLAN["group"]:
        os.killpg(0, PLAN["signal"])
        deadline = time.monotonic() + 60
        while remem.interrupts.requested() is None and time.monotonic() < deadline:
            time.sleep(0.01)  # until the signal is here
        return
    signal.raise_signal(PLAN["signal"])


def mark(path: str) -> bool:
    """Notes that it is time; False if a process has done so before."""
    own = os.getpid()
    try:
        with open(path, "x") as file:
            file.write(Path(f"/proc/{own}/task/{own}/children").read_text())
    except FileExistsError:
        return False
    return True


class JobDone:
    """A worker has done a job, and has not yet said so."""


def find_and_interrupt(kind: str) -> Callable[..., Any]:
    handler = find_handler(kind)

    def handle(*arguments: Any) -> Any:
        answer = handler(*arguments)
        interrupt(JobDone())
        return answer

    return handle


if PLAN["role"] == ROLE:
    fan_out, find_handler = remem.events.fan_out, remem.parallel.jobs.find_handler
    remem.events.fan_out = lambda *subscribers: fan_out(*subscribers, interrupt)
    remem.parallel.jobs.find_handler = find_and_interrupt
if (
    ROLE == "driver"
):  # a shell that runs tests in the background lets them ignore Ctrl-C, and nohup lets them ignore SIGHUP
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
