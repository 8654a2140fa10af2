"""The command in a process of its own, interrupted at a chosen event. Linux only: children are found in /proc."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import pytest

HOOKS = Path(__file__).parent / "interrupts"
LIMIT = 300  # seconds; far more than any command takes here on busy cores


@dataclass(frozen=True)
class Interrupt:
    """A signal that a process sends itself at its first event of this kind, in this phase or a later one.

    `JobDone` is when a worker has done a job and has not yet said so.
    """

    signal: signal.Signals
    event: str
    phase: int = 0
    role: str = "driver"  # or worker
    group: bool = False  # to the whole process group, as a terminal does
    times: int = 1  # over all processes of this role


class Ended(NamedTuple):
    """How a process ended."""

    code: int
    out: str
    err: str
    children: list[int]  # when the signal was sent


def python_path() -> str:
    """The hooks first, then what this process has: the package may be on it, and not installed."""
    return os.pathsep.join([str(HOOKS), *filter(None, [os.environ.get("PYTHONPATH")])])


def run_command(mark: Path, interrupt: Interrupt, *arguments: object) -> Ended:
    """`remem ...` until it has ended; `mark` is a path for a new file."""
    if not Path("/proc/self/task").exists():
        pytest.skip("needs /proc")
    plan = {**asdict(interrupt), "mark": str(mark)}
    environment = {**os.environ, "PYTHONPATH": python_path(), "REMEM_TEST_INTERRUPT": json.dumps(plan)}
    command = [sys.executable, "-m", "remem", *map(str, arguments)]
    process = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=LIMIT, start_new_session=True, check=False
    )
    assert mark.exists(), f"never interrupted:\n{process.stdout}\n{process.stderr}"
    return Ended(process.returncode, process.stdout, process.stderr, [int(pid) for pid in mark.read_text().split()])


def alive(pids: list[int]) -> list[int]:
    """Those that run; a process that nobody has waited for is still listed, as a zombie."""
    return [pid for pid in pids if _state(pid) not in ("", "Z", "X")]


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][:1]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def wait_until_gone(pids: list[int]) -> None:
    deadline = time.monotonic() + LIMIT
    while alive(pids):
        assert time.monotonic() < deadline, f"still running: {alive(pids)}"
        time.sleep(0.05)
