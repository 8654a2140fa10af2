"""`remem study` and what `remem resume` makes of its folder: words, mistakes, kills, Ctrl-C, Ray; equal studies."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Command
from factories import timeless

# A shell that starts tests in the background lets them ignore Ctrl-C; the command must not inherit that.
PROGRAM = """
import signal
from remem.cli.main import main
signal.signal(signal.SIGINT, signal.default_int_handler)
main()
"""
STUDY = """
[data]
name = "{data}"
[scenario]
phases = 2
[memory]
budget = 40
[net]
hidden = [8]
[train]
epochs = {epochs}
batch_size = 8
[finetune]
epochs = 0
[study]
policies = ["static", "fixed-0.6"]
seeds = [0, 1]
order_by_seed = true
"""
NAMES = ["static_seed-0", "fixed-0.6_seed-0", "static_seed-1", "fixed-0.6_seed-1"]


@pytest.fixture(scope="module")
def quick(vectors: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("studies") / "quick.toml"
    path.write_text(STUDY.format(data=vectors, epochs=1))
    return path


@pytest.fixture(scope="module")
def slow(vectors: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Phases of half a second and more: time to be stopped in the middle of one."""
    path = tmp_path_factory.mktemp("studies") / "slow.toml"
    path.write_text(STUDY.format(data=vectors, epochs=60))
    return path


