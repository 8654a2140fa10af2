"""Export of a model as one ONNX graph: evaluation transform, network and readout, from raw samples to probabilities."""

import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from remem import __version__
from remem.data.augment import plain
from remem.errors import ExportError, InputError
from remem.methods.method import Readout
from remem.runs.model import Head, Model
from remem.storage.atomic import write_atomically
from remem.types import Values

INPUT, OUTPUTS = "samples", ("probabilities", "class")
OPSET = 18  # read by onnxruntime from 1.14 on
TOLERANCE = 1e-4  # of probabilities; both sides compute in fp32, but in another order
TRIALS = 16  # made-up samples that a graph is compared on


@dataclass(frozen=True)
class ExportedGraph:
    """A file that was written."""

    path: Path
    readout: Readout
    size: int  # bytes
    difference: float | None  # of probabilities from our own, at most; None: onnxruntime is not installed


class InferenceGraph(nn.Module):
    """What is exported: `Model.predict` for samples of the model's own shape."""

    means: Tensor | None

    def __init__(self, model: Model, readout: Readout) -> None:
        super().__init__()
        self.network = model.network
        self.plan = model.plan
        self.scale = model.scale  # of similarities to class means
        means = model.class_means if readout == "nme" else None
        self.register_buffer("means", None if means is None else torch.from_numpy(means).float())

    def forward(self, samples: Tensor) -> tuple[Tensor, Tensor]:
        """Images (n, h, w, c) uint8 or vectors (n, d) float32 -> probabilities (n, C) and classes (n,)."""
        output = self.network(plain(samples, self.plan))
        scores = output.logits if self.means is None else self.scale * F.normalize(output.features) @ self.means.T
        return scores.softmax(dim=1), scores.argmax(dim=1)


def export_onnx(model: Model, path: str | Path, *, head: Head = "own") -> ExportedGraph:
    """Writes network and readout as one ONNX graph in fp32.

    Input: `samples`, images (n, h, w, c) uint8 or vectors (n, d) float32. Outputs: `probabilities` (n, C) float32 and
    `class` (n,) int64, positions in the metadata's `class_names`. The graph is compared with the model's own
    predictions before the file is written. Needs the extra `onnx`.
    """
    require_onnx()
    path, readout = Path(path), model.readout_of(head)
    exact = model.in_fp32()
    proto = _translate(InferenceGraph(exact, readout).eval(), exact)
    _describe(proto, exact, readout)
    content: bytes = proto.SerializeToString(deterministic=True)
    difference = _check(content, exact, readout)
    write_atomically(path, content)
    return ExportedGraph(path, readout, len(content), difference)


def require_onnx() -> None:
    """Raises if the packages that write ONNX files are not installed."""
    if missing := [name for name in ("onnx", "onnxscript") if find_spec(name) is None]:
        raise InputError(f"export: {' and '.join(missing)} not installed; expected `pip install 'remem[onnx]'`")


def _translate(graph: InferenceGraph, model: Model) -> Any:
    """Returns the ONNX model of a module, for any number of samples."""
    example = torch.from_numpy(_made_up(model, 2))  # 1 would be taken for a constant
    try:
        with _silent(), torch.no_grad():
            program = torch.onnx.export(
                graph,
                (example,),
                dynamic_shapes=({0: torch.export.Dim("n")},),
                opset_version=OPSET,
                dynamo=True,
                input_names=[INPUT],
                output_names=OUTPUTS,
                verbose=False,
            )
    except torch.onnx.OnnxExporterError as error:
        reason = str(error.__cause__ or error).strip().splitlines()[0]
        raise ExportError(f"export: torch cannot write this network as ONNX ({reason})") from error
    assert program is not None
    return program.model_proto


@contextmanager
def _silent() -> Iterator[None]:
    """Without torch's warnings: of its own deprecated parts, and of packages that no network here needs."""
    logger = logging.getLogger("torch.onnx")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)


def _describe(proto: Any, model: Model, readout: Readout) -> None:
    """Names the model in its metadata, every value as JSON, and removes torch's: it has paths of this machine."""
    values = [*proto.graph.value_info, *proto.graph.input, *proto.graph.output, *proto.graph.initializer]
    for part in (proto, proto.graph, *proto.graph.node, *values):
        del part.metadata_props[:]
        part.doc_string = ""
    proto.producer_name, proto.producer_version = "remem", __version__
    facts = {
        "class_names": model.class_names,
        "shape": model.shape,
        "method": model.config.method.name,
        "readout": readout,
    }
    for key, value in facts.items():
        proto.metadata_props.add(key=key, value=json.dumps(value, ensure_ascii=False))


def _check(content: bytes, model: Model, readout: Readout) -> float | None:
    """Returns by how much probabilities differ from the model's own. Raises if the graph is not valid or differs."""
    import onnx

    try:
        onnx.checker.check_model(content, full_check=True)
    except onnx.checker.ValidationError as error:
        raise ExportError(f"export: the graph is not valid ONNX ({str(error).splitlines()[0]})") from error
    if find_spec("onnxruntime") is None:
        return None
    samples = _made_up(model, TRIALS)
    probabilities, classes = _run(content, samples)
    expected = model.predict(samples, head=readout)
    difference = float(np.abs(probabilities - expected.probabilities).max())
    best = expected.probabilities.max(axis=1)
    chosen = expected.probabilities[np.arange(TRIALS), classes]  # near ties, another class may be the first
    if not (difference <= TOLERANCE and np.all(best - chosen <= TOLERANCE)):
        raise ExportError(
            f"export: probabilities of the graph differ from the model's by {difference:.1e}, more than {TOLERANCE};"
            " nothing was written"
        )
    return difference


def _run(content: bytes, samples: Values) -> tuple[Values, Any]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    probabilities, classes = session.run(OUTPUTS, {INPUT: samples})
    return probabilities, classes


def _made_up(model: Model, count: int) -> Values:
    """Samples of the model's shape: images from dark to bright, vectors on the scale of the training data."""
    rng = np.random.default_rng(0)
    size = (count, *model.shape)
    if len(model.shape) == 3:
        return (rng.integers(0, 256, size) // rng.integers(1, 9, (count, 1, 1, 1))).astype(np.uint8)
    mean, std = model.network.mean.numpy(), model.network.std.numpy()
    return (mean + std * rng.standard_normal(size)).astype(np.float32)
