"""The model of a finished run: saving, loading without the data, and prediction."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from lightning_fabric import Fabric
from numpy.typing import ArrayLike
from scipy.special import softmax  # type: ignore[import-untyped]
from torch import Tensor

from remem.data.arrays import as_values
from remem.data.augment import AugmentPlan, plan_for
from remem.data.images import resize
from remem.data.preprocessing import Preprocessing
from remem.data.source import ArraySource
from remem.errors import DamagedFileError, InputError
from remem.evaluation.metrics import FloatArray, nearest_mean
from remem.events import ignore
from remem.methods.describe import CHUNK, Described
from remem.methods.learner import Learner, LearnerSpec
from remem.methods.loop import TrainContext
from remem.methods.method import Readout
from remem.methods.settings import TrainSettings
from remem.methods.table import METHODS
from remem.nets.network import Network, build_network
from remem.runs.config import RunConfig, validate
from remem.runs.devices import limit_threads, open_fabric
from remem.runs.migrations import migrate_model
from remem.runs.results import load_result
from remem.seeding import Streams
from remem.selection.ranking import SELECTIONS
from remem.storage.jsonfile import differences
from remem.storage.tensorfile import Snapshot, load_snapshot, save_snapshot
from remem.types import IntArray, Json, Reader, Samples, Values

FILE = "model.safetensors"
MEANS = "class_means"  # stored with the network's tensors
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


@dataclass(frozen=True)
class Model:
    """A trained network for inference, the class means of its exemplars, and the facts of its run."""

    config: RunConfig
    readout: Readout  # the method's own head
    class_names: tuple[str, ...]  # by position in the class order
    class_order: tuple[int, ...]  # the data set's label at each position
    shape: tuple[int, ...]  # of one sample: (h, w, c) or (d,)
    class_means: FloatArray | None  # (C, d); None if the method keeps no exemplars
    _learner: Learner

    @property
    def network(self) -> Network:
        return self._learner.network

    @property
    def plan(self) -> AugmentPlan:
        """`plain(images, plan)` is the evaluation transform."""
        return self._learner.plan

    def in_fp32(self) -> "Model":
        """A copy that predicts in fp32 on the CPU, whatever the run's precision and device."""
        plain_fp32 = self.config.train.model_copy(update={"device": "cpu", "precision": "fp32"})
        return replace(self, _learner=self._learner.copy_to(_open_fabric(plain_fp32)))

    def predict(self, values: ArrayLike, *, head: Head = "own") -> Prediction:
        """Predicts labels and probabilities of images (n, h, w[, c]) in uint8 or uint16, or of vectors (n, d)."""
        rows = self.fitted(values, "values")
        source = ArraySource(rows, np.zeros(len(rows), np.int64))
        blocks = list(self.blocks(source, len(rows), head))
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
        values = as_values(array, field)
        if values.shape[1:] == self.shape:
            return values
        if values.ndim == 4 and self.takes_squares and values.shape[3] == self.shape[2]:
            return resize(values, self.shape[0])
        kind = "images" if len(self.shape) == 3 else "vectors"
        raise InputError(f"{field}: samples of shape {values.shape[1:]}; expected {kind} of shape {self.shape}")

    @property
    def takes_squares(self) -> bool:
        """Whether samples are square images, so that any image can be cropped and resized to fit."""
        return len(self.shape) == 3 and self.shape[0] == self.shape[1]

    def _read_out(self, described: Described, readout: Readout) -> Prediction:
        if readout == "cnn":
            classes = described.logits.argmax(axis=1)
            return Prediction(classes, softmax(described.logits.astype(np.float64), axis=1), self.class_names)
        assert self.class_means is not None
        features = described.features.astype(np.float64)
        norms = np.linalg.norm(features, axis=1, keepdims=True)
        # For unit vectors, -|u - m|^2 = 2 u m - 2. The constant cancels in the softmax.
        products = features @ self.class_means.T / np.where(norms > 0, norms, 1.0)
        classes = nearest_mean(described.features, self.class_means)
        return Prediction(classes, softmax(2 * products, axis=1), self.class_names)


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
        model = Model(config, facts["head"], names, order, shape, None if means is None else means.numpy(), learner)
        _require_agreement(model)
        _require_own(path, facts)
    except (InputError, RuntimeError, LookupError, TypeError, ValueError) as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        reason = first if isinstance(error, InputError) else f"not a whole model ({first})"
        raise DamagedFileError(f"{path}: {reason}") from error
    return model


def _finished(place: Path) -> Path:
    """Returns the model file of a run folder. Raises if the run is not complete."""
    if not place.is_dir():
        if place.name == FILE and place.is_file():
            return place
        raise DamagedFileError(f"{place}: no such folder; expected the folder of a finished run")
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


def _rebuild(config: RunConfig, shape: tuple[int, ...], tensors: dict[str, Tensor]) -> Learner:
    """Returns a learner with the run's network and evaluation transform, for inference only."""
    method, augment = METHODS[config.method.name].build(config.method), config.augment
    preprocessing = Preprocessing(mean=None, std=None, augment=augment.kind, flip=False)  # all of it is in the settings
    spec = LearnerSpec(
        build=lambda seed: build_network(config.net, shape, method.head, seed),
        measures=False,  # mean and deviation are tensors of the network
        method=method,
        finetune=config.finetune,
        rank=SELECTIONS[config.memory.selection].rank,
    )
    limit_threads(config.train.threads)
    context = TrainContext(
        config.train, plan_for(preprocessing, shape, augment), _open_fabric(config.train), Streams(config.seed), ignore
    )
    learner = Learner(spec, context)
    learner.load(tensors)
    return learner


def _open_fabric(train: TrainSettings) -> Fabric:
    single = train.model_copy(update={"devices": 1, "strategy": "single"})
    try:
        return open_fabric(single)
    except InputError:
        return open_fabric(single.model_copy(update={"device": "cpu", "precision": "fp32"}))


def _require_agreement(model: Model) -> None:
    """Checks that the parts of a file agree on classes and features."""
    classes, width = model.network.head.classes, model.network.backbone.width
    if not len(model.class_names) == len(model.class_order) == classes:
        raise ValueError(f"{len(model.class_names)} class names for {classes} classes")
    if model.readout not in ("cnn", "nme"):
        raise ValueError(f"no head {model.readout}")
    if model.class_means is not None and model.class_means.shape != (classes, width):
        raise ValueError(f"class means of shape {model.class_means.shape}")
