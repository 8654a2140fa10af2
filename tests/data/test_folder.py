"""Image folders: listing, splits, headers and notes; cached and lazily decoded rows are equal."""

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from remem.data import folder as module
from remem.data.datasets import check_dataset, load_dataset
from remem.data.decoded import DecodedSource
from remem.data.folder import FolderSource
from remem.data.images import decode
from remem.data.settings import DataSettings
from remem.errors import DamagedFileError, InputError


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "cache"
    monkeypatch.setattr(module, "cache_folder", lambda: path)
    return path


def picture(path: Path, seed: int, shape: tuple[int, ...] = (12, 16, 3)) -> np.ndarray:
    path.parent.mkdir(parents=True, exist_ok=True)
    values = np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)
    Image.fromarray(values).save(path)
    return values


def tree(root: Path, splits: tuple[str, ...] = ("train", "val"), count: int = 4) -> Path:
    for s, split in enumerate(splits):
        for c, name in enumerate(("cat", "Ant", "bee")):
            for i in range(count):
                picture(root / split / name / f"{i}.{('png', 'webp', 'jpg', 'PNG')[i % 4]}", 100 * s + 10 * c + i)
    return root


def settings(root: Path, **more: object) -> DataSettings:
    return DataSettings.model_validate({"name": f"folder:{root}", **more})


def test_classes_and_rows_are_sorted(tmp_path: Path) -> None:
    data = load_dataset(settings(tree(tmp_path / "set")))
    assert data.name == "folder:set"
    assert data.class_names == ("Ant", "bee", "cat")
    assert data.train.labels.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert data.train.shape == (12, 12, 3)  # the median shorter side
    first = np.asarray(Image.open(tmp_path / "set" / "train" / "Ant" / "0.png"))
    assert np.array_equal(data.train.read(np.array([0]))[0], first[:, 2:14])
    assert data.notes == ()


def test_lazy_and_cached_rows_are_equal(tmp_path: Path) -> None:
    root = tree(tmp_path / "set")
    cached, lazy = (load_dataset(settings(root, image_size=8, cache=flag)) for flag in (True, False))
    assert isinstance(cached.train, DecodedSource)
    assert isinstance(lazy.train, FolderSource)
    rows = np.array([11, 0, 5, 5, 3])
    assert np.array_equal(cached.train.read(rows), lazy.train.read(rows))
    assert np.array_equal(cached.test.read(rows), lazy.test.read(rows))
    assert not np.array_equal(cached.test.read(rows), cached.train.read(rows))
    assert cached.train.fingerprint == lazy.train.fingerprint != cached.test.fingerprint


