"""`remem memory`, `forget` and `check` of a model folder: what is stored, and that it goes when asked to."""

import json
import re
from pathlib import Path
from shutil import copytree, rmtree

import numpy as np
import pytest

from browser import opened
from cli.conftest import Command
from factories import pictures, write_folder
from remem.cli.main import main
from remem.data.images import decode
from remem.estimator.arrivals import file_id
from remem.estimator.deletion import read_receipts
from remem.estimator.saved import load_stream
from remem.estimator.versions import ModelFolder

QUICK = ("--set", "train.epochs=1", "--set", "finetune.epochs=0", "--set", "net.width=4", "--set", "net.blocks=[1, 1]")
NAMES = ["class 0", "class 1", "<b>two</b> & more", "class 3"]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`data/train/<class>/` and `model` after two updates of two classes each; everything fits into the budget."""
    folder = tmp_path_factory.mktemp("base")
    write_folder(folder / "data", pictures(4, 6, side=8))
    (folder / "data" / "train" / "class 2").rename(folder / "data" / "train" / NAMES[2].replace("/", "|"))
    for part, names in (("one", ("class 0", "class 1")), ("two", ("<b>two<|b> & more", "class 3"))):
        for name in names:
            copytree(folder / "data" / "train" / name, folder / part / name)
        with pytest.raises(SystemExit, match="0"):
            main(["update", str(folder / "model"), str(folder / part), "--budget", "20kB", *QUICK, "--quiet"])
    return folder


@pytest.fixture
def home(base: Path, tmp_path: Path) -> Path:
    copytree(base, tmp_path, dirs_exist_ok=True)
    return tmp_path


def holding(folder: Path, content: bytes) -> list[str]:
    """The files of a folder that contain some bytes."""
    return [path.name for path in folder.rglob("*") if path.is_file() and content in path.read_bytes()]


def test_the_account_as_a_table(base: Path, remem: Command) -> None:
    said = remem("memory", base / "model")
    assert (said.code, said.err) == (0, "")
    header, _, *rows = said.out.split("\n\n")[0].splitlines()
    assert header.split() == ["class", "codec", "half", "samples", "bytes", "since", "update"]
    assert [row.split("  ")[0] for row in rows] == ["class 0", "class 1", "<b>two<|b> & more", "class 3"]
    assert sorted(row.split()[-5] for row in rows[:2]) == ["easier", "harder"]
    assert rows[0].split()[-5:] in ([half, "6", "1.2", "kB", "1"] for half in ("easier", "harder"))
    assert rows[3].split()[-5:] == ["latest", "6", "1.2", "kB", "2"]
    held, beside, version = said.out.split("\n\n")[1].splitlines()
    assert held == "held     24 samples of 4 classes, 4.9 kB of 20.0 kB; 2 updates"
    assert re.match(r"besides  network [\d.]+ kB, class means [\d.]+ (kB|bytes); they do not count towards", beside)
    assert version.startswith(f"version  2 of {base / 'model'}; 2 versions kept, ")


def test_the_account_as_json(base: Path, remem: Command) -> None:
    tree = json.loads(remem("memory", base / "model", "--json").out)
    assert (tree["version"], tree["versions"], tree["updates"], tree["budget"]) == (2, [1, 2], 2, "20000B")
    assert (tree["samples"], tree["bytes"]) == (24, 24 * (192 + 12))
    assert [entry["samples"] for entry in tree["classes"]] == [6] * 4
    assert len({key for entry in tree["classes"] for key in entry["ids"]}) == 24
    assert tree["bytes_on_disk"] == ModelFolder(base / "model").size()
    assert tree["network_bytes"] > 1000
    assert tree["class_means_bytes"] > 0


def test_the_account_as_a_page(base: Path, tmp_path: Path, remem: Command) -> None:
    said = remem("memory", base / "model", "--out", tmp_path / "new" / "memory.html")
    assert (said.code, said.out, said.err) == (0, "", f"memory: {tmp_path / 'new' / 'memory.html'}\n")
    text = (tmp_path / "new" / "memory.html").read_text()
    assert "<b>two" not in text
    assert "&lt;b&gt;two" in text
    assert text.count("data:image/webp;base64,") == 24
    assert "http:" not in text
    assert "https:" not in text
    ids = [
        key for entry in json.loads(remem("memory", base / "model", "--json").out)["classes"] for key in entry["ids"]
    ]
    assert re.findall(r'<img[^>]* title="(\w+)"', text) == ids


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1280, 400])
def test_the_page_in_a_browser(width: int, dark: bool, base: Path, tmp_path: Path, remem: Command) -> None:
    assert remem("memory", base / "model", "--out", tmp_path / "memory.html").code == 0
    with opened(tmp_path / "memory.html", width, dark=dark) as browser:
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
        images = "return [...document.images].map(i => i.naturalWidth)"
        assert browser.execute_script(images) == [8] * 24
        paper = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
        assert paper == ("rgb(25, 28, 33)" if dark else "rgb(255, 255, 255)")
        assert browser.get_log("browser") == []


def test_vectors_have_no_pictures(tmp_path: Path, remem: Command) -> None:
    np.savez(tmp_path / "a.npz", x=np.random.default_rng(0).normal(size=(12, 3)), y=[0, 1] * 6)
    quick = ("--set", "train.epochs=1", "--set", "net.hidden=[4]", "--budget", "8")
    assert remem("update", tmp_path / "model", tmp_path / "a.npz", *quick).code == 0
    assert remem("memory", tmp_path / "model", "--out", tmp_path / "a.html").code == 0
    text = (tmp_path / "a.html").read_text()
    assert "The samples are no pictures." in text
    assert "<img" not in text


def test_a_class_is_deleted_everywhere(home: Path, remem: Command) -> None:
    model = home / "model"
    pixels = [decode(path, 8).tobytes() for path in sorted((home / "one" / "class 0").iterdir())]
    assert all(len(holding(model, own)) == 2 for own in pixels)  # in both versions
    said = remem("forget", model, "--class", "class 0")
    assert said.code == 0
    assert said.out.startswith("deleted: classes class 0; 6 samples, 1224 bytes, at ")
    assert "may still reflect them" in said.out
    assert said.err == f"{model}: version 3, no older version kept; the receipt is in {model / 'receipts.jsonl'}\n"
    assert not any(holding(model, own) for own in pixels)
    assert [path.name for path in (model / "versions").iterdir()] == ["0003"]
    stream = load_stream(ModelFolder(model).current)
    assert stream.classes == ("class 1", "<b>two<|b> & more", "class 3")
    (receipt,) = read_receipts(model)
    assert receipt.fits(stream)
    assert (receipt.classes, receipt.samples, receipt.retrained) == (("class 0",), 6, False)
    predicted = json.loads(remem("predict", model, home / "one" / "class 0", "--format", "json").out)["predictions"]
    assert "class 0" not in {best["label"] for entry in predicted for best in entry["top"]}
    assert remem("check", model).code == 0
    assert remem("rollback", model).code == 2  # nothing to bring them back from
    assert remem("update", model, home / "one", "--quiet").code == 0  # not held against it


def test_samples_are_deleted_by_file_identity_and_key(home: Path, remem: Command) -> None:
    model = home / "model"
    files = sorted((home / "one" / "class 1").iterdir())
    key = json.loads(remem("memory", model, "--json").out)["classes"][3]["ids"][0]
    said = remem("forget", model, "--id", files[0], "--id", file_id(files[1]), "--id", key, "--json")
    assert (said.code, said.err) == (0, "")
    receipt = json.loads(said.out)
    assert (receipt["classes"], receipt["samples"]) == ([], 3)
    assert receipt["ids"] == [file_id(files[0]), file_id(files[1]), key]
    for file in files:
        assert bool(holding(model, decode(file, 8).tobytes())) == (file not in files[:2])
    table = load_stream(ModelFolder(model).current).memory()
    assert [row.samples for row in table] == [6, 4, 6, 5]


def test_retraining_says_so(home: Path, remem: Command) -> None:
    before = (ModelFolder(home / "model").current / "model.safetensors").read_bytes()
    said = remem("forget", home / "model", "--class", "class 3", "--class", "class 0", "--retrain")
    assert said.code == 0
    assert "trained anew on what is left" in said.out
    assert "training, main 1/1, " in said.err
    assert read_receipts(home / "model")[0].retrained
    assert (ModelFolder(home / "model").current / "model.safetensors").read_bytes() != before


def test_mistakes_are_one_line_and_delete_nothing(home: Path, tmp_path: Path, remem: Command) -> None:
    model = home / "model"
    before = {path: path.read_bytes() for path in model.rglob("*") if path.is_file()}
    everything = [word for name in load_stream(ModelFolder(model).current).classes for word in ("--class", name)]
    for words, message in (
        ((model,), "forget: nothing given; expected --class NAME or --id ID"),
        ((model, "--class", "owl"), "class: 'owl' is not known; there are class 0, class 1"),
        ((model, "--id", "abc"), "id: abc is not held; nothing was deleted"),
        ((model, *everything), "nothing would be left; expected at least one class to stay"),
        ((tmp_path / "none", "--class", "a"), "expected a model folder, as `remem update` makes it"),
    ):
        said = remem("forget", *words)
        assert (said.code, said.out, said.err.count("\n")) == (2, "", 1)
        assert message in said.err
    assert {path: path.read_bytes() for path in model.rglob("*") if path.is_file()} == before
    assert not (tmp_path / "none").exists()
    assert remem("memory", tmp_path / "none").err.count("\n") == 1


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("model.json", "put a copy back"),
        ("versions/0002/model.safetensors", "put a copy back, or `remem rollback"),
        ("versions/0002/exemplars.safetensors", "put a copy back, or `remem rollback"),
        ("versions/0001/exemplars.safetensors", "put a copy back, or let the next update drop it with --keep 2"),
    ],
)
def test_check_names_every_damaged_file_with_what_to_do(name: str, way: str, home: Path, remem: Command) -> None:
    path = home / "model" / name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    said = remem("check", home / "model")
    assert said.code == 2
    assert any(str(path) in line and way in line for line in said.err.splitlines()), said.err


def test_check_finds_changed_receipts_missing_versions_and_leftovers(home: Path, remem: Command) -> None:
    model = home / "model"
    rmtree(model / "versions" / "0001")
    (model / "versions" / "0003.part").mkdir()
    said = remem("check", model)
    assert said.code == 2
    assert "0001" in said.err
    assert f"{model / 'versions' / '0003.part'}: left by a kill, and harmless" in said.err
    assert remem("forget", model, "--class", "class 0", "--json").code == 0
    receipts = model / "receipts.jsonl"
    receipts.write_text(receipts.read_text().replace('"samples": 6', '"samples": 5'))
    said = remem("check", model)
    assert said.err.startswith(f"{receipts}: line 1 is not a whole receipt (receipt: the content does not match")
    receipts.write_text("")
    assert remem("check", model).err.startswith(f"{receipts}: line 1 is not a whole receipt")
