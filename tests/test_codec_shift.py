"""results/codec_shift.py: accuracy on test samples as they are and as codecs store them."""

import json
from pathlib import Path

import pytest

from remem.runs.build import prepare
from remem.runs.config import compose
from remem.runs.run import run_in_folder
from scripts import load_script

SHIFT = load_script("results/codec_shift.py")


def test_the_shift_of_every_codec_is_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    short = {"train": {"epochs": 2, "precision": "fp32"}, "finetune": {"epochs": 0}, "scenario": {"phases": 1}}
    config = compose({"data": {"name": "digits"}, "policy": "fixed-0.5@ycc420-4", "memory": {"budget": "20kB"}}, short)
    result = run_in_folder(prepare(config), tmp_path / "coarse")
    assert SHIFT.main([str(tmp_path / "coarse"), "--out", str(tmp_path / "shift.json")]) == 0
    found = json.loads((tmp_path / "shift.json").read_text())["coarse"]
    assert found["trained_on"] == "ycc420-4"
    assert found["accuracy"]["raw"]["cnn"] == result.phases[-1].accuracy_cnn
    assert found["accuracy"]["raw"]["nme"] == result.phases[-1].accuracy_nme
    assert found["accuracy"]["ycc420"] == found["accuracy"]["raw"]  # grey images have no colour planes
    assert set(found["accuracy"]) == {"raw", "ycc420", "ycc420-5", "ycc420-4", "half", "half-ycc420"}
    assert "test samples as ycc420-4" in capsys.readouterr().out
    assert SHIFT.main([str(tmp_path / "nothing")]) == 2
