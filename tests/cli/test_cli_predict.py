"""`remem predict`: what it prints and writes, and how it refuses."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cli.conftest import Command, Said
from factories import blobs, pictures, ready, write_folder
from remem.runs.model import load_model
from remem.runs.run import run_in_folder


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run on vectors, and `some.npz` beside it."""
    out = tmp_path_factory.mktemp("runs") / "run"
    run_in_folder(ready(blobs(), {"scenario": {"order": "seed:2"}}), out)
    np.savez(out.parent / "some.npz", x=blobs().test.read(np.arange(0, 48, 5)))
    return out


def expected(run: Path, head: Any = "own") -> tuple[list[str], np.ndarray]:
    """Labels and probabilities from Python."""
    with np.load(run.parent / "some.npz", allow_pickle=False) as arrays:
        said = load_model(run).predict(arrays["x"], head=head)
    return said.labels, said.probabilities


def one_line(said: Said) -> bool:
    return said.code == 2 and said.out == "" and said.err.startswith("error: ") and said.err.count("\n") == 1


def test_a_table_with_the_three_best_classes(remem: Command, run: Path) -> None:
    said = remem("predict", run, run.parent / "some.npz")
    assert (said.code, said.err) == (0, "icarl, 6 classes, read out by nearest class means\n")
    header, rule, *lines = said.out.splitlines()
    assert header.split() == ["sample", "label", "#2", "#3"]
    assert set(rule) == {"-", " "}
    labels, chances = expected(run)
    names = load_model(run).class_names
    for place, (line, label, row) in enumerate(zip(lines, labels, chances, strict=True)):
        sample, *cells = line.replace(" %", "").split()
        assert (sample, cells[0]) == (str(place), label)
        best = np.sort(row)[::-1][:3]
        assert cells[1::2] == [f"{100 * chance:.1f}" for chance in best]
        assert [row[names.index(name)] for name in cells[::2]] == pytest.approx(best)


def test_quiet_prints_predictions_alone(remem: Command, run: Path) -> None:
    said = remem("predict", run, run.parent / "some.npz", "--top", 1, "--quiet")
    assert (said.code, said.err) == (0, "")
    assert said.out.splitlines()[0].split() == ["sample", "label"]


def test_json_and_the_other_head(remem: Command, run: Path) -> None:
    tree = json.loads(remem("predict", run, run.parent / "some.npz", "--head", "cnn", "--format", "json").out)
    assert {key: tree[key] for key in ("method", "head", "classes")} == {"method": "icarl", "head": "cnn", "classes": 6}
    labels, chances = expected(run, "cnn")
    names = load_model(run).class_names
    assert [entry["label"] for entry in tree["predictions"]] == labels
    for place, (entry, row) in enumerate(zip(tree["predictions"], chances, strict=True)):
        assert entry["sample"] == str(place)
        assert entry["class"] == row.argmax()
        assert entry["probability"] == pytest.approx(row.max())
        assert [best["class"] for best in entry["top"]] == np.argsort(-row)[:3].tolist()
        assert [best["label"] for best in entry["top"]] == [names[best["class"]] for best in entry["top"]]


def test_csv_with_all_classes(remem: Command, run: Path) -> None:
    """As many classes as there are, if more are asked for."""
    said = remem("predict", run, run.parent / "some.npz", "--format", "csv", "--top", 50)
    rows = list(csv.DictReader(io.StringIO(said.out)))
    labels, chances = expected(run)
    assert [row["label"] for row in rows] == labels
    assert list(rows[0])[-3:] == ["label_6", "probability_6", "class_6"]
    for row, values in zip(rows, chances, strict=True):
        probabilities = [float(row[f"probability{end}"]) for end in ("", "_2", "_3", "_4", "_5", "_6")]
        assert probabilities == pytest.approx(np.sort(values)[::-1])


def test_files_by_their_suffix(remem: Command, run: Path, tmp_path: Path) -> None:
    samples = run.parent / "some.npz"
    for name, form in (("a.csv", "csv"), ("a.JSON", "json"), ("a.txt", "text")):
        said = remem("predict", run, samples, "--out", tmp_path / name)
        assert (said.code, said.out) == (0, f"{tmp_path / name}: 10 samples\n")
        printed = remem("predict", run, samples, "--format", form).out
        assert (tmp_path / name).read_text() == printed
    said = remem("predict", run, samples, "--out", tmp_path / "odd", "--format", "csv", "--quiet")
    assert said == (0, f"{tmp_path / 'odd'}\n", "")
    assert (tmp_path / "odd").read_text() == (tmp_path / "a.csv").read_text()


def test_a_folder_of_images(remem: Command, tmp_path: Path) -> None:
    run_in_folder(ready(pictures(side=8), {"train": {"epochs": 1}}), tmp_path / "run")
    write_folder(tmp_path / "data", pictures(side=8))
    (tmp_path / "data" / "val" / "class 0" / "000.png").rename(tmp_path / "data" / "val" / "first\n[bold].png")
    tree = json.loads(remem("predict", tmp_path / "run", tmp_path / "data" / "val", "--format", "json").out)
    names = [entry["sample"] for entry in tree["predictions"]]
    assert names[:2] == ["class 0/001.png", "class 0/002.png"]
    assert names[-1] == "first\n[bold].png"
    with np.load(tmp_path / "run" / "predictions.npz", allow_pickle=False) as arrays:
        cnn = arrays["nme_2"].tolist()
    assert [entry["class"] for entry in tree["predictions"]] == [*cnn[1:], cnn[0]]
    table = remem("predict", tmp_path / "run", tmp_path / "data" / "val").out
    assert len(table.splitlines()) == 2 + 30
    assert table.splitlines()[-1].startswith("first?[bold].png")


def test_mistakes_are_one_line(remem: Command, run: Path, tmp_path: Path) -> None:
    samples = run.parent / "some.npz"
    (tmp_path / "empty").mkdir()
    np.savez(tmp_path / "wide.npz", x=np.zeros((2, 7)))
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "model.safetensors").write_bytes(b"no model")
    mistakes = {
        "no such folder; expected the folder of a finished run": (tmp_path / "nowhere", samples),
        "no such file; expected the folder of a finished run": (tmp_path, samples),
        "not a whole model": (tmp_path / "broken", samples),
        "no such file or folder": (run, tmp_path / "none.npz"),
        "empty: no images": (run, tmp_path / "empty"),
        "x: samples of shape (7,); expected vectors of shape (6,)": (run, tmp_path / "wide.npz"),
        "expected a name that ends with .txt, .csv, .json": (run, samples, "--out", tmp_path / "a.xls"),
        "expected a file in a folder that exists": (run, samples, "--out", tmp_path / "no" / "a.csv"),
    }
    for message, arguments in mistakes.items():
        said = remem("predict", *arguments)
        assert one_line(said), said
        assert message in said.err
    assert remem("predict", run, samples, "--top", 0).code == 2
    assert remem("predict", run, samples, "--head", "best").code == 2
