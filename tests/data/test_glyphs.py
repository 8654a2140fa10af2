"""glyphs.py: a hundred measurably different shapes, unseen test faces, and a cache that survives damage."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import matplotlib
import numpy as np
import PIL
import pytest
import torch
import torch.nn.functional as F
from matplotlib.ft2font import FT2Font
from torch import Tensor

from remem.data import glyphs
from remem.data.datasets import load_dataset
from remem.data.glyphs import CHARACTERS, CLUTTER, FACES, PREPROCESSING, build, cached, stencils
from remem.data.settings import DataSettings

DRAWN_WITH = ("3.11.2", "13.0.0")
DIGESTS = {
    "train": "be9fa2ed83232442e8c83ee13f5cb2db99f9ec8e0daf63866fac51dd3500708c",
    "test": "5e0a2b97a083fadeea834265918130433edd4eb9251e3ecddf0ef6d8d29415b6",
}
ALIKE = 0.9  # the two most similar characters of the set reach 0.88, the homoglyphs below 0.97 and more


def outlines(characters: str, faces: tuple[str, ...], square: bool) -> Tensor:
    """Masks (faces * characters, 32, 32), blurred a little so that stroke width matters less."""
    masks = torch.from_numpy(stencils(characters, faces)).float().flatten(0, 1)
    if square:  # equal width and height: stretching must not turn one character into another
        masks = torch.stack([_squared(mask) for mask in masks])
    small = F.interpolate(masks[:, None, 6:-6, 6:-6], (32, 32), mode="area")
    kernel = torch.tensor([1.0, 4.0, 6.0, 4.0, 1.0]) / 16
    return F.conv2d(small, torch.outer(kernel, kernel)[None, None], padding=2)[:, 0]


def _squared(mask: Tensor) -> Tensor:
    rows, columns = torch.nonzero(mask.amax(1)).flatten(), torch.nonzero(mask.amax(0)).flatten()
    ink = mask[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    return F.pad(F.interpolate(ink[None, None], (44, 44), mode="area")[0, 0], (10, 10, 10, 10))


def likeness(characters: str, faces: tuple[str, ...]) -> Tensor:
    """(characters, characters): the highest correlation over pairs of faces and shifts, stretched and not."""
    count, best = len(characters), torch.full((len(characters),) * 2, -1.0)
    for square in (False, True):
        pictures = outlines(characters, faces, square)
        for down in (-2, 0, 2):
            for across in (-2, 0, 2):
                moved = torch.roll(pictures, (down, across), (1, 2))
                pairs = (unit(pictures) @ unit(moved).T).view(len(faces), count, len(faces), count)
                best = torch.maximum(best, pairs.amax((0, 2)))
    return torch.maximum(best, best.T)


def unit(pictures: Tensor) -> Tensor:
    flat = pictures.flatten(1)
    return F.normalize(flat - flat.mean(1, keepdim=True))


def all_faces() -> tuple[str, ...]:
    return FACES["train"] + FACES["test"]


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five characters and few samples, to save time."""
    monkeypatch.setattr(glyphs, "CHARACTERS", CHARACTERS[:5])
    monkeypatch.setattr(glyphs, "PER_CLASS", {"train": 10, "test": 3})


def test_every_face_has_every_character() -> None:
    fonts = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    assert len(set(CHARACTERS)) == 100
    for face in all_faces():
        known = FT2Font(str(fonts / f"{face}.ttf")).get_charmap()
        assert [c for c in CHARACTERS + CLUTTER if ord(c) not in known] == []


def test_no_two_characters_look_alike_in_any_two_faces() -> None:
    same = likeness(CHARACTERS, all_faces()).fill_diagonal_(0)
    worst = divmod(int(same.argmax()), len(CHARACTERS))
    assert same.max() < ALIKE, f"{CHARACTERS[worst[0]]} and {CHARACTERS[worst[1]]} look alike"


@pytest.mark.parametrize("pair", ["AА", "oO", "O0", "sS", "xХ", "vѵ", "lI", "nп", "PР", "ΣƩ"])
def test_the_measure_finds_homoglyphs(pair: str) -> None:
    assert likeness(pair, all_faces())[0, 1] > ALIKE + 0.06


def test_no_class_is_a_stroke_of_clutter() -> None:
    same = likeness(CHARACTERS + CLUTTER, ("DejaVuSans", "DejaVuSerif"))[: len(CHARACTERS), len(CHARACTERS) :]
    assert same.max() < ALIKE


def test_training_and_test_faces_are_disjoint() -> None:
    assert set(FACES["train"]).isdisjoint(FACES["test"])
    drawn = {face: stencils(CHARACTERS, [face]).tobytes() for face in all_faces()}
    assert len(set(drawn.values())) == len(all_faces())


def test_unseen_faces_can_be_read() -> None:
    known = unit(outlines(CHARACTERS, FACES["train"], square=True))
    asked = unit(outlines(CHARACTERS, FACES["test"], square=True))
    nearest = (asked @ known.T).argmax(1) % len(CHARACTERS)
    right = nearest == torch.arange(len(CHARACTERS)).repeat(len(FACES["test"]))
    assert right.float().mean() > 0.97


