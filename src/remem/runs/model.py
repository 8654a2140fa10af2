"""The model of a finished run: saving, loading without the data, and prediction."""

import copy
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from remem.data.arrays import as_rows, is_square
from remem.data.augment import AugmentPlan, plan_for
from remem.data.preprocessing import Preprocessing
from remem.errors import DamagedFileError, InputError
from remem.evaluation.calibration import PLAIN_SCALE, similarities, softmax
from remem.evaluation.metrics import FloatArray, nearest_mean
from remem.methods.describe import CHUNK, Described, describe
from remem.methods.learner import channels_last, restored
from remem.methods.method import Readout
from remem.methods.table import METHODS
from remem.nets.network import Network, build_network
from remem.runs.config import RunConfig, validate
from remem.runs.devices import OneDevice, limit_threads
from remem.runs.migrations import migrate_model
from remem.runs.predict_inputs import OwnSamples, open_own
from remem.runs.results import load_result
from remem.storage.jsonfile import differences
from remem.storage.pointer import POINTER, current_version
from remem.storage.tensorfile import Snapshot, load_snapshot, save_snapshot
from remem.types import IntArray, Json, Reader, Samples, Values

FILE = "model.safetensors"
MEANS = "class_means"  # stored with the network's tensors
SCALE = "nme_scale"  # among the facts; older files have none
Head = Literal["own", "cnn", "nme"]


@dataclass(frozen=True)
class Prediction:
    """Predictions for n samples. Classes are positions in the class order, as in `predictions.npz`."""

    classes: IntArray  # (n,)
    probabilities: FloatArray  # (n, C)
    class_names: tuple[str, ...]  # (C,)

    @property
    def labels(self) -> list[str]:
        """The predicted classes by the data set's names."""
        return [self.class_names[place] for place in self.classes.tolist()]

    def best(self, count: int) -> IntArray:
        """Returns the most probable classes (n, count), the predicted one first, ties by class order."""
        ranked = -self.probabilities
        ranked[np.arange(len(ranked)), self.classes] = -np.inf  # rounding may make two probabilities equal
        return np.argsort(ranked, axis=1, kind="stable")[:, :count]


class Describer(Protocol):
    """A network that describes samples: a learner, or what is left of one in a model file."""

    @property
    def network(self) -> Network: ...

    @property
    def plan(self) -> AugmentPlan: ...

    def describe(self, reader: Reader, samples: Samples) -> Described: ...


@dataclass(frozen=True)
class Inference:
    """A network with its evaluation transform, on one device."""

    network: Network
    plan: AugmentPlan
    device: OneDevice

    def describe(self, reader: Reader, samples: Samples) -> Described:
        return describe(self.network, reader, samples, plan=self.plan, fabric=self.device)


@dataclass(frozen=True)
class Model:
    """A trained network for inference, the class means of its exemplars, and the facts of its run."""

    config: RunConfig
    readout: Readout  # the method's own head
    class_names: tuple[str, ...]  # by position in the class order
    class_order: tuple[int, ...]  # the data set's label at each position
    shape: tuple[int, ...]  # of one sample: (h, w, c) or (d,)
    class_means: FloatArray | None  # (C, d); None if the method keeps no exemplars
    _learner: Describer
    scale: float = PLAIN_SCALE  # of the similarities to class means, before the softmax

    @property
    def network(self) -> Network:
        return self._learner.network

    @property
    def plan(self) -> AugmentPlan:
        """`plain(images, plan)` is the evaluation transform."""
        return self._learner.plan

    def in_fp32(self) -> "Model":
        """A copy that predicts in fp32 on the CPU, whatever the run's precision and device."""
        device = OneDevice(self.config.train.model_copy(update={"device": "cpu", "precision": "fp32"}))
        network = device.to_device(copy.deepcopy(self.network))
        return replace(self, _learner=Inference(network, self.plan, device))

    def predict(self, samples: OwnSamples, *, head: Head = "own") -> Prediction:
        """Predicts labels and probabilities of one sample or many.

        Takes a path (an image, a folder of images, an .npz file), a PIL image, an array of images (n, h, w[, c]) in
        uint8 or uint16 or of vectors (n, d), one image or vector without n, or a list of any of these.
        """
        inputs = open_own(samples, self)
        blocks = list(self.blocks(inputs.reader, len(inputs.names), head))
        classes, chances = ([getattr(b, part) for b in blocks] for part in ("classes", "probabilities"))
        return Prediction(np.concatenate(classes), np.concatenate(chances), self.class_names)

    def blocks(self, reader: Reader, count: int, head: Head = "own") -> Iterator[Prediction]:
        """Yields predictions for rows 0..count-1 of a reader, block by block: for more samples than fit in memory."""
        chosen = self.readout_of(head)
        for start in range(0, count, CHUNK):
            rows = np.arange(start, min(start + CHUNK, count), dtype=np.int64)
            yield self._read_out(self._learner.describe(reader, Samples(rows, np.zeros_like(rows))), chosen)

    def readout_of(self, head: Head) -> Readout:
        """Returns the readout that `head` selects. Raises if this model does not have it."""
        chosen = self.readout if head == "own" else head
        if chosen == "nme" and self.class_means is None:
            name = self.config.method.name
            raise InputError(f"head: {head} given, but this model of {name} has no class means; expected cnn")
        return chosen

    def fitted(self, array: ArrayLike, field: str) -> Values:
        """Returns a user's array as rows of the model's shape.

        Images of another size are cropped to squares and resized, as in the data sets.
        """
        return as_rows(array, field, self.shape)

    @property
    def takes_squares(self) -> bool:
        """Whether samples are square images, so that any image can be cropped and resized to fit."""
        return is_square(self.shape)

    def _read_out(self, described: Described, readout: Readout) -> Prediction:
        if readout == "cnn":
            classes = described.logits.argmax(axis=1)
            return Prediction(classes, softmax(described.logits), self.class_names)
        assert self.class_means is not None
        classes = nearest_mean(described.features, self.class_means)
        chances = softmax(self.scale * similarities(described.features, self.class_means))
        return Prediction(classes, chances, self.class_names)


