"""build.py and devices.py: every `auto` is resolved, and errors are found before training."""

import dataclasses
import json
from typing import Any

import numpy as np
import pytest
import torch

from factories import blobs, opened, pictures, play, ready
from remem.errors import InputError
from remem.runs.build import network_builder, prepare
from remem.runs.config import RunConfig, validate
from remem.runs.devices import has_bf16, open_fabric
from remem.runs.prepared import Prepared

UNRESOLVED = {
    "net": {"name": "auto", "width": None, "blocks": None, "hidden": None},
    "train": {"device": "auto", "precision": "auto", "strategy": "auto"},
    "memory": {"budget": None, "exemplars": None},
}


def leaves(tree: Any) -> list[Any]:
    if isinstance(tree, dict):
        return [leaf for value in tree.values() for leaf in leaves(value)]
    return [leaf for value in tree for leaf in leaves(value)] if isinstance(tree, list) else [tree]


@pytest.mark.parametrize("dataset", [blobs(), pictures()], ids=["vectors", "images"])
def test_resolved_settings_have_no_auto(dataset: Any) -> None:
    prepared = ready(dataset, UNRESOLVED)
    config = prepared.config
    assert "auto" not in leaves(config.public())
    assert "auto" not in leaves(config.model_dump(mode="json"))
    assert config.net.name == ("mlp" if dataset.name == "blobs" else "small")
    assert config.train.device == ("cuda" if torch.cuda.is_available() else "cpu")
    assert config.train.precision == ("bf16" if has_bf16(config.train.device) else "fp32")
    assert config.train.strategy == "single"
    # E = 20 x 6 classes, M = E + the two classes of the largest phase
    per_class = 20 if dataset.name == "blobs" else 14
    assert (config.memory.exemplars, config.memory.budget) == (120, 120 + 2 * per_class)


@pytest.mark.parametrize(
    ("given", "cores", "devices", "taken"), [(0, 8, 1, 8), (0, 8, 3, 2), (0, 1, 1, 1), (0, 64, 1, 16), (5, 2, 1, 5)]
)
def test_threads_are_resolved(
    given: int, cores: int, devices: int, taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("remem.runs.devices.usable_cores", lambda: cores)
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    config = ready(blobs(), {"train": {"threads": given, "devices": devices}}).config
    assert config.train.threads == taken


def test_augmentation_is_resolved() -> None:
    images = ready(pictures()).config.augment
    assert (images.kind, images.pad, images.flip) == ("crop", 1, True)
    vectors = ready(blobs()).config.augment
    assert (vectors.kind, vectors.pad, vectors.flip) == ("none", 0, False)


@pytest.mark.parametrize("dataset", [blobs(), pictures()], ids=["vectors", "images"])
def test_resolving_twice_changes_nothing(dataset: Any) -> None:
    """A resumed run is prepared from its resolved settings."""
    prepared = ready(dataset, UNRESOLVED)
    read_back = validate(json.loads(json.dumps(prepared.config.model_dump(mode="json"))))
    assert prepare(read_back, scenario=prepared.scenario).config == prepared.config


def test_budget_notations() -> None:
    in_bytes = ready(blobs(), {"memory": {"budget": "bytes:1kB"}})  # 6 floats per row: 1000 // 24
    assert (in_bytes.config.memory.budget, in_bytes.budget.total(0, 0)) == ("1000B", 41)
    pixels = ready(pictures(), {"memory": {"budget": "bytes:8KiB"}})  # 8 x 8 x 3 bytes per row: 8192 // 192
    assert (pixels.config.memory.budget, pixels.budget.total(0, 0)) == ("8192B", 42)
    growing = ready(blobs(), {"memory": {"budget": "growing:5", "exemplars": None}})
    assert (growing.config.memory.budget, growing.budget.kind) == ("growing:5", "growing")


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        ({"policy": "fixed-0.65"}, "no policy named 'fixed-0.65'; did you mean 'fixed-0.6'"),
        ({"memory": {"selection": "hearding"}}, "no selection named 'hearding'; did you mean 'herding'?"),
        ({"memory": {"budget": 5}}, "budget: 5 samples are less than one for each of the 6 classes"),
        ({"net": {"name": "mpl"}}, "no backbone named 'mpl'; did you mean 'mlp'?"),
        ({"net": {"name": "resnet32", "hidden": None, "width": None}}, "net.name: backbone 'resnet32' takes images"),
        ({"net": {"blocks": [1]}}, r"net.blocks: .* given, but backbone 'mlp' has only"),
        ({"train": {"optimizer": "sdg"}}, "train.optimizer: 'sdg' given, expected one of"),
        ({"train": {"precision": "fp16"}}, "train.precision: fp16 given, but a CPU has none"),
        ({"train": {"devices": 10_000}}, "train.devices: 10000 processes given, expected at most"),
        ({"scenario": {"phases": 5}}, "phases: 5 given; expected at most 4"),
        ({"scenario": {"order": "lucri"}}, "order: 'lucri' given; expected lucir"),
    ],
)
def test_errors_are_found_before_training(layer: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        ready(blobs(), layer)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("train", [{"device": "banana"}, {"strategy": "banana"}])
def test_unknown_devices_are_refused(train: dict[str, Any]) -> None:
    prepared = ready(blobs(), {"train": train})
    with pytest.raises(InputError, match=r"train: device .*banana.* given; You selected an invalid") as caught:
        open_fabric(prepared.config.train)
    assert "\n" not in str(caught.value)


def test_unknown_data_set_is_refused() -> None:
    with pytest.raises(InputError, match="no data set named 'cifar10'; did you mean 'cifar100'"):
        prepare(validate({"data": {"name": "cifar10"}}))


def test_bf16_depends_on_the_processor() -> None:
    assert has_bf16("cpu") == (torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())
    assert not has_bf16("banana")


def test_networks_depend_on_the_seed() -> None:
    build = network_builder(ready(blobs()))
    one, same, other = (build(seed).state_dict()["backbone.levels.0.0.weight"] for seed in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert build(1).head.classes == 0


class Doubling(torch.nn.Module):
    """A user-defined backbone."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(6, 12)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.linear(x)
        return result


def test_user_defined_module() -> None:
    plain = ready(blobs())
    module = Doubling()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    prepared = prepare(plain.config, scenario=plain.scenario, module=module)
    episode = opened(prepared)
    results = play(episode, prepared)
    assert episode.learner.network.backbone.width == 12
    assert results[-1].accuracy > 0.8  # separable blobs
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())  # a copy is trained


def test_module_that_does_not_fit_the_data_is_refused() -> None:
    plain = ready(pictures())
    with pytest.raises(InputError, match="backbone: Doubling failed on an input of shape"):
        prepare(plain.config, scenario=plain.scenario, module=Doubling())


def test_prepared_run_is_frozen_and_untrained() -> None:
    prepared: Prepared = ready(blobs())
    with pytest.raises(dataclasses.FrozenInstanceError):
        prepared.config = RunConfig()  # type: ignore[misc]
    with pytest.raises(AssertionError, match="has not seen phase 0"):
        _ = opened(prepared).learner.network
    assert np.array_equal(prepared.scenario.class_order, np.arange(6))
