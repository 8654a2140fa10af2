"""What commands say of their cost before they begin: words by hand, and that nothing is measured for `--quiet`."""

import re
from pathlib import Path

import pytest

from cli.conftest import TINY, Command
from remem.cli.console import numbers, span
from remem.cli.costs import WorkerCount, busy_lines, times, unknown
from remem.cli.learn_policy import cost_lines
from remem.rl.config import compose_learning
from remem.rl.cost import LearningCost
from remem.runs.cost import Machine, Range

LEARN = (
    *("--phases", 2, "--base-classes", 4, "--budget", 40, "--epochs", 1, "--tasks", 1, "--runs", 1, "--pool", 1),
    *("--fidelity", "full", "--workers", 1),
)
SPAN = r"[0-9.]+( to [0-9.]+)?"


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (6.2, 11.4, "6.2 to 11 s"),
        (6.0, 99.0, "6 to 99 s"),
        (40, 180, "0.67 to 3 min"),
        (360, 660, "6 to 11 min"),
        (5000, 9000, "1.4 to 2.5 h"),
        (854 * 3600, 16_415 * 3600, "854 to 16,415 h"),
        (0.001, 0.0123, "0.01 to 0.012 s"),
        (119.9, 120.1, "2 min"),
    ],
)
def test_spans(low: float, high: float, text: str) -> None:
    assert span(low, high) == text


def test_numbers() -> None:
    assert (numbers(0.52, 0.88), numbers(9.96, 11.4), numbers(3.0, 3.01)) == ("0.52 to 0.88", "10 to 11", "3")


def test_costs_in_runs() -> None:
    assert times(Range(360, 660), Range(660, 800), "target run") == "0.55 to 0.82 of one target run (11 to 13 min)"
    assert times(Range(60, 600), Range(20, 60), "run") == "as long as 3 to 10 runs (20 to 60 s each)"


def test_a_busy_machine_is_named_where_it_matters() -> None:
    effect = "it will take longer than on a quiet machine"
    assert busy_lines(Machine(2, 1.9), 2, 1.0) == [f"busy     other programs use about 1.9 of 2 cores: {effect}"]
    assert busy_lines(Machine(2, 7.0), 1, 1.0) == [f"busy     other programs use about 2.0 of 2 cores: {effect}"]
    assert busy_lines(Machine(16, 1.9), 2, 1.1) == []
    assert busy_lines(Machine(16, 0.0), 2, 2.5) == [
        f"busy     other programs leave 40 % of a core to this one: {effect}"
    ]


def test_what_cannot_be_estimated_is_one_line() -> None:
    assert unknown(RuntimeError("out of\nmemory")) == "cost     unknown (RuntimeError: out of memory)"


def test_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 3)
    monkeypatch.setattr("remem.runs.cost.machine_now", lambda: Machine(5, 0.5))
    here, one, cluster = (
        WorkerCount(None, None, "3 processes"),
        WorkerCount(1, None, "1 process"),
        WorkerCount(8, "auto", ""),
    )
    assert [(w.count, w.alone, w.machine(2)) for w in (here, one, cluster)] == [
        (3, False, Machine(5, 0.5)),
        (1, True, Machine(5, 0.5)),
        (8, False, Machine(16, 0.0)),
    ]
    unknown_size = WorkerCount(None, "auto", "as many Ray workers as the cluster has CPUs")
    assert (unknown_size.count, unknown_size.about) == (1, "one worker, and the cluster may have more")
    assert not WorkerCount(1, "local", "1 Ray worker").alone


def test_workers_take_some_seconds_to_start(vectors: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """2 to 6 seconds, unless everything runs in the command's own process."""
    cost = LearningCost(Range(10.0, 20.0), Range(40.0, 80.0))
    monkeypatch.setattr("remem.rl.cost.learning_cost", lambda *given, **named: cost)
    monkeypatch.setattr("remem.runs.cost.machine_now", lambda: Machine(4, 0.0))
    config = compose_learning({"data": {"name": vectors}})
    said = [cost_lines(config, 0, WorkerCount(count, None, f"{count} x")) for count in (1, 2)]
    assert said == [
        ["cost     10 to 20 s on 1 x: 0.25 of one target run (40 to 80 s)"],
        ["cost     12 to 26 s on 2 x: 0.3 to 0.33 of one target run (40 to 80 s)"],
    ]
    alone = LearningCost(Range(10.0, 20.0), None)
    monkeypatch.setattr("remem.rl.cost.learning_cost", lambda *given, **named: alone)
    assert cost_lines(config, 0, WorkerCount(1, None, "1 x")) == ["cost     10 to 20 s on 1 x"]


def test_a_learning_says_what_it_will_cost(remem: Command, vectors: str, tmp_path: Path) -> None:
    said = remem("learn-policy", "--dataset", vectors, *TINY, *LEARN, "--out", tmp_path / "mine")
    assert (said.code, said.err) == (0, "")
    [line] = [line for line in said.out.splitlines() if line.startswith("cost")]
    assert re.fullmatch(rf"cost     {SPAN} s on 1 process: .* target runs? \({SPAN} s\)", line) or "each)" in line
    assert said.out.index("\ncost ") < said.out.index("\nepoch 1")


def test_a_study_says_what_it_will_cost(remem: Command, vectors: str, tmp_path: Path) -> None:
    toml = tmp_path / "study.toml"
    toml.write_text(f'[data]\nname = "{vectors}"\n[study]\nseeds = [0, 1]\n')
    sets = [word for word in TINY if word not in ("--phases", "2")]
    said = remem("study", toml, *sets, "--set", "scenario.phases=2", "--workers", 1, "--out", tmp_path / "out")
    assert (said.code, said.err) == (0, "")
    [line] = [line for line in said.out.splitlines() if line.startswith("cost")]
    assert re.fullmatch(
        rf"cost     {SPAN} s on 1 process: as long as [0-9.,]+( to [0-9.,]+)? runs \({SPAN} s each\)", line
    )
    again = remem("resume", tmp_path / "out")
    assert "cost " not in again.out  # nothing is left


def test_a_cost_that_cannot_be_estimated_stops_nothing(
    remem: Command, vectors: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*given: object) -> None:
        raise MemoryError("no memory")

    monkeypatch.setattr("remem.runs.estimate.try_out", fail)
    said = remem("learn-policy", "--dataset", vectors, *TINY, *LEARN, "--out", tmp_path / "mine")
    assert (said.code, said.err) == (0, "")
    assert "cost     unknown (MemoryError: no memory)" in said.out.splitlines()
    assert (tmp_path / "mine" / "policy.json").exists()


def test_quiet_commands_measure_nothing_and_results_do_not_depend_on_it(
    remem: Command, vectors: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = ("--dataset", vectors, *TINY, *LEARN)
    remem("learn-policy", *flags, "--out", tmp_path / "loud")
    monkeypatch.setattr("remem.runs.estimate.try_out", lambda *given: pytest.fail("measured"))
    assert remem("learn-policy", *flags, "--quiet", "--out", tmp_path / "quiet").code == 0
    for name in ("policy.json", "rewards.jsonl", "learning.json"):
        loud, quiet = ((tmp_path / folder / name).read_bytes() for folder in ("loud", "quiet"))
        assert loud == quiet
