"""arrivals.py: folders, CSV files and arrays become samples of one shape, with labels and identities."""

import hashlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from remem.data.images import decode, resize
from remem.data.settings import DataSettings
from remem.errors import InputError
from remem.estimator.arrivals import file_id, read_arrivals, sample_id

SETTINGS = DataSettings()


def picture(path: Path, size: tuple[int, int] = (12, 12), seed: int = 0) -> Path:
    """A colour PNG of random pixels, height x width."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (*size, 3), np.uint8)
    Image.fromarray(pixels).save(path)
    return path


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Two classes of three and one pictures; shorter sides 8, 10, 12, 12."""
    for number, size in enumerate([(8, 12), (10, 10), (12, 14)]):
        picture(tmp_path / "photos" / "cat" / f"{number}.png", size, number)
    picture(tmp_path / "photos" / "dog" / "0.png", (12, 12), 9)
    return tmp_path / "photos"


def test_a_folder_of_class_folders(photos: Path) -> None:
    found = read_arrivals(str(photos), SETTINGS)
    assert len(found) == 4
    assert found.values.shape == (4, 10, 10, 3)  # the lower median of the shorter sides, as for data sets
    assert found.values.dtype == np.uint8
    assert found.labels == ["cat", "cat", "cat", "dog"]
    files = [photos / "cat" / f"{number}.png" for number in range(3)] + [photos / "dog" / "0.png"]
    assert found.ids == [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]
    assert found.ids[0] == file_id(files[0])
    for value, file in zip(found.values, files, strict=True):
        np.testing.assert_array_equal(value, decode(file, 10))
    assert found.notes == ()
    assert read_arrivals(f"folder:{photos}", SETTINGS).ids == found.ids


def test_the_size_is_the_models_or_the_settings(photos: Path) -> None:
    assert read_arrivals(str(photos), DataSettings(image_size=6)).values.shape == (4, 6, 6, 3)
    assert read_arrivals(str(photos), DataSettings(image_size=6), (8, 8, 3)).values.shape == (4, 8, 8, 3)
    grey = read_arrivals(str(photos), SETTINGS, (8, 8, 1)).values
    expected = np.asarray(Image.fromarray(decode(photos / "cat" / "0.png", 8)).convert("L"))
    np.testing.assert_array_equal(grey[0, :, :, 0], expected)
    for shape in ((8,), (8, 9, 3), (8, 8, 2)):
        with pytest.raises(InputError, match=r"image files given, but the model takes samples of shape \(8"):
            read_arrivals(str(photos), SETTINGS, shape)


def test_a_size_that_only_runs_can_choose_is_refused(photos: Path) -> None:
    with pytest.raises(InputError, match=r"data\.image_size: auto given, which only `remem run` can choose"):
        read_arrivals(str(photos), DataSettings(image_size="auto"))


def test_what_a_folder_leaves_out_is_noted(photos: Path) -> None:
    (photos / "cat" / "notes.txt").write_text("x")
    (photos / "empty").mkdir()
    (photos / ".hidden").mkdir()
    found = read_arrivals(str(photos), SETTINGS)
    assert len(found) == 4
    ignored, empty = found.notes
    assert "photos: 1 files are ignored (1 .txt), since they are not .jpg" in ignored
    assert empty.endswith("photos: empty: no images, so no such class")


def test_folders_without_classes_are_refused(photos: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no images; expected .*cat/<class>/<image>, \.jpg.*$"):
        read_arrivals(str(photos / "cat"), SETTINGS)
    photos.rename(tmp_path / "train")
    (tmp_path / "set").mkdir()
    (tmp_path / "train").rename(tmp_path / "set" / "train")
    with pytest.raises(InputError, match=r"no images; .*; .*set/train has class folders$"):
        read_arrivals(str(tmp_path / "set"), SETTINGS)


def test_broken_images_and_bombs_are_one_line(photos: Path) -> None:
    (photos / "dog" / "1.png").write_bytes(b"no picture")
    with pytest.raises(InputError, match=r"dog/1\.png: not a whole"):
        read_arrivals(str(photos), SETTINGS)
    (photos / "dog" / "1.png").unlink()
    with pytest.raises(InputError, match=r"data\.max_pixels=100"):
        read_arrivals(str(photos), DataSettings(max_pixels=100))


@pytest.mark.parametrize(
    "text",
    [
        "path,label\ncat/0.png,a\ndog/0.png,b\n",
        "\ufeffLabel, Path\na,cat/0.png\n\nb,dog/0.png\n",
        "cat/0.png,a\n{root}/dog/0.png, b \n",
    ],
)
def test_a_table_of_paths_and_labels(text: str, photos: Path) -> None:
    table = photos / "list.csv"
    table.write_text(text.format(root=photos), encoding="utf-8")
    found = read_arrivals(str(table), SETTINGS)
    assert found.labels == ["a", "b"]
    assert found.ids == [file_id(photos / "cat" / "0.png"), file_id(photos / "dog" / "0.png")]
    assert found.values.shape == (2, 8, 8, 3)
    np.testing.assert_array_equal(found.values[1], decode(photos / "dog" / "0.png", 8))


@pytest.mark.parametrize(
    "text", ["id,path,label\nfirst,cat/0.png,a\n,dog/0.png,b\n", "cat/0.png,a,first\ndog/0.png,b\n"]
)
def test_identities_of_a_table(text: str, photos: Path) -> None:
    (photos / "list.csv").write_text(text)
    assert read_arrivals(f"csv:{photos / 'list.csv'}", SETTINGS).ids == ["first", file_id(photos / "dog" / "0.png")]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no samples"),
        (b"path,label\n", "no samples"),
        (b"cat/0.png\n", "line 1 is 'cat/0.png'; expected a path and a label"),
        (b"path,label\ncat/0.png,a\ncat/1.png,\n", "line 3 is"),
        (b"cat/none.png,a\n", r"list\.csv: .*cat/none\.png cannot be read"),
        (b"a\x00b,a\n", r"list\.csv: "),
        (b"\xff\xfe\x00\x01,a\n", "not a CSV file in UTF-8"),
        (b'"cat/0.png,a\n', "not a CSV file in UTF-8"),
        (b"x" * 200_000 + b",a\n", r"list\.csv: "),
    ],
)
def test_broken_tables_are_one_line(content: bytes, message: str, photos: Path) -> None:
    (photos / "list.csv").write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        read_arrivals(str(photos / "list.csv"), SETTINGS)
    assert "\n" not in str(caught.value)


