"""A run that is killed or stopped in the middle of a phase, and resumed."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Command
from cli.processes import Ended, Interrupt, run_command
from factories import timeless
from remem.cli.main import main

FLAGS = ("--phases", "2", "--budget", "40", "--set", "train.epochs=3", "--set", "train.batch_size=8")

CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}
Stopped = dict[int, tuple[Ended, Path]]


@pytest.fixture(scope="module")
def stopped(vectors: str, tmp_path_factory: pytest.TempPathFactory) -> Stopped:
    """By signal: how the process ended that got it after the first epoch of phase 1, and the folder of its run."""
    ended: Stopped = {}
    for number in (signal.SIGKILL, *CODES):
        folder = tmp_path_factory.mktemp("stopped")
        out, interrupt = folder / "run", Interrupt(number, "EpochEnded", phase=1)
        ended[number] = run_command(folder / "mark", interrupt, "run", "--dataset", vectors, *FLAGS, "--out", out), out
    return ended


def result_of(out: Path) -> Any:
    return timeless(json.loads((out / "result.json").read_text()))


def log_of(out: Path) -> list[Any]:
    return [timeless(json.loads(line)) for line in (out / "log.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def whole(vectors: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same run, never stopped."""
    out = tmp_path_factory.mktemp("whole") / "run"
    with pytest.raises(SystemExit, match="0"):
        main(["run", "--dataset", vectors, *FLAGS, "--quiet", "--out", str(out)])
    return out


def test_signals_say_how_to_go_on(stopped: Stopped) -> None:
    for number, code in CODES.items():
        ended, out = stopped[number]
        assert (ended.code, ended.err) == (code, f"stopped after phase 0; go on with `remem resume {out}`\n")
        assert (out / "training.safetensors").exists()  # one step of phase 1 after the first epoch is kept
    assert stopped[signal.SIGKILL][0].code == -signal.SIGKILL


@pytest.mark.parametrize("number", [signal.SIGKILL, *CODES])
def test_a_resumed_run_equals_one_that_was_never_stopped(
    number: int, stopped: Stopped, whole: Path, remem: Command
) -> None:
    out = stopped[number][1]
    assert result_of(out)["status"] == "running"
    assert len(result_of(out)["phases"]) == 1
    assert log_of(out)[-1]["phase"] == 1  # in the middle of it
    assert remem("resume", out, "--quiet").code == 0
    assert result_of(out) == result_of(whole)
    assert log_of(out) == log_of(whole)


def test_ctrl_c_before_anything_was_written(remem: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("remem.runs.build.prepare", interrupt)
    said = remem("run", "--dataset", "digits", "--out", tmp_path / "run")
    assert (said.code, said.err) == (130, "stopped before the run began; nothing was written\n")
