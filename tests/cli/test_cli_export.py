"""`remem export`: what it writes and says, and how it refuses."""

from pathlib import Path

import numpy as np
import pytest

from cli.conftest import Command
from factories import blobs, ready
from remem.runs import export
from remem.runs.model import load_model
from remem.runs.run import run_in_folder

onnxruntime = pytest.importorskip("onnxruntime")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run on vectors."""
    out = tmp_path_factory.mktemp("runs") / "run"
    run_in_folder(ready(blobs()), out)
    return out


def test_a_graph_and_what_is_said_of_it(remem: Command, run: Path, tmp_path: Path) -> None:
    file = tmp_path / "model.onnx"
    said = remem("export", run, file)
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith(
        f"{file}: icarl, 6 classes, read out by nearest class means, 0.0 MB; probabilities differ"
    )
    assert said.out.count("\n") == 1
    values = blobs().test.read(np.arange(48))
    session = onnxruntime.InferenceSession(file.read_bytes(), providers=["CPUExecutionProvider"])
    probabilities, _ = session.run(None, {"samples": values})
    assert probabilities == pytest.approx(load_model(run).predict(values).probabilities, abs=1e-5)


def test_the_other_head_quietly(remem: Command, run: Path, tmp_path: Path) -> None:
    file = tmp_path / "model.ONNX"
    assert remem("export", run, file, "--head", "cnn", "--quiet") == (0, f"{file}\n", "")
    session = onnxruntime.InferenceSession(file.read_bytes(), providers=["CPUExecutionProvider"])
    assert session.get_modelmeta().custom_metadata_map["readout"] == '"cnn"'


@pytest.mark.parametrize("name", ["model.pt", "model", "nowhere/model.onnx", "."])
def test_another_name_is_refused(name: str, remem: Command, run: Path, tmp_path: Path) -> None:
    said = remem("export", run, tmp_path / name)
    assert (said.code, said.out) == (2, "")
    assert "given; expected a name that ends with .onnx, in a folder that exists" in said.err
    assert said.err.count("\n") == 1


def test_one_line_without_the_extra(remem: Command, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "find_spec", lambda name: None)
    said = remem("export", run, tmp_path / "model.onnx")
    expected = "error: export: onnx and onnxscript not installed; expected `pip install 'remem[onnx]'`\n"
    assert said == (2, "", expected)


def test_one_line_if_the_graph_differs(
    remem: Command, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "plain", lambda vectors, plan: -vectors)
    said = remem("export", run, tmp_path / "model.onnx")
    assert (said.code, said.out, said.err.count("\n")) == (1, "", 1)
    assert said.err.startswith("error: export: probabilities of the graph differ")
    assert not list(tmp_path.iterdir())


def test_no_model(remem: Command, tmp_path: Path) -> None:
    said = remem("export", tmp_path / "none", tmp_path / "model.onnx")
    assert (said.code, said.err.count("\n")) == (2, 1)
    assert "expected the folder of a finished run" in said.err
