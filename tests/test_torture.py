"""torture: a small slice of `make torture`, and proof that it finds what it looks for."""

import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from remem.storage import jsonfile
from torture import allocations, damage, inputs, kills, workloads

ROOT = Path(__file__).parents[1]


def test_a_slice_of_damaged_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tally = damage.torture(110, Random(3), tmp_path)
    assert tally.failures == []
    assert tally.noticed > 90
    with monkeypatch.context() as patch:  # without checksums some damage is believed, and that is found
        patch.setattr(jsonfile, "unseal", lambda document, path: {k: v for k, v in document.items() if k != "checksum"})
        assert damage.torture(330, Random(3), tmp_path).failures != []


def test_a_slice_of_mutated_inputs(tmp_path: Path) -> None:
    tally = inputs.torture(500, Random(3), tmp_path)
    assert tally.failures == []
    assert 0 < tally.accepted < 250


def test_a_slice_of_allocations() -> None:
    tally = allocations.torture(300, Random(3))
    assert tally.failures == []
    assert tally.steps >= 300
    assert tally.byte_steps >= 100


def test_what_is_compared_after_kills(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text('{"a": {"b": 1, "seconds": 3}}')
    (tmp_path / "rewards.jsonl").write_text("x")
    (tmp_path / "log.jsonl").write_text("not compared")
    assert workloads.contents(tmp_path) == {"result.json": {"a": {"b": 1}}, "rewards.jsonl": b"x"}


def test_updates_killed_at_thirty_moments() -> None:
    """In a process of its own, which forks before torch has threads."""
    none = [word for part in ("kills", "damage", "inputs", "steps") for word in (f"--{part}", "0")]
    command = [sys.executable, "-m", "torture", "--updates", "30", *none]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=600, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "; 0 failures, " in ended.stdout
    assert "'old': " in ended.stdout


ATTEMPTS = """
import subprocess, sys, time
from pathlib import Path
from torture import kills

def main(words):
    worker = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    (out / "begun").write_text("")
    if "waits" in words:
        worker.wait()

kills.main, out = main, Path(sys.argv[1])
for words, kill in (
    (["ends"], kills.SPARED),
    (["ends"], kills.Kill(event=1)),
    (["ends"], kills.Kill(event=2)),
    (["waits"], kills.Kill(seconds=0.0)),
    (["waits"], kills.Kill(seconds=0.0, worker=True)),
):
    attempt = kills.Attempt(words, out, kill, out.parent / "log").run()
    print(kill.kind, attempt.killed, attempt.code)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="workers are found in /proc")
def test_attempts_are_killed_as_planned(tmp_path: Path) -> None:
    """A command that has a worker and writes one file: not at all, then at its file, itself, and its worker."""
    (tmp_path / "out").mkdir()
    ended = subprocess.run(
        [sys.executable, "-c", ATTEMPTS, tmp_path / "out"], capture_output=True, text=True, cwd=ROOT, timeout=300
    )
    assert ended.stdout.splitlines() == [
        "events False 0",
        "events True -9",
        "events False 0",  # there is no second one
        "moments True -9",
        "workers True 0",
    ], ended.stderr


def test_what_is_done_to_work_until_it_is_complete() -> None:
    work = workloads.Workload(lambda out: ["run"], has_workers=True)
    plan = kills._plan(kills.Kill(event=7), work, 5.0, Random(3))
    assert plan[0] == kills.Kill(event=7)
    assert plan[-1] == kills.SPARED
    assert sorted(kill.kind for kill in plan[1:-1]) == ["events", "moments", "workers"]
    assert all(0 <= kill.seconds <= 5 for kill in plan if kill.seconds is not None)
