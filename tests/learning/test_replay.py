"""Learning works: replay beats forgetting by a wide margin, and separable classes end up separated."""

from functools import cache
from typing import Any

import pytest

from remem.runs.build import prepare
from remem.runs.config import compose
from remem.runs.results import RunResult
from remem.runs.single import run
from worlds import blobs, ready

pytestmark = pytest.mark.learning

TRAIN: dict[str, Any] = {"train": {"epochs": 12, "batch_size": 16, "precision": "fp32"}, "finetune": {"epochs": 6}}
SCENARIO: dict[str, Any] = {"scenario": {"phases": 4, "base_classes": 2, "order": "natural"}}
NO_REPLAY = {"name": "finetune", "replay": False}


@cache
def on_blobs(**method: Any) -> RunResult:
    """Ten separable classes, two in each of five phases; room for 60 of 300 samples."""
    layers = {"method": method, "memory": {"budget": 60, "exemplars": 30}}
    return run(ready(blobs(classes=10, per_class=30, size=12), TRAIN, SCENARIO, layers))


@cache
def on_digits(**method: Any) -> RunResult:
    """Four digits, then three, then three; room for 300 of 1350 pictures."""
    layers = {
        "data": {"name": "digits"},
        "scenario": {"phases": 2, "base_classes": 4, "order": "natural"},
        "memory": {"budget": 300, "exemplars": 100},
        "train": {"epochs": 4, "batch_size": 32, "precision": "fp32", "device": "cpu"},
        "finetune": {"epochs": 3},
        "net": {"name": "small", "width": 8, "blocks": [1, 1]},
    }
    return run(prepare(compose(layers, {"method": method})))


def test_separable_blobs_end_up_separated() -> None:
    for method in ("icarl", "lwf", "finetune"):
        assert on_blobs(name=method).last_accuracy > 0.95, method
    assert on_blobs(name="icarl").forgetting < 0.05


def test_the_sigmoid_form_learns_too() -> None:
    assert on_blobs(name="icarl", loss="sigmoid").last_accuracy > 0.95


def test_without_replay_old_classes_are_forgotten() -> None:
    """Two of ten classes are trained on last: little more than their fifth is left."""
    bare = on_blobs(**NO_REPLAY)
    assert bare.last_accuracy < 0.4
    assert bare.forgetting > 0.5
    assert on_blobs(name="icarl").last_accuracy > bare.last_accuracy + 0.5


def test_joint_is_at_least_as_good_as_replay() -> None:
    assert on_blobs(name="joint").last_accuracy >= on_blobs(name="icarl").last_accuracy - 0.02  # 2 of 80 samples


def test_digits_forgotten_and_remembered() -> None:
    """Seeds differ by about 0.02 here; the gaps are many times that."""
    bare, replayed, joint = on_digits(**NO_REPLAY), on_digits(name="icarl"), on_digits(name="joint")
    assert bare.last_accuracy < 0.35  # three of ten digits are left
    assert replayed.last_accuracy > bare.last_accuracy + 0.4
    assert joint.last_accuracy > 0.95
    assert joint.last_accuracy > replayed.last_accuracy


def test_distillation_without_replay_forgets_less() -> None:
    """The point of lwf: on the same data it keeps more of the old classes than plain fine-tuning."""
    bare, lwf = on_digits(**NO_REPLAY), on_digits(name="lwf", replay=False)
    assert lwf.average_accuracy > bare.average_accuracy + 0.08
    assert lwf.forgetting < bare.forgetting - 0.3
