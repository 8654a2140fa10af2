"""Test factories: data sets made in milliseconds, and runs on them that take a second."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from remem.data.arrays import from_arrays
from remem.data.preprocessing import Preprocessing
from remem.data.scenario import build_scenario
from remem.data.source import Dataset
from remem.episode import Episode
from remem.events import ignore
from remem.runs.build import open_episode, prepare
from remem.runs.config import compose
from remem.runs.devices import open_fabric
from remem.runs.prepared import Prepared
from remem.runs.results import PhaseRecord
from remem.types import Phase, PhaseResult

NO_REPLAY = {"method": {"name": "finetune", "replay": False}}
UNEVEN = {"scenario": {"phases": 3, "base_classes": 2}}  # six classes: 2, then 2, 1 and 1

QUICK: dict[str, Any] = {
    "seed": 3,
    "scenario": {"phases": 2, "base_classes": 2, "order": "natural"},
    "memory": {"budget": 40, "exemplars": 20},
    "train": {"epochs": 2, "batch_size": 16, "precision": "fp32", "device": "cpu"},
    "finetune": {"epochs": 1},
}
VECTORS: dict[str, Any] = {**QUICK, "net": {"name": "mlp", "hidden": [16], "width": 8}}
IMAGES: dict[str, Any] = {**QUICK, "net": {"name": "small", "width": 4, "blocks": [1, 1]}}


def blobs(
    classes: int = 6, per_class: int = 20, *, size: int = 6, spread: float = 0.5, seed: int = 0, test_per_class: int = 8
) -> Dataset:
    """Vectors around one centre per class. With a small spread, the classes are separable."""
    rng = np.random.default_rng(seed)
    centres = 3 * rng.standard_normal((classes, size))

    def draw(count: int) -> tuple[Any, Any]:
        labels = np.repeat(np.arange(classes), count)
        return (centres[labels] + spread * rng.standard_normal((len(labels), size))).astype(np.float32), labels

    return from_arrays(*draw(per_class), *draw(test_per_class), name="blobs")


def pictures(classes: int = 6, per_class: int = 14, *, side: int = 8, flip: bool = True, seed: int = 0) -> Dataset:
    """Noisy images with a coloured square: each class has its own colour, in one of four corners."""
    rng = np.random.default_rng(seed)
    colours = rng.integers(60, 256, (classes, 3))

    def draw(count: int) -> tuple[Any, Any]:
        labels = np.repeat(np.arange(classes), count)
        images = rng.integers(0, 60, (len(labels), side, side, 3))
        half = side // 2
        for image, label in zip(images, labels, strict=True):
            top, left = half * (label % 2), half * (label // 2 % 2)
            image[top : top + half, left : left + half] = colours[label]
        return images.astype(np.uint8), labels

    preprocessing = Preprocessing(mean=None, std=None, augment="crop", flip=flip)
    return from_arrays(*draw(per_class), *draw(5), name="pictures", preprocessing=preprocessing)


def ready(dataset: Dataset, *layers: Mapping[str, Any]) -> Prepared:
    """A prepared run on a data set in memory. Later layers override earlier ones, and all override QUICK."""
    base = IMAGES if len(dataset.train.shape) == 3 else VECTORS
    config = compose(base, {"data": {"name": dataset.name}}, *layers)
    return prepare(config, scenario=build_scenario(dataset, config.scenario))


def opened(prepared: Prepared) -> Episode:
    """The run's episode before phase 0, in this process."""
    return open_episode(prepared, open_fabric(prepared.config.train), ignore)


def play(episode: Episode, prepared: Prepared, *, stop: int | None = None, owned: bool = False) -> list[PhaseResult]:
    """Plays the remaining phases, or those before `stop`. `owned` makes every phase a user stream of copied rows."""
    results = []
    for phase in prepared.scenario.phases[episode.next_phase : stop]:
        given = streamed(episode, phase) if owned else phase
        action = prepared.policy.act(episode.observe(given)) if phase.index else None
        results.append(episode.advance(given, action))
    return results


def streamed(episode: Episode, phase: Phase) -> Phase:
    """The phase with its training rows copied into the episode's bank, which owns them and can drop them."""
    bank = episode._bank
    return replace(phase, train={label: bank.own(bank.read(rows)) for label, rows in phase.train.items()})


def facts_of(result: PhaseResult) -> dict[str, Any]:
    """Everything that a phase reports except seconds, including predictions, as plain values."""
    predicted = result.predictions
    heads = {"cnn": predicted.cnn.tolist(), "nme": None if predicted.nme is None else predicted.nme.tolist()}
    return {**timeless(PhaseRecord.of(result).model_dump(mode="json")), **heads}


def timeless(tree: Any) -> Any:
    """The same tree without any `seconds`."""
    if isinstance(tree, Mapping):
        return {key: timeless(value) for key, value in tree.items() if key != "seconds"}
    return [timeless(value) for value in tree] if isinstance(tree, list | tuple) else tree


def same_tensors(one: Mapping[str, torch.Tensor], other: Mapping[str, torch.Tensor]) -> bool:
    """Compares names, types, shapes and values bit for bit."""
    return one.keys() == other.keys() and all(
        value.dtype == other[name].dtype and torch.equal(value, other[name]) for name, value in one.items()
    )


def write_folder(root: Path, dataset: Dataset) -> None:
    """train/<class>/<number>.png and val/<class>/<number>.png."""
    for split, source in (("train", dataset.train), ("val", dataset.test)):
        for row, label in enumerate(source.labels.tolist()):
            place = root / split / f"class {label}"
            place.mkdir(parents=True, exist_ok=True)
            Image.fromarray(source.read(np.array([row]))[0]).save(place / f"{row:03}.png")


def write_npz(path: Path, dataset: Dataset) -> None:
    """x_train, y_train, x_test, y_test."""
    splits = {"train": dataset.train, "test": dataset.test}
    arrays: dict[str, Any] = {f"x_{name}": split.read(np.arange(len(split.labels))) for name, split in splits.items()}
    arrays |= {f"y_{name}": split.labels for name, split in splits.items()}
    np.savez(path, **arrays)