@pytest.mark.parametrize(("limit", "by_threads"), [(10**9, False), (0, True)])
def test_large_files_are_decoded_by_threads_tiny_ones_are_not(
    limit: int, by_threads: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = set[str]()

    def noted(path: Path, size: int, **limits: int) -> np.ndarray:
        names.add(threading.current_thread().name)
        return decode(path, size, max_pixels=limits["max_pixels"])

    monkeypatch.setattr(module, "TINY_BYTES", limit)
    monkeypatch.setattr(module, "decode", noted)
    root = tree(tmp_path / "set")
    values = load_dataset(settings(root, image_size=8, cache=False)).train.read(np.arange(12))
    paths = [
        root / "train" / name / file
        for name in ("Ant", "bee", "cat")
        for file in sorted(os.listdir(root / "train" / name))
    ]
    assert np.array_equal(values, [decode(path, 8) for path in paths])
    assert all(name.startswith("helper") for name in names) is by_threads
    assert (threading.current_thread().name in names) is not by_threads


def test_second_load_decodes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tree(tmp_path / "set")
    first = load_dataset(settings(root)).train.read(np.arange(12))

    def refuse(*arguments: object) -> None:
        raise AssertionError("an image was opened")

    monkeypatch.setattr(module, "decode", refuse)
    monkeypatch.setattr(module, "short_side", refuse)
    assert np.array_equal(load_dataset(settings(root)).train.read(np.arange(12)), first)


def test_changed_files_are_read_again(tmp_path: Path) -> None:
    root = tree(tmp_path / "set")
    before = load_dataset(settings(root))
    path = root / "train" / "Ant" / "0.png"
    old = path.stat()
    values = picture(path, 999)
    os.utime(path, ns=(old.st_atime_ns, old.st_mtime_ns + 1))
    after = load_dataset(settings(root))
    assert after.train.fingerprint != before.train.fingerprint
    assert after.test.fingerprint == before.test.fingerprint
    assert np.array_equal(after.train.read(np.array([0]))[0], values[:, 2:14])


def test_without_val_a_share_of_train_is_the_test_set(tmp_path: Path) -> None:
    root = tree(tmp_path / "set", ("train",), count=10)
    picture(root / "train" / "one" / "only.png", 5)
    data = load_dataset(settings(root, val_share=0.3))
    assert np.bincount(data.test.labels, minlength=4).tolist() == [3, 3, 3, 0]
    assert np.bincount(data.train.labels, minlength=4).tolist() == [7, 7, 7, 1]
    together = {
        row.tobytes() for source in (data.train, data.test) for row in source.read(np.arange(len(source.labels)))
    }
    assert len(together) == 31  # no image is in both
    assert "has no val: 30% of every class" in data.notes[0]
    again = load_dataset(settings(root, val_share=0.3, cache=False))
    assert again.test.fingerprint == data.test.fingerprint
    copy = tmp_path / "copy"
    root.rename(copy)
    assert load_dataset(settings(copy, val_share=0.3)).test.fingerprint == data.test.fingerprint


def test_ignored_files_are_reported_in_a_note(tmp_path: Path) -> None:
    root = tree(tmp_path / "set")
    (root / "train" / "Ant" / "notes.txt").write_text("x")
    (root / "val" / "bee" / "movie.gif").write_bytes(b"x")
    (root / "train" / "Ant" / ".hidden.png").write_bytes(b"x")
    (root / "train" / ".hidden").mkdir()
    data = load_dataset(settings(root))
    assert len(data.train.labels) == 12
    assert len(data.notes) == 1
    assert "2 files are ignored (1 .gif, 1 .txt), since they are not .jpg, .jpeg, .png, " in data.notes[0]


@pytest.mark.parametrize("suffix", [".bmp", ".ppm", ".tif", ".tiff", ".png", ".webp", ".jpg", ".JPEG"])
def test_every_kind_of_image_is_read(suffix: str, tmp_path: Path) -> None:
    image = np.zeros((6, 6, 3), np.uint8)
    image[..., 0], image[3:, :, 1] = 200, 90
    for split in ("train", "val"):
        (tmp_path / split / "a").mkdir(parents=True)
        Image.fromarray(image).save(tmp_path / split / "a" / f"1{suffix}")
    data = load_dataset(settings(tmp_path))
    assert data.notes == ()
    difference = np.abs(data.train.read(np.array([0]))[0].astype(int) - image)
    assert difference.max() <= (0 if suffix not in (".webp", ".jpg", ".JPEG") else 60)
    assert check_dataset(settings(tmp_path)) == []


def test_sixteen_bits_and_pages_of_a_tiff(tmp_path: Path) -> None:
    (tmp_path / "train" / "a").mkdir(parents=True)
    deep = Image.fromarray(np.full((4, 4), 0x7F80, np.uint16))
    deep.save(tmp_path / "train" / "a" / "deep.tif", save_all=True, append_images=[Image.new("L", (2, 2))])
    Image.fromarray(np.full((4, 4), 0.5, np.float32)).save(tmp_path / "float.tif")
    assert decode(tmp_path / "train" / "a" / "deep.tif", 2).tolist() == [[[0x7F] * 3] * 2] * 2
    with pytest.raises(DamagedFileError, match="pixels are floats; expected 8 or 16 bits"):
        decode(tmp_path / "float.tif", 2)


def test_without_val_a_folder_test_is_the_test_set(tmp_path: Path) -> None:
    root = tree(tmp_path / "set")
    expected = load_dataset(settings(root, cache=False))
    (root / "val").rename(root / "test")
    data = load_dataset(settings(root, cache=False))
    assert data.notes == (f"{root} has no val: test is the test set",)
    assert data.test.fingerprint == expected.test.fingerprint
    assert data.train.fingerprint == expected.train.fingerprint
    assert check_dataset(settings(root)) == []
    picture(root / "test" / "emu" / "0.png", 1)
    with pytest.raises(InputError, match="class 'emu' is in test, not in train; every class needs training images"):
        load_dataset(settings(root))


def test_a_folder_test_is_never_ignored_in_silence(tmp_path: Path) -> None:
    root = tree(tmp_path / "set")
    picture(root / "test" / "Ant" / "0.png", 1)
    assert load_dataset(settings(root)).notes == (
        f"{root} has val and test: val is the test set, and test is not read",
    )
    shutil.rmtree(root / "val")
    shutil.rmtree(root / "test")
    picture(root / "test" / "0.png", 1)  # without classes
    notes = load_dataset(settings(root)).notes
    assert notes == (f"{root} has no val and test has no class folders: 20% of every class in train are the test set",)


def test_default_size_is_the_median_up_to_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for i, side in enumerate((4, 10, 300)):
        picture(tmp_path / "set" / "train" / "a" / f"{i}.png", i, (side, side + 2, 3))
        picture(tmp_path / "set" / "val" / "a" / f"{i}.png", i, (5, 5, 3))
    assert load_dataset(settings(tmp_path / "set")).test.shape == (10, 10, 3)
    monkeypatch.setattr(module, "LARGEST_SIZE", 8)
    assert load_dataset(settings(tmp_path / "set")).test.shape == (8, 8, 3)
    assert load_dataset(settings(tmp_path / "set", image_size=20)).test.shape == (20, 20, 3)


@pytest.mark.parametrize("cache", [True, False])
def test_broken_headers_are_found_at_load_time(tmp_path: Path, cache: bool) -> None:
    root = tree(tmp_path / "set")
    (root / "val" / "bee" / "1.webp").write_bytes(b"RIFF")
    with pytest.raises(DamagedFileError, match=r"bee/1\.webp"):
        load_dataset(settings(root, cache=cache))
    problems = check_dataset(settings(root))
    assert len(problems) == 1
    assert "1.webp" in problems[0]


def test_broken_pixels_are_found_when_decoded(tmp_path: Path) -> None:
    root = tree(tmp_path / "set")
    path = root / "train" / "bee" / "0.png"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DamagedFileError, match=r"bee/0\.png"):
        load_dataset(settings(root))
    lazy = load_dataset(settings(root, cache=False))
    assert len(lazy.train.read(np.array([0, 1, 2, 3]))) == 4
    with pytest.raises(DamagedFileError, match=r"bee/0\.png"):
        lazy.train.read(np.array([0, 4]))
    assert [problem.split(": ")[0] for problem in check_dataset(settings(root))] == [str(path)]
    path.write_bytes(whole)
    assert check_dataset(settings(root)) == []
    assert np.array_equal(load_dataset(settings(root)).train.read(np.arange(12)), lazy.train.read(np.arange(12)))