@pytest.fixture(scope="module")
def whole(slow: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The slow study, never stopped, its runs one after another."""
    out = tmp_path_factory.mktemp("whole") / "out"
    subprocess.run(
        [sys.executable, "-c", PROGRAM, "study", slow, "--workers", "1", "--quiet", "--out", out], check=True
    )
    return out


def outcome(out: Path) -> dict[str, Any]:
    """All that a study leaves behind, but for seconds."""
    runs = {path.parent.name: timeless(json.loads(path.read_text())) for path in out.glob("runs/*/result.json")}
    return {
        **runs,
        "summary": json.loads((out / "summary.json").read_text()),
        "table": (out / "summary.md").read_text(),
    }


def begun(file: Path, out: Path, until: Callable[[], bool]) -> "subprocess.Popen[str]":
    """A study in a process of its own, with two workers, that has come so far."""
    command = [sys.executable, "-c", PROGRAM, "study", str(file), "--workers", "2", "--out", str(out)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 240
    while not until():
        assert process.poll() is None, "the study ended too early"
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return process


def in_phase_1(out: Path) -> Callable[[], bool]:
    logs = [out / "runs" / name / "log.jsonl" for name in NAMES]
    return lambda: any(log.exists() and '"phase": 1' in log.read_text() for log in logs)


def children(process: "subprocess.Popen[str]") -> list[int]:
    path = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    return [int(pid) for pid in path.read_text().split()]


def wait_until_gone(pids: list[int]) -> None:
    deadline = time.monotonic() + 60
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_it_says_what_it_does_and_ends_with_a_table(remem: Command, quick: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    said = remem("study", quick, "--workers", 1, "--out", out)
    assert (said.code, said.err) == (0, "")
    lines = said.out.splitlines()
    assert lines[:4] == [
        "study    4 runs: 2 policies x 2 seeds",
        "first    icarl on npz:vectors.npz, 2 phases after the first, class order by seed",
        "phase 0  trained once for all runs that begin alike: 2 in all",
        "workers  1 process",
    ]
    assert [line.split(", average ")[0] for line in lines if " runs done: " in line] == [
        f"{count} of 4 runs done: {name}" for count, name in enumerate(NAMES, start=1)
    ]
    header = "method policy seeds average % last % average - static last - static saw classes"
    table = lines[lines.index("") + 1 :]
    assert " ".join(table[0].split()) == header
    summary = json.loads((out / "summary.json").read_text())
    assert [(row["policy"], row["seeds"]) for row in summary["rows"]] == [("static", [0, 1]), ("fixed-0.6", [0, 1])]
    one = json.loads((out / "runs" / "static_seed-1" / "result.json").read_text())
    assert [run["average_accuracy"] for run in summary["runs"] if run["name"] == "static_seed-1"] == [
        one["average_accuracy"]
    ]
    assert (out / "summary.md").read_text().startswith("| method | policy | seeds |")
    assert lines[-1] == f"in {out}: summary.json, summary.md, runs/"
    assert sorted(path.name for path in out.iterdir()) == ["runs", "study.json", "summary.json", "summary.md"]

    again = remem("resume", out)
    assert (again.code, again.out.splitlines()[2]) == (0, "reused   4 runs that are complete")
    assert again.out.splitlines()[4:] == table
    assert remem("study", quick, "--quiet", "--out", out).out == f"{out / 'summary.json'}\n"
    changed = remem("study", quick, "--set", "study.seeds=[0]", "--out", out)
    assert (changed.code, changed.err) == (
        2,
        f"error: {out}: study.seeds is [0], but this run began with [0, 1]; settings cannot change\n",
    )
    refused = remem("run", "--dataset", "digits", "--out", out)
    assert (refused.code, refused.err) == (
        2,
        f"error: --out: {out} holds a study.json that is not of a run; expected a new folder\n",
    )


def test_other_commands_say_what_a_study_is_for(remem: Command, quick: Path, tmp_path: Path) -> None:
    for command in ("run", "learn-policy"):
        said = remem(command, quick, "--out", tmp_path / "out")
        assert (said.code, said.err) == (
            2,
            f"error: {quick}: a study given, expected the settings of one run; use `remem study`\n",
        )
    assert remem("plan", "studies/glyphs-policies").code == 2
    assert "studies/glyphs-policies" in remem("list", "configs").out


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--set", "study.seeds=[0,0]"], "study.seeds: 0 given twice"),
        (["--set", "study.policies=['static','fixd']"], "fixd_seed-0: policy: no folder 'fixd'"),
        (["--set", "memory.budget=3"], "static_seed-0: budget: 3 samples are less than one for each of the 6 classes"),
        (["--set", "study=3"], "study: "),
        (["--workers", "0"], "--workers"),
    ],
)
def test_a_mistake_is_said_and_leaves_nothing_behind(
    flags: list[str], message: str, remem: Command, quick: Path, tmp_path: Path
) -> None:
    said = remem("study", quick, *flags, "--out", tmp_path / "out")
    assert said.code == 2
    assert message in said.err
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_study(remem: Command, tmp_path: Path) -> None:
    said = remem("study", "demo", "--out", tmp_path / "out")
    assert (said.code, said.err) == (
        2,
        "error: demo: no section [study]; expected one with seeds, policies and the like\n",
    )


def test_a_killed_driver_leaves_a_study_that_goes_on(remem: Command, slow: Path, whole: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    process = begun(slow, out, in_phase_1(out))
    workers = children(process)
    process.kill()
    process.communicate(timeout=60)
    wait_until_gone(workers)
    assert not (out / "summary.json").exists()
    assert remem("resume", out, "--workers", 1, "--quiet").out == f"{out / 'summary.json'}\n"
    assert outcome(out) == outcome(whole)


def test_a_killed_workers_run_is_done_again(slow: Path, whole: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    process = begun(slow, out, in_phase_1(out))
    os.kill(children(process)[0], signal.SIGKILL)
    _, said = process.communicate(timeout=240)
    assert (process.returncode, said) == (0, "")
    assert outcome(out) == outcome(whole)


def test_ctrl_c_says_how_to_go_on(slow: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    process = begun(slow, out, in_phase_1(out))
    workers = children(process)
    os.kill(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert said.startswith("stopped with ")
    assert said.endswith(f" runs complete; go on with `remem resume {out}`\n")
    assert not [pid for pid in workers if Path(f"/proc/{pid}").exists()]


def test_ray_gives_the_same_study(slow: Path, whole: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-c", PROGRAM, "study", str(slow), "--ray", "local", "--workers", "2", "--out", str(out)]
    process = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert (process.returncode, process.stderr) == (0, "")
    assert "workers  2 Ray workers" in process.stdout
    assert outcome(out) == outcome(whole)
