"""Every registered method under several policies, with one class per phase and very little memory."""

from typing import Any

import pytest
import torch

from factories import blobs, facts_of, opened, pictures, play, ready, same_tensors
from remem.methods.table import METHODS
from remem.runs.prepared import Prepared

ONE_BY_ONE = {"scenario": {"phases": 5, "base_classes": 1}, "train": {"epochs": 1}}


def tiny(method: str, **layers: Any) -> Prepared:
    """Six phases of one class each with a budget of 9 samples; in the last phase a class has at most 2."""
    return ready(blobs(per_class=8), ONE_BY_ONE, {"method": {"name": method}, "memory": {"budget": 9}}, layers)


@pytest.mark.parametrize("policy", ["static", "fixed-0.2", "fixed-0.9"])
@pytest.mark.parametrize("method", METHODS)
def test_runs_within_its_budget(method: str, policy: str) -> None:
    prepared = tiny(method, policy=policy)
    results = play(opened(prepared), prepared)
    assert [result.classes_seen for result in results] == [1, 2, 3, 4, 5, 6]
    keeps_all = prepared.method.replay == "all"
    for result in results:
        assert result.accuracy_nme is not None  # both heads are recorded
        assert result.accuracy == (result.accuracy_nme if prepared.method.readout == "nme" else result.accuracy_cnn)
        counts = 8 * (result.phase + 1)  # test samples of all seen classes
        assert result.accuracy_cnn == (result.predictions.cnn == result.predictions.labels).sum() / counts
        assert len(result.accuracy_by_phase) == result.phase + 1
        assert sum(result.accuracy_by_phase) / len(result.accuracy_by_phase) == pytest.approx(result.accuracy)
        assert min(result.held_per_class.values()) >= 1
        held = sum(result.held_per_class.values())
        assert held == result.held_old + result.held_new
        if result.phase and not keeps_all:
            assert held == result.budget == 9
    assert keeps_all == (results[-1].held_old + results[-1].held_new == 48)


@pytest.mark.parametrize("method", METHODS)
def test_resumes_exactly_from_a_snapshot(method: str) -> None:
    """On images with flips; from snapshots after phase 0, before methods expand the network, and after phase 1."""
    prepared = ready(pictures(per_class=8), {"method": {"name": method}})
    episode = opened(prepared)
    snapshots, facts = [], []
    for stop in (1, 2, 3):
        facts += [facts_of(result) for result in play(episode, prepared, stop=stop)]
        snapshots.append(episode.snapshot())
    for phase in (0, 1):
        other = opened(prepared)
        other.restore(snapshots[phase])
        assert [facts_of(result) for result in play(other, prepared)] == facts[phase + 1 :]
        assert same_tensors(other.snapshot().tensors, snapshots[-1].tensors)


@pytest.mark.parametrize("method", METHODS)
def test_bf16_trains_weights_that_stay_fp32_and_finite(method: str) -> None:
    prepared = tiny(method, train={"precision": "bf16", "epochs": 1})
    episode = opened(prepared)
    play(episode, prepared, stop=3)
    floats = [value for value in episode.learner.state().values() if value.is_floating_point()]
    assert {value.dtype for value in floats} == {torch.float32}
    assert all(value.isfinite().all() for value in floats)
