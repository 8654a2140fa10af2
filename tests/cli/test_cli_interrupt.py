"""A run that is killed or stopped in the middle of a phase, and goes on."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Command
from remem.cli.main import main
from factories import timeless

# Enough epochs for phases of half a second and more: time to be stopped in the middle of one.
FLAGS = ("--phases", "2", "--budget", "40", "--set", "train.epochs=60", "--set", "train.batch_size=8")

# A shell that starts tests in the background lets them ignore Ctrl-C; the command must not inherit that.
PROGRAM = """
import signal
from remem.cli.main import main
signal.signal(signal.SIGINT, signal.default_int_handler)
main()
"""


@pytest.fixture(scope="module")
def begun(vectors: str, tmp_path_factory: pytest.TempPathFactory) -> dict[int, tuple[int, str, Path]]:
    """By signal: exit code, what was said, and the folder of a run that got the signal in phase 1."""
    ended = {}
    for number in (signal.SIGKILL, signal.SIGINT):
        out = tmp_path_factory.mktemp("stopped") / "run"
        command = [sys.executable, "-c", PROGRAM, "run", "--dataset", vectors, *FLAGS, "--out", str(out)]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        wait_for_phase_1(out / "log.jsonl", process)
        os.kill(process.pid, number)
        _, said = process.communicate(timeout=60)
        ended[int(number)] = (process.returncode, said, out)
    return ended


def wait_for_phase_1(log: Path, process: "subprocess.Popen[str]") -> None:
    deadline = time.monotonic() + 120
    while not (log.exists() and '"phase": 1' in log.read_text()):
        assert process.poll() is None, "the run ended before phase 1"
        assert time.monotonic() < deadline
        time.sleep(0.02)


def result_of(out: Path) -> Any:
    return timeless(json.loads((out / "result.json").read_text()))


@pytest.fixture(scope="module")
def untouched(vectors: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same run, never stopped."""
    out = tmp_path_factory.mktemp("whole") / "run"
    with pytest.raises(SystemExit, match="0"):
        main(["run", "--dataset", vectors, *FLAGS, "--quiet", "--out", str(out)])
    return out


def test_ctrl_c_says_how_to_go_on(begun: dict[int, tuple[int, str, Path]]) -> None:
    code, said, out = begun[signal.SIGINT]
    assert code == 1
    assert said == f"stopped after phase 0; go on with `remem resume {out}`\n"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_resumed_run_equals_one_that_was_never_stopped(
    number: int, begun: dict[int, tuple[int, str, Path]], untouched: Path, remem: Command
) -> None:
    out = begun[number][2]
    assert result_of(out)["status"] == "running"
    assert len(result_of(out)["phases"]) == 1
    assert remem("resume", out, "--quiet").code == 0
    assert result_of(out) == result_of(untouched)
    whole, resumed = ((folder / "log.jsonl").read_text().splitlines() for folder in (untouched, out))
    assert [timeless(json.loads(line)) for line in whole] == [timeless(json.loads(line)) for line in resumed]
