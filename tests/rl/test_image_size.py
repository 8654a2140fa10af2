"""image_size.py: the side of the images is chosen on pseudo tasks, and the right one where it is known."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from factories import IMAGES, blobs, write_npz
from remem.data.arrays import from_arrays
from remem.data.datasets import load_dataset
from remem.data.settings import DataSettings
from remem.data.source import Dataset
from remem.errors import InputError
from remem.rl import image_size
from remem.rl.image_size import SizeTrial, best_side, candidate_sides, choose_image_size, own_side
from remem.runs.build import prepare
from remem.runs.config import RunConfig, compose

CLASSES, PER_CLASS = 12, 40


def made(images: Any, labels: Any) -> Dataset:
    """Training data, and two samples of every class as test data."""
    first = np.concatenate([np.flatnonzero(labels == label)[:2] for label in range(CLASSES)])
    return from_arrays(images, labels, images[first], labels[first], name="made")


def enlarged() -> Dataset:
    """Noisy 8 x 8 images of one colour per class, with every pixel nine times: 24 x 24."""
    stream = np.random.default_rng(0)
    labels = np.repeat(np.arange(CLASSES), PER_CLASS)
    colours = np.array([[red, green, blue] for red in (40, 215) for green in (40, 215) for blue in (40, 128, 215)])
    small = colours[labels][:, None, None] + stream.normal(0, 10, (len(labels), 1, 1, 3))
    small = small + stream.normal(0, 20, (len(labels), 8, 8, 3))
    return made(np.clip(small, 0, 255).astype(np.uint8).repeat(3, axis=1).repeat(3, axis=2), labels)


def textures() -> Dataset:
    """Stripes and chequers of one pixel in every colour channel. The mean of every 2 x 2 block is the same."""
    stream = np.random.default_rng(0)
    labels = np.repeat(np.arange(CLASSES), PER_CLASS)
    rows, columns = np.indices((16, 16))
    kinds = np.stack([(-1) ** rows, (-1) ** columns, (-1) ** (rows + columns)])  # (3, h, w)
    codes = np.stack([np.arange(CLASSES) // 9, np.arange(CLASSES) // 3 % 3, np.arange(CLASSES) % 3], axis=1)
    images = 128 + 60 * kinds[codes[labels]].transpose(0, 2, 3, 1) + stream.normal(0, 20, (len(labels), 16, 16, 3))
    return made(np.clip(images, 0, 255).astype(np.uint8), labels)


def config_of(path: Path, dataset: Dataset, *layers: Mapping[str, Any]) -> RunConfig:
    write_npz(path, dataset)
    scenario = {"phases": 2, "base_classes": 8, "order": "seed:0"}
    base = {**IMAGES, "seed": 1, "scenario": scenario, "memory": {"budget": "27kB"}, "policy": "fixed-0.5"}
    return compose(base, {"data": {"name": f"npz:{path}", "image_size": "auto"}}, *layers)


@pytest.mark.learning
def test_small_wins_where_nothing_is_lost(tmp_path: Path) -> None:
    """One image of 24 px per class, or nine of 8 px."""
    layers = {"scenario": {"phases": 4}, "train": {"epochs": 4}, "method": {"name": "finetune"}}
    config, trials = choose_image_size(config_of(tmp_path / "x.npz", enlarged(), layers))
    assert [trial.side for trial in trials] == [24, 16, 12, 8]
    assert [trial.held for trial in trials] == sorted(trial.held for trial in trials)
    assert trials[-1].held == pytest.approx(9 * trials[0].held, abs=9)
    assert config.data.image_size == 8
    assert trials[-1].accuracy > trials[0].accuracy + 0.1


@pytest.mark.learning
def test_large_wins_where_classes_differ_in_detail(tmp_path: Path) -> None:
    config, trials = choose_image_size(config_of(tmp_path / "x.npz", textures(), {"train": {"epochs": 6}}))
    assert [trial.side for trial in trials] == [16, 11, 8]
    assert config.data.image_size == 16
    assert trials[0].accuracy > trials[-1].accuracy + 0.1


def test_what_is_chosen_is_a_run_like_any_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = config_of(tmp_path / "x.npz", textures(), {"policy": "static"})
    accuracies = {16: 0.4, 11: 0.6, 8: 0.5}
    monkeypatch.setattr(image_size, "try_side", lambda config, side: SizeTrial(side, 1, (accuracies[side],)))
    chosen, _ = choose_image_size(config)
    expected = config.model_copy(update={"data": config.data.model_copy(update={"image_size": 11})})
    assert chosen == expected
    assert prepare(chosen).scenario.bank.shape == (11, 11, 3)


def test_ties_go_to_the_smaller_side() -> None:
    trials = [SizeTrial(48, 10, (0.5, 0.7)), SizeTrial(32, 20, (0.6, 0.6)), SizeTrial(24, 40, (0.6, 0.5))]
    assert best_side(trials) == 32


@pytest.mark.parametrize(
    ("own", "sides"),
    [
        (48, (48, 32, 24, 16)),
        (32, (32, 21, 16, 11)),
        (16, (16, 11, 8)),
        (8, (8,)),
        (4, (4,)),
        (224, (224, 149, 112, 75)),
    ],
)
def test_candidates(own: int, sides: tuple[int, ...]) -> None:
    assert candidate_sides(own) == sides


def test_the_own_side_of_sets_for_resized_crops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = config_of(tmp_path / "x.npz", textures())
    assert own_side(config) == 16

    def cropped(settings: DataSettings) -> Dataset:
        dataset = load_dataset(settings)
        return replace(dataset, preprocessing=replace(dataset.preprocessing, augment="resized-crop"))

    monkeypatch.setattr(image_size, "load_dataset", cropped)
    assert own_side(config) == 14


def test_a_policy_with_its_own_codec(tmp_path: Path) -> None:
    """Codes of half the size are twice as many samples."""
    quick = {"train": {"epochs": 1}, "finetune": {"epochs": 0}}
    raw, coded = (
        choose_image_size(config_of(tmp_path / "x.npz", textures(), quick, {"policy": policy}))[1]
        for policy in ("fixed-0.5", "fixed-0.5@ycc420")
    )
    assert [trial.held for trial in coded[::2]] == pytest.approx([2 * trial.held for trial in raw[::2]], abs=2)


def test_the_test_set_is_sealed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Poison:
        def __getattribute__(self, name: str) -> Any:
            raise AssertionError(f"the test split was asked for {name}")

    for module in ("remem.rl.pseudo_tasks", "remem.rl.image_size"):
        monkeypatch.setattr(f"{module}.load_dataset", lambda settings: replace(load_dataset(settings), test=Poison()))
    quick = {"train": {"epochs": 1}, "finetune": {"epochs": 0}}
    choose_image_size(config_of(tmp_path / "x.npz", textures(), quick))


def test_refusals(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"data.image_size: auto given, but npz:x.npz holds vectors; expected images"):
        choose_image_size(config_of(tmp_path / "x.npz", blobs()))
    config = config_of(tmp_path / "x.npz", textures())
    with pytest.raises(InputError, match=r"data.image_size: auto given, which only `remem run` can choose"):
        prepare(config)
    with pytest.raises(InputError, match=r"data.image_size: auto given for 2 devices"):
        choose_image_size(config.model_copy(update={"train": config.train.model_copy(update={"devices": 2})}))