def test_arrays_with_labels_and_identities(tmp_path: Path) -> None:
    x = np.random.default_rng(0).integers(0, 9, (3, 4)).astype(np.float64)
    np.savez(tmp_path / "a.npz", x=x, y=np.array([2, 0, 2]))
    found = read_arrivals(f"npz:{tmp_path / 'a.npz'}", SETTINGS)
    assert found.values.dtype == np.float32
    np.testing.assert_array_equal(found.values, x)
    np.testing.assert_array_equal(found.labels, [2, 0, 2])
    assert found.ids == [hashlib.sha256(row.tobytes()).hexdigest() for row in x]  # as given, not as stored
    assert found.ids[0] == sample_id(np.asfortranarray(x)[0])
    np.savez(tmp_path / "b.npz", x_train=x, y_train=["a", "b", "a"], ids=[7, 8, 9], x_test=x, y_test=[1, 1, 1])
    found = read_arrivals(str(tmp_path / "b.npz"), SETTINGS, (4,))
    assert (list(found.labels), found.ids) == (["a", "b", "a"], ["7", "8", "9"])


def test_image_arrays_are_resized(tmp_path: Path) -> None:
    x = np.random.default_rng(0).integers(0, 256, (2, 8, 8, 1), np.uint8)
    np.savez(tmp_path / "a.npz", x=x, y=[0, 1])
    assert read_arrivals(str(tmp_path / "a.npz"), SETTINGS).values.shape == (2, 8, 8, 1)
    for found in (
        read_arrivals(str(tmp_path / "a.npz"), DataSettings(image_size=4)),
        read_arrivals(str(tmp_path / "a.npz"), SETTINGS, (4, 4, 1)),
    ):
        np.testing.assert_array_equal(found.values, resize(x, 4))
        assert found.ids == [sample_id(image) for image in x]
    with pytest.raises(
        InputError, match=r"a\.npz: x: samples of shape \(8, 8, 1\); expected images of shape \(4, 4, 3\)"
    ):
        read_arrivals(str(tmp_path / "a.npz"), SETTINGS, (4, 4, 3))


@pytest.mark.parametrize(
    ("labels", "names", "expected"),
    [
        ([5, 3, 5], ["three", "five"], ["five", "three", "five"]),  # one name for each label, sorted
        (
            [1, 0, 1],
            ["zero", "one", "two"],
            ["one", "zero", "one"],
        ),  # one for each number: later updates bring the rest
        (["b", "a", "b"], ["A", "B"], ["B", "A", "B"]),
    ],
)
def test_class_names_of_arrays(
    labels: list[int] | list[str], names: list[str], expected: list[str], tmp_path: Path
) -> None:
    np.savez(tmp_path / "a.npz", x=np.eye(3), y=labels, class_names=names)
    assert list(read_arrivals(str(tmp_path / "a.npz"), SETTINGS).labels) == expected


def test_mistakes_in_arrays_are_one_line(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    for arrays, message in (
        ({"x_test": np.eye(3), "y": [1, 2, 3]}, "no array x or x_train; expected x and y, found x_test, y"),
        ({"x": np.eye(3)}, "no array y or y_train; expected x and y, found x"),
        ({"x": np.eye(3), "y": [1, 2]}, r"a\.npz: y: shape \(2,\); expected \(3,\)"),
        ({"x": np.eye(3), "y": [1.0, 2.0, 3.0]}, "labels of type float64; expected integers or strings"),
        ({"x": np.eye(3), "y": [1, 2, 3], "ids": [1, 2]}, r"a\.npz: ids: shape \(2,\)"),
        ({"x": np.eye(3), "y": [1, 2, 9], "class_names": ["a", "b"]}, "2 class_names; expected 3"),
        ({"x": np.full((3, 2), np.nan), "y": [1, 2, 3]}, "row 0 holds NaN"),
    ):
        np.savez(path, **arrays)
        with pytest.raises(InputError, match=message):
            read_arrivals(str(path), SETTINGS)


def test_other_things_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").touch()
    for name, message in (
        ("none", "no such file or folder; expected a folder of class"),
        ("a.txt", "not a known kind"),
    ):
        with pytest.raises(InputError, match=message):
            read_arrivals(str(tmp_path / name), SETTINGS)
