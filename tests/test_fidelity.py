"""results/fidelity.py: rewards of fixed shares, resumable."""

import json
from pathlib import Path
from typing import Any

import pytest

from scripts import TINY, load_script

CONFIG = f"""{TINY}
[memory]
budget = 100
[method]
name = "finetune"
"""

FIDELITY = load_script("results/fidelity.py")


def measure(tmp_path: Path, *options: str) -> dict[str, Any]:
    config, out = tmp_path / "one.toml", tmp_path / "out.json"
    config.write_text(CONFIG)
    FIDELITY.main([str(config), "--out", str(out), "--workers", "1", *options])
    found: dict[str, Any] = json.loads(out.read_text())
    return found


def test_every_fixed_share_has_one_path_and_is_trained_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = measure(tmp_path, "--fixed", "--fidelities", "features")
    [totals] = found["rewards"].values()
    firsts = [path[0][0] for path in found["paths"]]
    assert firsts == sorted(set(firsts))
    assert len(totals) == len(firsts)
    average = 100 * totals[0] / 3  # phases 0 to 2
    assert capsys.readouterr().out.splitlines()[-len(firsts)] == f"| {firsts[0] / 10} | {average:.2f} |"
    log = tmp_path / "out.work" / "rewards.jsonl"
    lines = log.read_bytes()
    assert measure(tmp_path, "--fixed", "--fidelities", "features")["rewards"] == found["rewards"]
    assert log.read_bytes() == lines


def test_files_of_other_settings_are_further_columns() -> None:
    one = {"set": [], "paths": [[[2, 5]], [[3, 5]]], "rewards": {"features": [0.5, 1.0], "full": [1.0, 1.5]}}
    other = {"set": ["learn.scale_finetune=false"], "paths": one["paths"], "rewards": {"features": [0.25, 0.5]}}
    assert FIDELITY.shares(one, other).splitlines() == [
        "| old share | features | full | features, `learn.scale_finetune=false` |",
        "| --: | --: | --: | --: |",
        "| 0.2 | 25.00 | 50.00 | 12.50 |",
        "| 0.3 | 50.00 | 75.00 | 25.00 |",
    ]
