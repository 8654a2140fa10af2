"""conf/: every file loads, and every preset works for every data set, method and number of phases."""

import tomllib
from importlib import resources
from itertools import product
from pathlib import Path

import pytest

from remem.data.datasets import BY_PATH, DATASETS
from remem.methods.settings import FinetuneSettings, TrainSettings
from remem.methods.table import METHODS
from remem.nets.backbones import BACKBONES
from remem.runs.config import compose, known_keys
from remem.runs.presets import PRESETS, read_toml, shipped_configs

CONF = resources.files("remem.conf")
NAMES = [*DATASETS, *(f"{kind}:somewhere" for kind in BY_PATH)]


def test_every_preset_has_a_file() -> None:
    files = {file.name for file in CONF.iterdir() if file.name.endswith(".toml")}
    assert files >= {f"{preset}.toml" for preset in PRESETS}


@pytest.mark.parametrize("preset", PRESETS)
def test_rules_use_only_existing_names(preset: str) -> None:
    rules = tomllib.loads(CONF.joinpath(f"{preset}.toml").read_text(encoding="utf-8"))["rule"]
    for rule in rules:
        assert set(rule) <= {"datasets", "methods", "phases", "set"}
        assert set(rule.get("datasets", [])) <= {*DATASETS, *BY_PATH, "glyphs"}
        assert set(rule.get("methods", [])) <= set(METHODS)
        for section, settings in rule["set"].items():
            for key in settings if section != "method" else ():
                assert f"{section}.{key}" in known_keys({})


@pytest.mark.parametrize(("preset", "method"), list(product(PRESETS, METHODS)))
def test_every_combination_composes(preset: str, method: str) -> None:
    for name, phases in product(NAMES, (5, 10, 25)):
        tree = {"preset": preset, "data": {"name": name}, "method": {"name": method}, "scenario": {"phases": phases}}
        config = compose(tree)
        assert (config.preset, config.data.name, config.method.name) == (preset, name, method)
        assert config.net.name == "auto" or config.net.name in BACKBONES


def test_training_defaults_equal_the_small_preset() -> None:
    config = compose({"preset": "small", "data": {"name": "digits"}, "method": {"name": "finetune"}})
    assert config.train == TrainSettings()
    assert config.finetune == FinetuneSettings()


def test_schedule_of_the_paper() -> None:
    train = compose({"preset": "paper", "data": {"name": "cifar100"}}).train
    assert (train.epochs, train.batch_size, train.lr, train.momentum) == (160, 128, 0.1, 0.9)
    assert (train.weight_decay, train.schedule, train.milestones, train.decay) == (5e-4, "step", (0.5, 0.75), 0.1)


@pytest.mark.parametrize("name", shipped_configs())
def test_shipped_config_is_valid_and_described(name: str) -> None:
    """All keys are known, every given value is kept, and the first line is a description."""
    tree = {key: value for key, value in read_toml(Path(name)).items() if key not in ("study", "learn")}
    config = compose(tree).model_dump(mode="json")
    for key, value in tree.items():
        given = value if isinstance(value, dict) else {key: value}
        section = config[key] if isinstance(value, dict) else config
        assert {field: section[field] for field in given} == given
    assert shipped_configs()[name].startswith("# ")


def test_a_preset_has_the_rules_of_its_base_before_its_own() -> None:
    """`tiny` keeps the optimiser of `small`, for its methods too, and replaces epochs, images and network."""
    tree = {"data": {"name": "cifar100"}, "method": {"name": "lucir", "margin": 0.4}}
    small, tiny = (compose({"preset": preset, **tree}) for preset in ("small", "tiny"))
    changed = {"epochs": 15, "epochs_later": 5, "precision": "fp32"}
    assert tiny.train == small.train.model_copy(update=changed)
    assert tiny.method == small.method
    assert (small.method.model_dump()["scale"], METHODS["lucir"].settings().model_dump()["scale"]) != (8.0, 8.0)
    assert (tiny.data.image_size, tiny.net.blocks, tiny.finetune.epochs) == (12, (1, 1, 1), 5)
    assert (small.data.image_size, small.net.blocks, small.finetune.epochs) == (16, None, 20)
