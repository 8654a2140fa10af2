"""Pseudo tasks: scenarios made of training data only, on which policies are trained (protocol 4)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from remem.data.bank import Bank
from remem.data.scenario import Scenario, cut_phases, divide, fingerprint_of, rows_by_position, set_aside
from remem.data.settings import DataSettings, ScenarioSettings
from remem.data.source import Dataset
from remem.errors import InputError, SealedError
from remem.seeding import Streams
from remem.types import IntArray, Values

VALIDATION = 0.1  # of every class's training samples


@dataclass(frozen=True)
class SealedSource:
    """Replaces the test split while a policy is trained; every access raises SealedError."""

    name: str
    shape: tuple[int, ...]

    @property
    def labels(self) -> IntArray:
        raise self._error()

    @property
    def fingerprint(self) -> str:
        raise self._error()

    def read(self, rows: IntArray) -> Values:
        raise self._error()

    def _error(self) -> SealedError:
        return SealedError(f"{self.name}: the test set was asked for while a policy learns; no choice may see it")


def sealed(dataset: Dataset) -> Dataset:
    """The same data set with an inaccessible test split."""
    return replace(dataset, test=SealedSource(dataset.name, dataset.train.shape))


def pseudo_scenario(
    dataset: Dataset, classes: Sequence[int], division: ScenarioSettings, streams: Streams, *, shuffled: bool = True
) -> Scenario:
    """A task of some classes: a new class order, phases, and validation samples to evaluate on, all fixed per task.

    `shuffled=False` keeps the order of `classes`; this turns the target scenario itself into a pseudo task.
    """
    order = tuple(classes)
    if len(order) < 2:
        raise InputError(f"{dataset.name}: {len(order)} class to make pseudo tasks of; expected at least 2 in phase 0")
    if shuffled:
        places = streams.numpy(0, "class order").permutation(len(order))
        order = tuple(order[place] for place in places)
    if division.sizes is None:  # fewer phases where phase 0 leaves too few classes
        most = _classes_left(len(order), division)
        division = division.model_copy(update={"phases": min(division.phases, most)})
    sizes = divide(len(order), division)
    by_position = _rows_of(dataset, order)
    cuts = [_cut(rows, label, dataset, streams) for rows, label in zip(by_position, order, strict=True)]
    train, eval_rows = [kept for kept, _ in cuts], [held_out for _, held_out in cuts]
    settings = division.model_copy(update={"phases": len(sizes) - 1, "order": "pseudo", "validation": VALIDATION})
    source = dataset.train
    return Scenario(
        name=dataset.name,
        bank=Bank(source),
        eval_bank=Bank(source),
        phases=cut_phases(sizes, train, eval_rows),
        class_order=order,
        class_names=tuple(dataset.class_names[label] for label in order),
        preprocessing=dataset.preprocessing,
        fingerprint=fingerprint_of(source.fingerprint, order, sizes, streams.seed, streams.task),
        settings=settings,
        data=DataSettings(name=dataset.name),
    )


def training_rows(dataset: Dataset, classes: Sequence[int]) -> int:
    """The number of training samples of some classes."""
    return sum(len(rows) for rows in _rows_of(dataset, classes))


def _classes_left(classes: int, division: ScenarioSettings) -> int:
    """The number of classes left for phases 1..N; phase 0 has at least one."""
    base = division.base_classes
    return classes - ((classes + 1) // 2 if base is None else max(base, 1))


def _rows_of(dataset: Dataset, classes: Sequence[int]) -> list[IntArray]:
    by_label = rows_by_position(dataset.train.labels, tuple(range(len(dataset.class_names))))
    return [by_label[label] for label in classes]


def _cut(rows: IntArray, label: int, dataset: Dataset, streams: Streams) -> tuple[IntArray, IntArray]:
    count = max(1, round(len(rows) / 10))
    if count >= len(rows):
        name = dataset.class_names[label]
        raise InputError(f"{dataset.name}: class '{name}' has {len(rows)} training samples; a pseudo task needs two")
    return set_aside(rows, count, streams.numpy(0, f"validation/{label}"))