def test_too_large_sets_and_unwritable_caches_are_read_lazily(tmp_path: Path, cache: Path) -> None:
    root = tree(tmp_path / "set")
    large = load_dataset(settings(root, cache_gigabytes=1e-6))
    assert isinstance(large.train, FolderSource)
    assert "decoded on every read" in large.notes[0]
    assert not (cache / "decoded").exists()
    (cache / "decoded").write_text("a file where the folder should be")
    closed = load_dataset(settings(root))
    assert isinstance(closed.train, FolderSource)
    assert "cannot be written" in closed.notes[0]
    assert np.array_equal(closed.train.read(np.arange(12)), large.train.read(np.arange(12)))


def links(root: Path, classes: int) -> Path:
    """Twenty hard links to one image per class for training, and the image itself for testing."""
    for label in range(classes):
        own, image = f"class-{label:04}", root / "val" / f"class-{label:04}" / "picture-00000000.png"
        picture(image, 1, (24, 24, 3))
        (root / "train" / own).mkdir(parents=True)
        for number in range(20):
            os.link(image, root / "train" / own / f"picture-{number:08}.png")
    return root


MEASURE = """
import gc, sys, tracemalloc
import numpy as np
from remem.data.datasets import load_dataset
from remem.data.settings import DataSettings
for root in sys.argv[2:]:
    tracemalloc.start()
    settings = {"name": f"folder:{root}", "cache": sys.argv[1] == "True", "image_size": 23}
    data = load_dataset(DataSettings.model_validate(settings))
    data.train.read(np.arange(20))
    gc.collect()
    print(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
"""


@pytest.mark.parametrize("cached", [True, False])
def test_an_unread_image_takes_64_bytes(tmp_path: Path, cached: bool) -> None:
    """Only name, label and offset are kept; a decoded image would take 1587 bytes."""
    # The first set pays for imports. A new process, since memory of other tests would disturb the measurement.
    roots = [links(tmp_path / f"set {place}", classes) for place, classes in enumerate((8, 8, 100))]
    command = [sys.executable, "-c", MEASURE, str(cached), *map(str, roots)]
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    output = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    kept = [int(line) for line in output.split()]
    assert kept[2] - kept[1] < 64 * 21 * (100 - 8) + 20_000  # plus 200 bytes per class


def test_headers_need_no_cache(tmp_path: Path, cache: Path) -> None:
    cache.write_text("a file where the folder should be")
    data = load_dataset(settings(tree(tmp_path / "set")))
    assert data.train.read(np.array([0])).shape == (1, 12, 12, 3)


def test_wrong_trees_are_explained(tmp_path: Path) -> None:
    with pytest.raises(DamagedFileError, match=r"no folder .*train; expected train/<class>/<image>"):
        load_dataset(settings(tmp_path / "absent"))
    (tmp_path / "empty" / "train" / "a").mkdir(parents=True)
    with pytest.raises(DamagedFileError, match=r"no \.jpg.* files in .*empty/train/<class>/"):
        load_dataset(settings(tmp_path / "empty"))
    root = tree(tmp_path / "set")
    picture(root / "val" / "dog" / "0.png", 1)
    with pytest.raises(InputError, match="class 'dog' is in val, not in train"):
        load_dataset(settings(root))
    assert len(check_dataset(settings(root))) == 1


def test_check_names_empty_classes(tmp_path: Path) -> None:
    root = tree(tmp_path / "set")
    (root / "train" / "dog").mkdir()
    problems = check_dataset(settings(root))
    assert [problem.split(": ")[1] for problem in problems] == ["class 'dog' has no images"] * 2
