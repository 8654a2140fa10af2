"""ImageNet on synthetic folder trees: labels, sizes and preprocessing; the real mini-imagenet if available."""

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from remem.data import folder, imagenet
from remem.data.datasets import check_dataset, load_dataset
from remem.data.imagenet import stored_side
from remem.data.scenario import build_scenario
from remem.data.settings import DataSettings, ScenarioSettings
from remem.errors import DamagedFileError


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """1000 classes; image k has the single colour (k // 256, k % 256, split)."""
    root = tmp_path_factory.mktemp("data")
    for s, split in enumerate(("train", "val")):
        for k in range(1000):
            path = root / "imagenet" / split / f"n{k:08d}"
            path.mkdir(parents=True)
            Image.new("RGB", (3, 2), (k // 256, k % 256, s)).save(path / "image.png")
    return root


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder, "cache_folder", lambda: tmp_path / "cache")


def places(values: np.ndarray) -> list[int]:
    return [int(image[0, 0, 0]) * 256 + int(image[0, 0, 1]) for image in values]


def load(name: str, root: Path) -> tuple[list[int], list[int], tuple[str, ...]]:
    data = load_dataset(DataSettings(name=name, root=root, image_size=1, cache=False))
    assert data.train.labels.tolist() == data.test.labels.tolist() == list(range(len(data.class_names)))
    everything = np.arange(len(data.class_names))
    return places(data.train.read(everything)), places(data.test.read(everything)), data.class_names


def test_subsets_and_full(root: Path) -> None:
    train, test, names = load("imagenet-subset-podnet", root)
    assert train == test == list(range(100))
    assert names[:2] == ("n00000000", "n00000001")
    train, test, names = load("imagenet-subset-lucir", root)
    assert train == test
    assert train[:6] == [7, 11, 14, 44, 54, 62]
    assert names[0] == "n00000007"
    train, _, names = load("imagenet-full", root)
    assert train == list(range(1000))
    assert len(names) == 1000


def test_lucir_order_gives_the_published_classes(root: Path) -> None:
    data = load_dataset(DataSettings(name="imagenet-subset-lucir", root=root, image_size=1, cache=False))
    made = build_scenario(data, ScenarioSettings(phases=5, order="lucir"))
    assert made.class_names[:4] == ("n00000637", "n00000509", "n00000782", "n00000085")


def test_sizes_and_preprocessing(root: Path) -> None:
    settings = DataSettings(name="imagenet-subset-podnet", root=root)
    data = load_dataset(settings)
    assert data.train.shape == (256, 256, 3)
    assert data.preprocessing.augment == "resized-crop"
    assert data.preprocessing.flip
    assert load_dataset(settings.model_copy(update={"image_size": 64, "cache": False})).train.shape == (74, 74, 3)
    assert check_dataset(settings) == []


def test_stored_side_gives_the_requested_crop() -> None:
    assert stored_side(224) == 256
    assert all(stored_side(size) * 7 // 8 == size for size in range(1, 512))  # the crop of data/augment.py


def test_missing_classes_are_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imagenet, "CLASSES", 1001)
    settings = DataSettings(name="imagenet-full", root=root)
    with pytest.raises(DamagedFileError, match=r"imagenet-full: 1000 class folders in .*; expected all 1001"):
        load_dataset(settings)
    assert len(check_dataset(settings)) == 1


def test_mini_imagenet(tmp_path: Path) -> None:
    for split in ("train", "val"):
        for name in ("a", "b"):
            (tmp_path / "mini-imagenet" / split / name).mkdir(parents=True)
            Image.new("RGB", (48, 48), "red").save(tmp_path / "mini-imagenet" / split / name / "1.webp", lossless=True)
    data = load_dataset(DataSettings(name="mini-imagenet", root=tmp_path))
    assert data.train.shape == (48, 48, 3)
    assert data.train.read(np.array([1]))[0, 47, 0].tolist() == [255, 0, 0]
    assert data.preprocessing.augment == "crop"
    assert data.preprocessing.mean == (0.485, 0.456, 0.406)
    assert check_dataset(DataSettings(name="mini-imagenet", root=tmp_path)) == []


@pytest.mark.realdata
@pytest.mark.skipif("REMEM_DATA" not in os.environ, reason="REMEM_DATA is not set")
def test_the_real_mini_imagenet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder, "check_headers", lambda files, **_: 48)  # 60,000 files take too long for a test
    data = load_dataset(DataSettings(name="mini-imagenet", cache=False))
    assert np.bincount(data.train.labels).tolist() == [500] * 100
    assert np.bincount(data.test.labels).tolist() == [100] * 100
    rows = np.array([0, 499, 500, 49_999])
    images = data.train.read(rows)
    assert images.shape == (4, 48, 48, 3)
    assert len({image.tobytes() for image in images}) == 4
    # The mean is close to ImageNet's.
    sample = data.train.read(np.arange(0, 50_000, 100))
    assert np.allclose(sample.mean(axis=(0, 1, 2)) / 255, data.preprocessing.mean or (), atol=0.05)
