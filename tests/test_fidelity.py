"""results/fidelity.py: rewards of random paths and of fixed shares at several fidelities, resumable."""

import json
from pathlib import Path
from typing import Any

import pytest

from scripts import load_script

CONFIG = """
policy = "static"
[data]
name = "digits"
[scenario]
phases = 2
[memory]
budget = 100
[method]
name = "finetune"
[net]
name = "small"
width = 4
blocks = [1, 1]
[train]
epochs = 1
batch_size = 64
[finetune]
epochs = 1
"""

FIDELITY = load_script("results/fidelity.py")


def measure(tmp_path: Path, *options: str) -> dict[str, Any]:
    config, out = tmp_path / "one.toml", tmp_path / "out.json"
    config.write_text(CONFIG)
    FIDELITY.main([str(config), "--out", str(out), "--workers", "1", *options])
    found: dict[str, Any] = json.loads(out.read_text())
    return found


def test_every_fixed_share_has_one_path(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = measure(tmp_path, "--fixed", "--fidelities", "features", "short")
    assert list(found["rewards"]) == ["features", "short"]
    assert all(len(totals) == len(found["paths"]) for totals in found["rewards"].values())
    firsts = [path[0][0] for path in found["paths"]]
    assert firsts == sorted(set(firsts))
    printed = capsys.readouterr().out.splitlines()
    average = 100 * found["rewards"]["short"][0] / 3  # phases 0 to 2
    assert printed[-len(firsts)].startswith(f"| {firsts[0] / 10} | ")
    assert printed[-len(firsts)].endswith(f" | {average:.2f} |")


def test_what_was_rewarded_once_is_not_trained_again(tmp_path: Path) -> None:
    first = measure(tmp_path, "--each", "2")
    log = tmp_path / "out.work" / "rewards.jsonl"
    lines = log.read_bytes()
    assert measure(tmp_path, "--each", "2")["rewards"] == first["rewards"]
    assert log.read_bytes() == lines
