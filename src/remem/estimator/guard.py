"""Accuracy on a user's own data before and after an update: a guard against updates that cost too much."""

from collections.abc import Collection
from dataclasses import dataclass

from remem.errors import InputError
from remem.estimator.arrivals import Arrivals
from remem.runs.model import Model


@dataclass(frozen=True)
class Score:
    """Right answers among samples."""

    right: int
    samples: int

    @property
    def accuracy(self) -> float | None:
        return self.right / self.samples if self.samples else None


@dataclass(frozen=True)
class Checked:
    """Samples of the classes that were known before an update, and of those that it brought."""

    before: Score | None  # None if there was no model
    after: Score  # the same samples
    new: Score

    @property
    def lost(self) -> float:
        """Points that old classes have lost; negative if they have gained."""
        return 0.0 if self.before is None else 100 * (self.before.right - self.after.right) / self.before.samples


class Guard:
    """Measures a model on data of its own classes, before and after an update."""

    def __init__(self, data: Arrivals, model: Model | None) -> None:
        self._data = data
        self._labels = [str(label) for label in data.labels]
        self._known = frozenset(() if model is None else model.class_names)
        self._before = None if model is None else self._score(model, self._known)
        if self._before is not None and not self._before.samples:
            raise InputError(f"check: {len(data)} samples, none of a known class; expected samples of old classes")

    def after(self, model: Model) -> Checked:
        """The same data under the model after its update."""
        new = frozenset(model.class_names) - self._known
        return Checked(self._before, self._score(model, self._known), self._score(model, new))

    def _score(self, model: Model, classes: Collection[str]) -> Score:
        chosen = [place for place, label in enumerate(self._labels) if label in classes]
        if not chosen:
            return Score(0, 0)
        said = model.predict(self._data.values[chosen]).labels
        return Score(sum(self._labels[place] == label for place, label in zip(chosen, said, strict=True)), len(chosen))
