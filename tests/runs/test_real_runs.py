"""Shortened runs on the real data sets: every phase within its budget, every class held."""

import os
from pathlib import Path
from typing import Any

import pytest

from remem.runs.build import prepare
from remem.runs.config import compose
from remem.runs.results import RunResult, load_result
from remem.runs.run import run_in_folder

pytestmark = [
    pytest.mark.realdata,
    pytest.mark.skipif("REMEM_DATA" not in os.environ, reason="REMEM_DATA is not set"),
]

SHORT: dict[str, Any] = {
    "scenario": {"phases": 5, "order": "lucir"},
    "method": {"name": "icarl"},
    "train": {"epochs": 1, "precision": "fp32", "device": "cpu"},
    "finetune": {"epochs": 1},
    "net": {"width": 4, "blocks": [1, 1, 1]},
}


def check(result: RunResult, budget: int) -> None:
    assert result.complete
    assert len(result.phases) == 6
    for phase in result.phases:
        assert sum(phase.held_per_class.values()) == phase.held_old + phase.held_new
        assert len(phase.held_per_class) == phase.classes_seen == 50 + 10 * phase.phase
        assert min(phase.held_per_class.values()) >= 1
        if phase.phase:
            assert phase.held_old + phase.held_new == phase.budget == budget
    assert result.to_json()["samples_peak"] == budget
    assert result.last_accuracy > 0.015  # chance level is 0.01


def test_cifar100(tmp_path: Path) -> None:
    layers = {"data": {"name": "cifar100", "image_size": 16}, "memory": {"budget": 7000}}
    result = run_in_folder(prepare(compose(SHORT, layers)), tmp_path / "out")
    check(result, 7000)
    assert sum(result.phases[0].held_per_class.values()) == 25_000
    assert result.phases[1].held_new == 5000  # static: all new data beside 2000 exemplars
    assert result.to_json()["class_order"][:5] == [68, 56, 78, 8, 23]  # the published order of seed 1993
    assert load_result(tmp_path / "out").to_json()["status"] == "complete"


def thinned(place: Path, whole: Path, **per_class: int) -> None:
    """Links the first images of every class."""
    for split, count in per_class.items():
        for folder in sorted((whole / split).iterdir()):
            (place / split / folder.name).mkdir(parents=True)
            for image in sorted(folder.iterdir())[:count]:
                (place / split / folder.name / image.name).symlink_to(image)


def test_mini_imagenet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All 100 classes with 40 of 500 images each, since decoding all images would take too long."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    thinned(tmp_path / "mini-imagenet", Path(os.environ["REMEM_DATA"]) / "mini-imagenet", train=40, val=10)
    layers = {
        "data": {"name": "mini-imagenet", "image_size": 16, "root": str(tmp_path)},
        "memory": {"budget": 500, "exemplars": 250},
        "train": {"epochs": 8},
    }
    result = run_in_folder(prepare(compose(SHORT, layers)), tmp_path / "out")
    check(result, 500)
    assert sum(result.phases[0].held_per_class.values()) == 2000
