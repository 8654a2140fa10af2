"""Job kinds for tests of the pool; imported by workers too, as `parallel.toy_jobs`."""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from remem.errors import InputError
from remem.events import Emit, Event
from remem.parallel.jobs import Job, job_kind

TOY = f"{__name__}:toy"
WAITING = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")


@dataclass(frozen=True)
class ToyStarted(Event, kind="toy"):
    """A toy job has begun, for the so-manieth time."""

    name: str
    starts: int


class StrangeError(Exception):
    """Neither built in nor remem's own."""


def toy_job(folder: Path, name: str, ends: str = "well", *, after: tuple[str, ...] = (), **more: Any) -> Job:
    """A job that notes its start in the folder, emits `ToyStarted`, and ends as told."""
    return Job(name, TOY, {"folder": str(folder), "name": name, "ends": ends, **more}, after)


@job_kind("toy")
def toy(payload: Mapping[str, Any], emit: Emit) -> dict[str, Any]:
    folder, name = Path(payload["folder"]), payload["name"]
    with open(folder / "starts", "a") as file:
        file.write(json.dumps([name, os.getpid()]) + "\n")
    starts = len([begun for begun, _ in toy_starts(folder) if begun == name])
    emit(ToyStarted(name, starts))
    match payload["ends"]:
        case "input error":
            raise InputError("budget: 3 given")
        case "strange error":
            raise StrangeError("torn")
        case "killed" if starts <= payload.get("times", 9):
            sys.stderr.write("out of memory")
            sys.stderr.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        case "never":
            threading.Event().wait()
        case "noise":  # as a library does that bypasses Python
            os.write(1, b'a library speaks\n[5]\n{"do\n\xff\xfe\n{"done": {}}\n')
        case "no JSON":
            return {"name": object()}
    return {"name": name, "pid": os.getpid()}


@job_kind("find")
def find(payload: Mapping[str, Any], emit: Emit) -> dict[str, Any]:
    """Whether the worker would import a module of this name."""
    return {"found": find_spec(payload["module"]) is not None}


@job_kind("waiting")
def waiting(payload: Mapping[str, Any], emit: Emit) -> dict[str, Any]:
    """How long OpenMP threads of the worker spin, as torch reads it when it is imported."""
    return {"torch": "torch" in sys.modules, **{name: os.environ.get(name) for name in WAITING}}


@job_kind("stalled run")
def stalled_run(payload: Mapping[str, Any], emit: Emit) -> dict[str, Any]:
    """A run that the first time gets no further than the start of phase 1, and waits there to be killed."""
    from remem.runs import jobs
    from remem.runs.events import PhaseStarted

    flag = Path(payload["out"] + "-stalled")

    def stall(event: Event) -> None:
        stalls = isinstance(event, PhaseStarted) and event.phase == 1 and not flag.exists()
        if stalls:
            flag.touch()  # before the event, upon which this process is killed
        emit(event)
        if stalls:
            threading.Event().wait()

    return jobs.run(payload, stall)


def toy_starts(folder: Path) -> list[tuple[str, int]]:
    """(name, process) of every toy job in this folder, in the order in which they began."""
    file = folder / "starts"
    lines = file.read_text().splitlines() if file.exists() else []
    return [(name, pid) for name, pid in map(json.loads, lines)]


def wait_until(condition: Callable[[], bool], what: str, seconds: float = 120.0) -> None:
    """Waits for what another process does; far longer than it takes on busy cores."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"after {seconds:.0f} seconds still not: {what}"
        time.sleep(0.01)