def save_model(path: Path, facts: Json, network: Mapping[str, Tensor], means: FloatArray | None) -> None:
    """Saves weights and class means with everything needed to use them. Equal models give identical files."""
    tensors = dict(network) | ({} if means is None else {MEANS: torch.from_numpy(means)})
    save_snapshot(path, Snapshot(facts, tensors))


def load_model(folder: str | Path) -> Model:
    """Loads the model of a finished run from its folder or file. Needs no data and runs no stored code.

    Predictions use the run's number of threads and precision, so that labels equal those of its evaluation. If the
    run's device is absent, the model runs on the CPU.
    """
    path = _finished(Path(folder))
    model_file = load_snapshot(path, migrate_model, what="model")
    facts, tensors = model_file.facts, dict(model_file.tensors)
    means = tensors.pop(MEANS, None)
    try:
        config = validate(facts["config"])
        if config.net.name.startswith("own:"):
            raise InputError(f"the network is a module of your own ({config.net.name}), which no file can rebuild")
        names, order = tuple(map(str, facts["class_names"])), tuple(map(int, facts["class_order"]))
        shape = tuple(map(int, facts["shape"]))
        learner = _rebuild(config, shape, tensors)
        own_means, scale = None if means is None else means.numpy(), float(facts.get(SCALE, PLAIN_SCALE))
        model = Model(config, facts["head"], names, order, shape, own_means, learner, scale)
        _require_agreement(model)
        _require_own(path, facts)
    except (InputError, RuntimeError, LookupError, TypeError, ValueError) as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        reason = first if isinstance(error, InputError) else f"not a whole model ({first})"
        raise DamagedFileError(f"{path}: {reason}") from error
    return model


def _finished(place: Path) -> Path:
    """Returns the model file of a run folder or of a model folder. Raises if the run is not complete."""
    if not place.is_dir():
        if place.name == FILE and place.is_file():
            return place
        raise DamagedFileError(f"{place}: no such folder; expected the folder of a finished run")
    if (place / POINTER).is_file():
        return current_version(place) / FILE
    began, ended = (place / "config.json").is_file(), (place / "result.json").is_file()
    if (ended and not load_result(place).complete) or (began and not ended):
        raise InputError(f"{place}: this run is not finished; go on with `remem resume {place}`")
    if not (place / FILE).is_file():
        raise DamagedFileError(f"{place / FILE}: no such file; expected the folder of a finished run")
    return place / FILE


def _require_own(path: Path, facts: Json) -> None:
    """Raises if the result beside a model is of another run."""
    if (result := path.with_name("result.json")).is_file():
        beside = load_result(result)
        found = next((part for part in differences(beside.config, facts["config"]) if None not in part[1:]), None)
        if found is None and beside.data_fingerprint != facts.get("data_fingerprint", beside.data_fingerprint):
            found = ("the data", beside.data_fingerprint, facts["data_fingerprint"])
        if found is not None:
            raise InputError(
                f"the model of another run than result.json beside it ({found[0]} is {found[2]!r}, not {found[1]!r})"
            )


def _rebuild(config: RunConfig, shape: tuple[int, ...], tensors: dict[str, Tensor]) -> Inference:
    """Returns the run's network and evaluation transform."""
    method, augment = METHODS[config.method.name].build(config.method), config.augment
    preprocessing = Preprocessing(mean=None, std=None, augment=augment.kind, flip=False)  # all of it is in the settings
    limit_threads(config.train.threads)
    device = OneDevice(config.train)
    # Mean and deviation of the inputs are tensors of the network.
    network = restored(build_network(config.net, shape, method.head, seed=0), method, tensors)
    device.to_device(channels_last(network))
    return Inference(network, plan_for(preprocessing, shape, augment), device)


def _require_agreement(model: Model) -> None:
    """Checks that the parts of a file agree on classes and features."""
    classes, width = model.network.head.classes, model.network.backbone.width
    if not len(model.class_names) == len(model.class_order) == classes:
        raise ValueError(f"{len(model.class_names)} class names for {classes} classes")
    if model.readout not in ("cnn", "nme"):
        raise ValueError(f"no head {model.readout}")
    if model.class_means is not None and model.class_means.shape != (classes, width):
        raise ValueError(f"class means of shape {model.class_means.shape}")
    if not (math.isfinite(model.scale) and model.scale > 0):
        raise ValueError(f"a scale of {model.scale}")
