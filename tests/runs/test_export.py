"""export.py: an exported graph predicts what the model predicts, and says what it is."""

import importlib.util
import json
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import remem
from factories import blobs, pictures, ready
from remem.data.arrays import from_arrays
from remem.data.source import Dataset
from remem.errors import ExportError, InputError
from remem.runs import export
from remem.runs.export import ExportedGraph, export_onnx
from remem.runs.model import Head, Model, load_model
from remem.runs.prepared import Prepared
from remem.runs.run import run_in_folder

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

SAMPLES = 1000


def grey() -> Dataset:
    """One-channel images with words as labels."""
    words, sides = np.array(["ant", "bee", "cät", "dog", "eel", "fox"]), (pictures().train, pictures().test)
    parts = [part for side in sides for part in (side.read(np.arange(len(side.labels)))[..., :1], words[side.labels])]
    return from_arrays(*parts, name="grey")


def backbone(name: str) -> dict[str, Any]:
    return {"net": {"name": name, "width": None, "blocks": None, "hidden": None}, "train": {"epochs": 1}}


CASES: dict[str, Callable[[], Prepared]] = {
    "linear head": lambda: ready(pictures()),
    "cosine head": lambda: ready(pictures(), {"method": {"name": "lucir"}}),
    "proxies": lambda: ready(pictures(), {"method": {"name": "podnet"}}),
    "two branches": lambda: ready(pictures(), {"method": {"name": "lucir-aanets"}}),
    "two branches of vectors": lambda: ready(blobs(), {"method": {"name": "icarl-aanets"}}),
    "mlp": lambda: ready(blobs(), {"scenario": {"order": "seed:5"}}),
    "identity": lambda: ready(blobs(), backbone("identity")),
    "resnet32": lambda: ready(pictures(), backbone("resnet32")),
    "resnet32-pod": lambda: ready(pictures(), backbone("resnet32-pod")),
    "resized crops": lambda: ready(pictures(side=13), {"augment": {"kind": "resized-crop"}}),
    "grey": lambda: ready(grey(), {"scenario": {"order": "seed:1"}}),
    "bf16": lambda: ready(pictures(), {"train": {"precision": "bf16"}}),
    "no exemplars": lambda: ready(blobs(), {"method": {"name": "finetune", "replay": False}}),
}
COMPARED: list[tuple[str, Head]] = [
    ("linear head", "cnn"),
    ("linear head", "nme"),
    ("cosine head", "cnn"),
    ("proxies", "cnn"),
    ("two branches", "cnn"),
    ("two branches of vectors", "nme"),
    ("mlp", "cnn"),
    ("mlp", "nme"),
    ("resnet32", "cnn"),
    ("resnet32-pod", "nme"),
    ("resized crops", "nme"),
    ("grey", "nme"),
    ("bf16", "cnn"),
]


@pytest.fixture(scope="module")
def model_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Model]:
    """Trains the run of a case once and returns its model."""
    models: dict[str, Model] = {}

    def of(case: str) -> Model:
        if case not in models:
            out = tmp_path_factory.mktemp("run")
            run_in_folder(CASES[case](), out)
            models[case] = load_model(out)
        return models[case]

    return of


ModelOf = Callable[[str], Model]


@pytest.fixture(scope="module")
def exported(model_of: "ModelOf", tmp_path_factory: pytest.TempPathFactory) -> "Exported":
    """Exports a case once per readout, each into a folder of its own."""
    files: dict[tuple[str, Head], ExportedGraph] = {}

    def of(case: str, head: Head) -> ExportedGraph:
        if (case, head) not in files:
            files[case, head] = export_onnx(model_of(case), tmp_path_factory.mktemp("file") / "model.onnx", head=head)
        return files[case, head]

    return of


Exported = Callable[[str, Head], ExportedGraph]


def samples(model: Model, count: int = SAMPLES) -> Any:
    """Test samples of the case's data set, each with noise of its own."""
    stream = np.random.default_rng(1)
    if len(model.shape) == 1:
        return (3 * stream.standard_normal((count, *model.shape))).astype(np.float32)
    test = pictures(side=model.shape[0]).test
    images = test.read(np.arange(count) % len(test.labels))[..., : model.shape[2]]
    return np.clip(images + stream.normal(0, 40, images.shape), 0, 255).astype(np.uint8)


def run_graph(path: Path, values: Any) -> tuple[Any, Any]:
    session = onnxruntime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])
    probabilities, classes = session.run(["probabilities", "class"], {"samples": values})
    return probabilities, classes


@pytest.mark.parametrize(("case", "head"), COMPARED)
def test_a_thousand_predictions_equal_ours(case: str, head: Head, model_of: ModelOf, exported: Exported) -> None:
    model, written = model_of(case), exported(case, head)
    values = samples(model)
    expected = model.in_fp32().predict(values, head=head)
    assert len(np.unique(expected.classes)) > 1
    probabilities, classes = run_graph(written.path, values)
    assert (probabilities.dtype, probabilities.shape) == (np.float32, (SAMPLES, 6))
    assert (classes.dtype, classes.shape) == (np.int64, (SAMPLES,))
    assert np.abs(probabilities - expected.probabilities).max() < 1e-4
    best = np.sort(expected.probabilities, axis=1)
    clear = best[:, -1] - best[:, -2] > 1e-5  # closer ones are decided by rounding
    assert clear.mean() > 0.9
    assert classes[clear].tolist() == expected.classes[clear].tolist()
    assert written.difference is not None
    assert written.difference < 1e-4


