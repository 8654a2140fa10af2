"""`remem study` and what `remem resume` makes of its folder: words, mistakes, kills, Ctrl-C, Ray; equal studies."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Command
from cli.processes import LIMIT, Interrupt, run_command, wait_until_gone
from factories import timeless
from remem.cli.main import main

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
epochs = 2
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
    path.write_text(STUDY.format(data=vectors))
    return path


@pytest.fixture(scope="module")
def whole(quick: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The study, never stopped, its runs one after another."""
    out = tmp_path_factory.mktemp("whole") / "out"
    with pytest.raises(SystemExit, match="0"):
        main(["study", str(quick), "--workers", "1", "--quiet", "--out", str(out)])
    return out


def outcome(out: Path) -> dict[str, Any]:
    """All that a study leaves behind, but for seconds."""
    runs = {path.parent.name: timeless(json.loads(path.read_text())) for path in out.glob("runs/*/result.json")}
    return {
        **runs,
        "summary": json.loads((out / "summary.json").read_text()),
        "table": (out / "summary.md").read_text(),
    }


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
        f"error: {out}: study.seeds is [0], but this study began with [0, 1]; settings cannot change\n",
    )
    refused = remem("run", "--dataset", "digits", "--out", out)
    assert (refused.code, refused.err) == (
        2,
        f"error: --out: {out} holds a study.json of something else; expected a new folder\n",
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
        (["--set", "study.policies=['static','fixd']"], "policy: no folder 'fixd'"),
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


def test_a_killed_driver_leaves_a_study_that_goes_on(remem: Command, quick: Path, whole: Path, tmp_path: Path) -> None:
    out, interrupt = tmp_path / "out", Interrupt(signal.SIGKILL, "EpochEnded", phase=1)
    ended = run_command(tmp_path / "mark", interrupt, "study", quick, "--workers", 2, "--out", out)
    assert ended.code == -signal.SIGKILL
    assert ended.children
    wait_until_gone(ended.children)
    assert not (out / "summary.json").exists()
    assert remem("resume", out, "--workers", 1, "--quiet").out == f"{out / 'summary.json'}\n"
    assert outcome(out) == outcome(whole)


def test_a_killed_workers_run_is_done_again(quick: Path, whole: Path, tmp_path: Path) -> None:
    out, interrupt = tmp_path / "out", Interrupt(signal.SIGKILL, "EpochEnded", phase=1, role="worker")
    ended = run_command(tmp_path / "mark", interrupt, "study", quick, "--workers", 2, "--out", out)
    assert (ended.code, ended.err) == (0, "")
    assert outcome(out) == outcome(whole)


def test_a_run_that_kills_its_workers_is_named_and_can_be_resumed(
    remem: Command, quick: Path, whole: Path, tmp_path: Path
) -> None:
    """As a machine does that has too little memory for it."""
    out, interrupt = tmp_path / "out", Interrupt(signal.SIGKILL, "EpochEnded", phase=1, role="worker", times=3)
    ended = run_command(tmp_path / "mark", interrupt, "study", quick, "--workers", 1, "--out", out)
    assert (ended.code, ended.err) == (
        1,
        f"error: {NAMES[0]}: its worker was killed by SIGKILL, 3 times; what is done is kept, and it can be resumed\n",
    )
    assert remem("resume", out, "--workers", 1, "--quiet").out == f"{out / 'summary.json'}\n"
    assert outcome(out) == outcome(whole)


@pytest.mark.parametrize(
    ("number", "workers"),
    [(signal.SIGINT, ()), (signal.SIGTERM, ()), (signal.SIGTERM, ("--ray", "local"))],
    ids=["Ctrl-C", "SIGTERM", "SIGTERM with Ray"],
)
def test_a_signal_says_how_to_go_on(
    number: signal.Signals, workers: tuple[str, ...], remem: Command, quick: Path, whole: Path, tmp_path: Path
) -> None:
    out, interrupt = tmp_path / "out", Interrupt(number, "EpochEnded", phase=1)
    ended = run_command(tmp_path / "mark", interrupt, "study", quick, "--workers", 2, *workers, "--out", out)
    assert ended.code == 128 + number
    results = [json.loads(path.read_text()) for path in out.glob("runs/*/result.json")]
    complete = sum(result["status"] == "complete" for result in results)
    assert ended.err == f"stopped with {complete} runs complete; go on with `remem resume {out}`\n"
    assert ended.children
    wait_until_gone(ended.children)
    assert remem("resume", out, "--workers", 1, "--quiet").code == 0
    assert outcome(out) == outcome(whole)


def test_ray_gives_the_same_study(quick: Path, whole: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-m", "remem", "study", str(quick), "--ray", "local", "--workers", "2"]
    process = subprocess.run([*command, "--out", str(out)], capture_output=True, text=True, timeout=LIMIT, check=False)
    assert (process.returncode, process.stderr) == (0, "")
    assert "workers  2 Ray workers" in process.stdout
    assert outcome(out) == outcome(whole)
