"""Every method on images of 16, 32 and 224 pixels, and over 25 phases of one class each."""

import pytest
import torch

from factories import blobs, opened, pictures, play, ready
from remem.methods.table import METHODS
from remem.runs.build import network_builder
from remem.runs.prepared import Prepared
from remem.seeding import Streams

SHORT = {
    "scenario": {"phases": 1, "base_classes": 2},
    "memory": {"budget": 12, "exemplars": 6},
    "train": {"epochs": 1, "batch_size": 8},
    "finetune": {"epochs": 1},
    "net": {"name": "small", "width": 2, "blocks": [1, 1]},
}


@pytest.mark.parametrize("side", [16, 32, 224])
@pytest.mark.parametrize("method", METHODS)
def test_images_of_any_size(method: str, side: int) -> None:
    dataset = pictures(classes=3, per_class=6, side=side)
    # on ImageNet, networks see resized crops of 224 from 256; resized crops of the stored 224 test the same path
    augment = {"augment": {"kind": "resized-crop"}} if side == 224 else {}
    prepared = ready(dataset, SHORT, {"method": {"name": method}}, augment)
    episode = opened(prepared)
    results = play(episode, prepared)
    assert [result.classes_seen for result in results] == [2, 3]
    network = episode.learner.network
    inputs = torch.zeros(2, 3, side, side)
    assert network.eval()(inputs).logits.shape == (2, 3)
    untrained = prepared_weights(prepared)
    kernels = [name for name in untrained if name.endswith("conv1.weight")]
    trained = {name.replace("plastic.", ""): value for name, value in episode.learner.state().items()}
    assert kernels
    assert all(not torch.equal(trained[name], untrained[name]) and trained[name].isfinite().all() for name in kernels)
    assert prepared.method.replay == "all" or results[1].held_old + results[1].held_new == 12


def prepared_weights(prepared: Prepared) -> dict[str, torch.Tensor]:
    """The weights that a run starts with."""
    build, seed = network_builder(prepared), Streams(prepared.config.seed, "target").integer(0, "weights")
    return dict(build(seed).state_dict())


@pytest.mark.parametrize("method", METHODS)
def test_25_phases_of_one_class(method: str) -> None:
    """N = 25 on 50 classes: margins with one new class, one proxy set, level-2 splits with nothing to split."""
    many = {"scenario": {"phases": 25, "base_classes": 25}, "memory": {"budget": 75, "exemplars": 50}}
    prepared = ready(blobs(classes=50, per_class=4, test_per_class=2), many, {"method": {"name": method}})
    results = play(opened(prepared), prepared)
    assert [result.classes_seen for result in results] == list(range(25, 51))
    assert all(result.decision is None or result.decision.level2 is None for result in results[2:])
    if prepared.method.replay == "budget":
        assert all(min(result.held_per_class.values()) >= 1 for result in results)
        assert max(result.held_old + result.held_new for result in results[1:]) <= 75