def test_any_number_of_samples(model_of: ModelOf, exported: Exported) -> None:
    path, values = exported("cosine head", "cnn").path, samples(model_of("cosine head"), 7)
    probabilities, _ = run_graph(path, values)
    for count in (0, 1, 3):
        fewer, classes = run_graph(path, values[:count])
        assert len(classes) == count
        assert fewer == pytest.approx(probabilities[:count], abs=1e-6)


def test_inputs_outputs_and_metadata(model_of: ModelOf, exported: Exported) -> None:
    model, written = model_of("grey"), exported("grey", "nme")
    session = onnxruntime.InferenceSession(written.path.read_bytes(), providers=["CPUExecutionProvider"])
    [given] = session.get_inputs()
    assert (given.name, given.type, given.shape) == ("samples", "tensor(uint8)", ["n", 8, 8, 1])
    returned = [(value.name, value.type, value.shape) for value in session.get_outputs()]
    assert returned == [("probabilities", "tensor(float)", ["n", 6]), ("class", "tensor(int64)", ["n"])]
    facts = {key: json.loads(value) for key, value in session.get_modelmeta().custom_metadata_map.items()}
    assert facts == {
        "class_names": list(model.class_names),
        "shape": [8, 8, 1],
        "method": "icarl",
        "readout": "nme",
    }
    assert "cät" in facts["class_names"]
    assert (written.readout, written.size) == ("nme", written.path.stat().st_size)


def test_vectors_are_float32(exported: Exported) -> None:
    proto = onnx.load(exported("mlp", "cnn").path)
    [given] = proto.graph.input
    assert given.type.tensor_type.elem_type == onnx.TensorProto.FLOAT
    assert [dim.dim_param or dim.dim_value for dim in given.type.tensor_type.shape.dim] == ["n", 6]


def test_the_file_is_self_contained(exported: Exported) -> None:
    """Standard operators, all weights inside, and nothing about this machine."""
    path = exported("two branches", "cnn").path
    assert list(path.parent.iterdir()) == [path]
    content = path.read_bytes()
    proto = onnx.load_from_string(content)
    assert [(opset.domain, opset.version) for opset in proto.opset_import] == [("", export.OPSET)]
    assert {node.domain for node in proto.graph.node} == {""}
    assert not proto.functions
    assert all(weight.data_location == onnx.TensorProto.DEFAULT for weight in proto.graph.initializer)
    assert str(Path(remem.__file__).parent).encode() not in content
    assert b".py" not in content


def test_a_second_export_is_identical_and_leaves_the_model_as_it_is(
    model_of: ModelOf, exported: Exported, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = model_of("bf16")
    values = samples(model, 50)
    before = model.predict(values).probabilities
    said = list[logging.LogRecord]()
    monkeypatch.setattr(logging.Logger, "callHandlers", lambda logger, record: said.append(record))
    again = remem.export_onnx(model, str(tmp_path / "again.onnx"), head="cnn").path
    assert [record.getMessage() for record in said if record.levelno >= logging.WARNING] == []
    assert again.read_bytes() == exported("bf16", "cnn").path.read_bytes()
    assert model.predict(values).probabilities.tolist() == before.tolist()


def test_fp32_and_bf16_give_nearly_the_same_labels(model_of: ModelOf) -> None:
    model = model_of("bf16")
    values = samples(model)
    half, full = (each.predict(values, head="cnn") for each in (model, model.in_fp32()))
    assert half.probabilities.tolist() != full.probabilities.tolist()
    assert np.mean(half.classes == full.classes) > 0.95


def test_a_graph_that_differs_is_not_written(
    model_of: ModelOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"before")
    monkeypatch.setattr(export, "plain", lambda images, plan: images.float().permute(0, 3, 2, 1))  # width for height
    with pytest.raises(
        ExportError, match=r"probabilities of the graph differ from the model's by .*nothing was written"
    ):
        export_onnx(model_of("linear head"), path, head="cnn")
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


class Unwritable(torch.nn.Module):
    """Depends on values, which a graph cannot."""

    def forward(self, x: torch.Tensor) -> Any:
        return x if x.sum().item() > 0 else -x


def test_a_network_that_onnx_cannot_express(model_of: ModelOf, tmp_path: Path) -> None:
    model = model_of("linear head").in_fp32()
    model.network.backbone.levels.append(Unwritable())
    with pytest.raises(ExportError, match=r"export: torch cannot write this network as ONNX \(.+\)"):
        export_onnx(model, tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


def test_without_the_extra(model_of: ModelOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"onnx and onnxscript not installed; expected `pip install 'remem\[onnx\]'`"):
        export_onnx(model_of("mlp"), tmp_path / "model.onnx")
    known = importlib.util.find_spec
    monkeypatch.setattr(export, "find_spec", lambda name: None if name == "onnxruntime" else known(name))
    written = export_onnx(model_of("mlp"), tmp_path / "model.onnx")
    assert written.difference is None
    assert written.path.is_file()


def test_a_readout_that_the_model_does_not_have(model_of: ModelOf, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="head: nme given"):
        export_onnx(model_of("no exemplars"), tmp_path / "model.onnx", head="nme")


def test_features_of_zero_are_equally_near_to_all_means(model_of: ModelOf, tmp_path: Path) -> None:
    model = model_of("identity")
    model = replace(model, _learner=model.in_fp32()._learner)
    values = np.tile(model.network.mean.numpy(), (2, 1))
    probabilities, _ = run_graph(export_onnx(model, tmp_path / "model.onnx", head="nme").path, values)
    assert probabilities == pytest.approx(np.full((2, 6), 1 / 6))
    assert model.predict(values, head="nme").probabilities == pytest.approx(np.full((2, 6), 1 / 6))
