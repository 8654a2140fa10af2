"""torture: a small slice of `make torture`, and proof that it finds what it looks for."""

import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from remem.storage import jsonfile
from torture import allocations, damage, inputs, workloads

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
