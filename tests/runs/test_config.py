"""config.py, presets.py and trees.py: layers, presets, overrides, and errors that name the field."""

import json
from pathlib import Path
from typing import Any

import pytest

from remem.errors import DamagedFileError, InputError
from remem.methods.icarl import IcarlSettings
from remem.methods.lwf import LwfSettings
from remem.runs.config import RunConfig, compose, known_keys, validate
from remem.runs.presets import read_toml
from remem.runs.trees import merged, nested, read_overrides


def test_defaults_are_a_complete_run() -> None:
    config = compose({})
    assert isinstance(config.method, IcarlSettings)
    assert isinstance(RunConfig().method, IcarlSettings)
    assert (config.preset, config.policy, config.data.name, config.scenario.phases) == ("small", "static", "glyphs", 5)


def test_later_layers_override_earlier_ones_key_by_key() -> None:
    config = compose({"train": {"epochs": 3, "batch_size": 32}}, {"train": {"epochs": 4}, "seed": 7})
    assert (config.train.epochs, config.train.batch_size, config.seed) == (4, 32, 7)


def test_settings_override_the_preset() -> None:
    config = compose({"preset": "paper", "data": {"name": "cifar100"}, "train": {"epochs": 2}})
    assert (config.train.epochs, config.train.schedule, config.net.name) == (2, "step", "resnet32")
    assert config.data.image_size is None
    assert compose({"data": {"name": "cifar100"}}).data.image_size == 16


def test_presets_depend_on_the_data_set() -> None:
    paper = {name: compose({"preset": "paper", "data": {"name": name}}) for name in ("cifar100", "imagenet-full")}
    assert paper["cifar100"].train.epochs == 160
    assert paper["imagenet-full"].net.name == "resnet18"
    assert compose({"preset": "paper", "data": {"name": "npz:some.npz"}}).net.name == "auto"


def test_another_methods_settings_do_not_carry_over() -> None:
    config = compose({"method": {"name": "icarl", "loss": "sigmoid"}}, {"method": {"name": "lwf"}})
    assert config.method == LwfSettings()
    kept = compose({"method": {"name": "lwf", "weight": 2.0}}, {"method": {"replay": False}})
    assert kept.method == LwfSettings(weight=2.0, replay=False)
    unnamed = compose({"method": {"loss": "sigmoid"}}, {"method": {"name": "icarl"}})
    assert unnamed.method == IcarlSettings(loss="sigmoid")


def test_merged_changes_neither_layer() -> None:
    below: dict[str, Any] = {"a": {"x": 1}, "b": {"w": 2}, "c": 5}
    above = {"a": {"y": 3}, "b": 4, "c": 6}
    assert merged(below, above) == {"a": {"x": 1, "y": 3}, "b": 4, "c": 6}
    assert below == {"a": {"x": 1}, "b": {"w": 2}, "c": 5}
    assert above == {"a": {"y": 3}, "b": 4, "c": 6}


def test_overrides_are_toml_values_or_strings() -> None:
    pairs = ["train.epochs=5", "net.blocks=[1, 1]", "data.name=npz:a=b.npz", "method.replay=false", "train.lr=1e-2"]
    assert read_overrides(pairs) == {
        "train": {"epochs": 5, "lr": 0.01},
        "net": {"blocks": [1, 1]},
        "data": {"name": "npz:a=b.npz"},
        "method": {"replay": False},
    }
    assert nested("a.b.c", 1) == {"a": {"b": {"c": 1}}}


@pytest.mark.parametrize("pair", ["train.epochs", "=5", "train.=5", ".epochs=5"])
def test_overrides_without_a_key_or_a_value_are_refused(pair: str) -> None:
    with pytest.raises(InputError, match=f"--set: '{pair}' given, expected key=value"):
        read_overrides([pair])


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"train": {"epohcs": 3}}, "train.epohcs: no such setting; did you mean 'train.epochs'?"),
        ({"epochs": 3}, "epochs: no such setting; did you mean 'train.epochs'?"),
        ({"method": {"name": "icral"}}, "no method named 'icral'; did you mean 'icarl'?"),
        ({"method": {"temperture": 3}}, "method.temperture: no such setting; did you mean 'method.temperature'?"),
        ({"method": "icarl"}, "method: 'icarl' given, expected settings such as method.name=icarl"),
        ({"method": 3}, "method: 3 given, expected settings such as method.name=icarl"),
        ({"train": {"epochs": 0}}, "train.epochs: 0 given; input should be greater than or equal to 1"),
        ({"train": {"schedule": "cosin"}}, "train.schedule: 'cosin' given; input should be 'constant', 'step'"),
        ({"train": 5}, "train: 5 given; input should be a valid dictionary"),
        ({"data": {"name": 5}}, "data.name: 5 given; input should be a valid string"),
        ({"net": {"blocks": [2, 0]}}, "net.blocks.1: 0 given; input should be greater than or equal to 1"),
        ({"memory": {"budget": "lots"}}, "budget: 'lots' is not a budget; expected a number of samples"),
        ({"seed": -1}, "seed: -1 given; input should be greater than or equal to 0"),
        ({"preset": "smal"}, "preset: 'smal' given, expected one of small, tiny, paper"),
    ],
)
def test_errors_name_the_field_in_one_line(tree: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        compose(tree)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_known_keys_include_those_of_the_method() -> None:
    keys = known_keys({"method": {"name": "lwf"}})
    assert {"seed", "train.epochs", "data.root", "method.replay", "memory.budget"} <= keys
    assert "method.loss" not in keys
    assert "method.loss" in known_keys({})


def test_read_toml(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text('seed = 4\n[method]\nname = "lwf"\nreplay = false\n[train]\nepochs = 2\n')
    config = compose(read_toml(tmp_path / "run.toml"), {"train": {"epochs": 9}})
    assert (config.seed, config.method, config.train.epochs) == (4, LwfSettings(replay=False), 9)
    (tmp_path / "broken.toml").write_text("seed = = 4")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    for name in ("broken.toml", "binary.toml"):
        with pytest.raises(DamagedFileError, match=f"{name}: not a TOML file"):
            read_toml(tmp_path / name)
    with pytest.raises(DamagedFileError, match="no such config file"):
        read_toml(tmp_path / "missing.toml")


def test_json_round_trip() -> None:
    config = compose({"preset": "paper", "method": {"name": "icarl", "loss": "sigmoid"}, "net": {"blocks": [1, 2]}})
    again = validate(json.loads(json.dumps(config.model_dump(mode="json"))))
    assert again == config


def test_public_settings_have_no_paths(tmp_path: Path) -> None:
    layers = {
        "data": {"name": f"npz:{tmp_path}/vectors.npz", "root": str(tmp_path)},
        "scenario": {"order": str(tmp_path / "order")},
    }
    public = compose(layers).public()
    assert public["data"]["name"] == "npz:vectors.npz"
    assert "root" not in public["data"]
    assert public["scenario"]["order"] == "order"
    assert str(tmp_path) not in json.dumps(public)
    assert compose({"scenario": {"order": "seed:3"}}).public()["scenario"]["order"] == "seed:3"