def test_stencils_are_centred_and_of_one_size() -> None:
    for mask in stencils(CHARACTERS, ["DejaVuSerif"])[0]:
        rows, columns = np.nonzero(mask)
        spans = [(int(axis.min()), int(axis.max()) + 1) for axis in (rows, columns)]
        assert max(stop - start for start, stop in spans) in (glyphs.INK - 1, glyphs.INK)
        assert all(abs(start + stop - glyphs.STENCIL) <= 2 for start, stop in spans)


def test_character_and_ground_differ_in_brightness() -> None:
    ground, ink, _ = glyphs._colours(2000, np.random.default_rng(0))
    gaps = (ground.mean(1) - ink.mean(1)).abs()
    assert gaps.min() >= glyphs.CONTRAST - 1e-5
    assert 0.4 < (ground.mean(1) < ink.mean(1)).float().mean() < 0.6


def test_the_whole_set() -> None:
    splits = cached(None)
    assert splits["train"].shape == (100, 300, 16, 16, 3)
    assert splits["test"].shape == (100, 60, 16, 16, 3)
    pixels = splits["train"].reshape(-1, 3) / 255
    assert PREPROCESSING.mean == pytest.approx(pixels.mean(0), abs=0.01)
    assert PREPROCESSING.std == pytest.approx(pixels.std(0), abs=0.01)
    everything = [picture.tobytes() for pixels in splits.values() for picture in pixels.reshape(-1, 768)]
    assert len(set(everything)) == len(everything)
    if (matplotlib.__version__, PIL.__version__) == DRAWN_WITH:  # others may draw the same fonts differently
        assert {name: hashlib.sha256(pixels.tobytes()).hexdigest() for name, pixels in splits.items()} == DIGESTS


DRAW = """
import hashlib
from remem.data import glyphs

glyphs.CHARACTERS, glyphs.PER_CLASS = glyphs.CHARACTERS[::20], {"train": 60, "test": 60}
print([hashlib.sha256(glyphs.build(split).tobytes()).hexdigest() for split in glyphs.FACES])
"""


def test_pixels_do_not_depend_on_the_instruction_set() -> None:
    """5 classes of 60 + 60 images, with all instructions of this processor and with those that all have."""
    baseline = {"ATEN_CPU_CAPABILITY": "default", "NPY_DISABLE_CPU_FEATURES": optional_features()}
    runs = [
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", DRAW], env={**os.environ, **env}, capture_output=True, check=True
        )
        for env in ({}, baseline)
    ]
    assert runs[0].stdout.count(b",") == 1
    assert runs[0].stdout == runs[1].stdout


def optional_features() -> str:
    """The instruction sets that numpy uses here beyond its baseline."""
    simd = np.show_config(mode="dicts")["SIMD Extensions"]
    return " ".join(simd.get("found", []))


@pytest.mark.usefixtures("few")
def test_two_builds_are_equal() -> None:
    for split in FACES:
        first, second = build(split), build(split)
        assert np.array_equal(first, second)
    assert not np.array_equal(build("train")[:, :3], build("test"))


@pytest.mark.usefixtures("few")
def test_a_cached_set_equals_a_fresh_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fresh = cached(None)
    written = cached(tmp_path / "new")
    files = list((tmp_path / "new").iterdir())
    assert len(files) == 1
    assert f"matplotlib-{matplotlib.__version__}" in files[0].name
    monkeypatch.setattr(glyphs, "build", lambda split: pytest.fail("built again"))
    read = cached(tmp_path / "new")
    for split in FACES:
        assert np.array_equal(fresh[split], written[split])
        assert np.array_equal(fresh[split], read[split])


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("damage", ["cut", "bit", "empty", "pickle", "shape", "absent"])
def test_a_damaged_cache_is_rebuilt(tmp_path: Path, damage: str) -> None:
    fresh = cached(tmp_path)
    (path,) = tmp_path.iterdir()
    content = bytearray(path.read_bytes())
    if damage == "cut":
        path.write_bytes(content[: len(content) // 2])
    elif damage == "bit":
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "pickle":
        np.savez(path, train=np.array([{}], dtype=object), test=fresh["test"])
    elif damage == "shape":
        np.savez(path, train=fresh["train"][:, :-1], test=fresh["test"])
    else:
        np.savez(path, train=fresh["train"])
    again = cached(tmp_path)
    assert all(np.array_equal(fresh[split], again[split]) for split in FACES)
    with np.load(path, allow_pickle=False) as repaired:
        assert all(np.array_equal(fresh[split], repaired[split]) for split in FACES)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.usefixtures("few")
def test_an_unwritable_folder_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    splits = cached(tmp_path / "file" / "below")
    assert splits["train"].shape == (5, 10, 16, 16, 3)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.usefixtures("few")
def test_a_write_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez", full)
    assert cached(tmp_path)["test"].shape == (5, 3, 16, 16, 3)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("few")
def test_loading_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(glyphs, "cache_folder", lambda: tmp_path)
    dataset = load_dataset(DataSettings(name="glyphs"))
    assert len(list(tmp_path.iterdir())) == 1
    assert dataset.class_names == tuple(CHARACTERS[:5])
    assert dataset.train.shape == (16, 16, 3)
    assert np.bincount(dataset.train.labels).tolist() == [10] * 5
    assert np.bincount(dataset.test.labels).tolist() == [3] * 5
    rows = np.flatnonzero(dataset.test.labels == 4)
    assert np.array_equal(dataset.test.read(rows), build("test")[4])
    small = load_dataset(DataSettings(name="glyphs", image_size=8, cache=False))
    assert small.train.shape == (8, 8, 3)
