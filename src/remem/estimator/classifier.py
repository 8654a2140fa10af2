"""`IncrementalClassifier`: class-incremental learning with scikit-learn's conventions."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags, check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import nn

from remem.errors import InputError
from remem.estimator.account import Label, MemoryTable
from remem.estimator.deletion import Receipt, forget
from remem.estimator.saved import load_stream, save_stream
from remem.estimator.stream import Stream
from remem.estimator.versions import ModelFolder
from remem.estimator.warm_start import stream_from_run
from remem.runs.config import RunConfig, compose
from remem.runs.model import Prediction
from remem.runs.trees import Tree, merged, nested
from remem.types import Values


class IncrementalClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """A classifier that keeps learning new classes within a strict memory budget.

    Parameters
    ----------
    method : name of the method, see `remem list methods`; it must keep exemplars.
    policy : how the memory is split, see `remem list policies`, or a policy folder.
    budget : what is held at most: samples (2000), bytes as stored ("2MB") or "growing:20".
    codec : how samples are stored, see `remem list codecs`.
    backbone : name of the network, or a module of your own that returns (n, d); None: by the data.
    epochs : of every update; None: those of the preset.
    settings : any other setting, nested or as {"train.lr": 0.1, "preset": "paper"}.
    random_state : seed, or a `RandomState`; None is 0, so that equal calls give equal models.

    Attributes
    ----------
    classes_ : labels in their order of arrival, sorted within an update; the columns of `predict_proba`.
    n_features_in_ : length of the vectors; absent for images.
    memory_ : what is held: class, samples, bytes, codec, updates, half.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from remem import IncrementalClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> clf = IncrementalClassifier(budget=200, epochs=5).partial_fit(X[y < 5], y[y < 5])
    >>> clf = clf.partial_fit(X[y >= 5], y[y >= 5])  # the first classes are not given again
    >>> len(clf.classes_), clf.memory_.total_samples
    (10, 200)
    """

    def __init__(
        self,
        method: str = "icarl",
        policy: str = "static",
        budget: int | str = 2000,
        codec: str = "raw",
        backbone: str | nn.Module | None = None,
        epochs: int | None = None,
        settings: Mapping[str, Any] | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.method = method
        self.policy = policy
        self.budget = budget
        self.codec = codec
        self.backbone = backbone
        self.epochs = epochs
        self.settings = settings
        self.random_state = random_state
        self.stream_: Stream

    def fit(self, X: ArrayLike, y: ArrayLike, ids: Sequence[str] | None = None) -> Self:
        """Forgets everything and learns from these samples."""
        self._reset()
        return self._learn(X, y, ids, reset=True)

    def partial_fit(
        self, X: ArrayLike, y: ArrayLike, ids: Sequence[str] | None = None, *, classes: ArrayLike | None = None
    ) -> Self:
        """Learns from samples of unseen and known classes; `ids` are their identities, for `forget`.

        `classes` is there for scikit-learn's sake: classes may always be added, so it is only checked.
        """
        if classes is not None and len(strange := np.setdiff1d(np.asarray(y), np.asarray(classes))):
            raise ValueError(f"y: label {strange[0]} is not in classes")
        return self._learn(X, y, ids, reset=not hasattr(self, "stream_"))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The labels of samples."""
        prediction = self._predict(X)
        return self.classes_[prediction.classes]

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Probabilities (n, C) in the order of `classes_`."""
        return np.asarray(self._predict(X).probabilities, np.float64)

    @property
    def classes_(self) -> NDArray[Any]:
        if not hasattr(self, "stream_"):
            raise AttributeError("classes_: this model has seen no samples yet")
        return np.array(self.stream_.classes)

    @property
    def memory_(self) -> MemoryTable:
        """What is held, class by class."""
        check_is_fitted(self)
        return self.stream_.memory()

    def forget(self, classes: Iterable[Label] = (), ids: Iterable[str] = (), *, retrain: bool = False) -> Receipt:
        """Deletes classes or single samples and returns a receipt. `retrain` trains anew on what is left."""
        check_is_fitted(self)
        return forget(self.stream_, classes=np.asarray(list(classes)).tolist(), ids=ids, retrain=retrain)

    def set_budget(self, budget: int | str) -> Self:
        """Another budget from now on. A smaller one cuts what is held at once, by the rankings."""
        if hasattr(self, "stream_"):
            self.stream_.set_budget(budget)
        self.budget = budget
        return self

    def save(self, folder: str | Path) -> None:
        """Saves the model and what it remembers. An earlier model in this folder is replaced, atomically."""
        check_is_fitted(self)
        ModelFolder(folder).commit(lambda place: save_stream(place, self.stream_), keep=1)

    @classmethod
    def load(cls, folder: str | Path, *, backbone: nn.Module | None = None) -> "IncrementalClassifier":
        """Loads a model that `save` or `remem update` has made; `backbone` is needed if it is a module of your own."""
        return cls._of(load_stream(ModelFolder(folder).current, module=backbone), backbone)

    @classmethod
    def from_run(cls, folder: str | Path) -> "IncrementalClassifier":
        """Goes on where a finished run has ended. Its data are needed once; labels are the names of its classes."""
        return cls._of(stream_from_run(folder))

    def adopt(self, X: ArrayLike, y: ArrayLike, ids: Sequence[str] | None = None) -> Self:
        """Starts from a `backbone` with trained weights: learns the head alone, on what old data there are."""
        if not isinstance(self.backbone, nn.Module):
            raise InputError(f"backbone: {self.backbone!r} given; expected a module with trained weights")
        self._reset()
        return self._learn(X, y, ids, reset=True, keeps_backbone=True)

    def export_onnx(self, path: str | Path) -> None:
        """Writes network and readout as one ONNX graph."""
        from remem.runs.export import export_onnx

        check_is_fitted(self)
        export_onnx(self.stream_.model(), Path(path))

    @classmethod
    def _of(cls, stream: Stream, backbone: nn.Module | None = None) -> "IncrementalClassifier":
        """An estimator around a stream, with the parameters that made it."""
        config = stream.config
        found = cls(
            method=config.method.name,
            policy=config.policy,
            budget=stream.budget_setting if not stream.budget_setting.isdigit() else int(stream.budget_setting),
            codec=config.memory.codec,
            backbone=backbone or config.net.name,
            settings=other_settings(config),
            random_state=config.seed,
        )
        found.stream_ = stream
        if len(stream.shape) == 1:
            found.n_features_in_ = stream.shape[0]
        return found

    def _reset(self) -> None:
        for name in ("stream_", "n_features_in_"):
            self.__dict__.pop(name, None)

    def _learn(
        self, X: ArrayLike, y: ArrayLike, ids: Sequence[str] | None, *, reset: bool, keeps_backbone: bool = False
    ) -> Self:
        values = self._checked(X, reset=reset)
        labels = column_or_1d(y, warn=True)
        check_classification_targets(labels)
        if len(labels) != len(values):
            raise ValueError(
                f"Found input variables with inconsistent numbers of samples: {[len(values), len(labels)]}"
            )
        if reset:
            module = self.backbone if isinstance(self.backbone, nn.Module) else None
            stream = Stream(self._config(), module, keeps_backbone=keeps_backbone)
        else:
            stream = self.stream_
        stream.update(values, labels, ids)
        self.stream_ = stream
        return self

    def _predict(self, X: ArrayLike) -> Prediction:
        check_is_fitted(self)
        return self.stream_.model().predict(self._checked(X, reset=False))

    def _checked(self, X: ArrayLike, *, reset: bool) -> Values:
        """Vectors are checked by scikit-learn; images by the stream."""
        if getattr(X, "ndim", None) not in (1, 2) and np.asarray(X).ndim in (3, 4):
            return np.asarray(X)
        if not reset and not hasattr(self, "n_features_in_"):
            raise InputError(f"X: shape {np.shape(X)}; expected images of shape {self.stream_.shape}")
        values: Values = validate_data(self, X, reset=reset, dtype=np.float32)
        return values

    def _config(self) -> RunConfig:
        seed = self.random_state
        if isinstance(seed, np.random.RandomState):
            seed = int(check_random_state(seed).randint(2**31))
        tree: Tree = {
            "seed": 0 if seed is None else int(seed),
            "policy": self.policy,
            "method": {"name": self.method},
            "data": {"name": "stream"},
            "memory": {"budget": self.budget, "codec": self.codec},
        }
        if isinstance(self.backbone, str):
            tree["net"] = {"name": self.backbone}
        if self.epochs is not None:
            tree["train"] = {"epochs": self.epochs, "epochs_later": None}
        for key, value in (self.settings or {}).items():
            tree = merged(tree, nested(key, value))
        return compose(tree)

    def __getstate__(self) -> dict[str, Any]:
        """For pickle and copies: a model is the files that `save` writes, and no object with code."""
        state = dict(super().__getstate__())
        if "stream_" in state:
            with TemporaryDirectory() as folder:
                save_stream(Path(folder), state["stream_"])
                files = (path for path in Path(folder).rglob("*") if path.is_file())
                state["stream_"] = {str(path.relative_to(folder)): path.read_bytes() for path in files}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        files = state.pop("stream_", None)
        super().__setstate__(state)
        if files is not None:
            with TemporaryDirectory() as folder:
                for name, content in files.items():
                    (Path(folder) / name).parent.mkdir(exist_ok=True)
                    (Path(folder) / name).write_bytes(content)
                module = self.backbone if isinstance(self.backbone, nn.Module) else None
                self.stream_ = load_stream(Path(folder), module=module)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "stream_")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags


def other_settings(config: RunConfig) -> Tree:
    """All settings that are no parameters of the estimator."""
    tree = config.model_dump(mode="json", exclude={"seed", "policy", "policy_sha256"})
    for section, names in {"method": ("name",), "memory": ("budget", "codec"), "net": ("name",)}.items():
        tree[section] = {name: value for name, value in tree[section].items() if name not in names}
    return {name: value for name, value in tree.items() if name not in ("data", "scenario")}
