"""Every method learns where the right answer is known: separable classes that arrive in phases."""

from typing import Any

import pytest

from factories import NO_REPLAY, blobs, opened, pictures, play, ready
from remem.data.source import Dataset
from remem.methods.table import METHODS
from remem.types import PhaseResult

LONGER: dict[str, Any] = {"train": {"epochs": 12}, "finetune": {"epochs": 4}}
SCALE = {"method": {"scale": 8.0}}  # cosines need it to be sure of anything within so few steps


def last(method: str, dataset: Dataset, *layers: dict[str, Any]) -> PhaseResult:
    scaled = SCALE if "scale" in METHODS[method].settings.model_fields else {}
    prepared = ready(dataset, LONGER, {"method": {"name": method}}, scaled, *layers)
    return play(opened(prepared), prepared)[-1]


@pytest.mark.learning
@pytest.mark.parametrize("method", METHODS)
def test_separable_vectors_are_told_apart_by_both_readouts(method: str) -> None:
    """Six classes in three phases, with 40 of their 120 samples; chance is 17 %."""
    result = last(method, blobs(spread=0.3))
    assert result.classes_seen == 6
    assert result.accuracy_cnn >= 0.9
    assert result.accuracy_nme is not None
    assert result.accuracy_nme >= 0.9


@pytest.mark.learning
@pytest.mark.parametrize("method", METHODS)
def test_features_of_separable_images_are_told_apart(method: str) -> None:
    """At least five of six, by nearest means: a head needs more steps than so small a network gets here."""
    result = last(method, pictures())
    assert result.accuracy_nme is not None
    assert result.accuracy_nme >= 0.8


@pytest.mark.learning
def test_without_exemplars_old_classes_are_forgotten() -> None:
    """The test above can fail: the same data and training without exemplars leave only the latest classes."""
    result = last("finetune", blobs(spread=0.3), NO_REPLAY)
    assert result.accuracy_new >= 0.9
    assert result.accuracy_old is not None
    assert result.accuracy_old <= 0.5
