"""Pseudo tasks: scenarios cut from training data alone, on which policies learn (protocol 4). No test set in reach."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from remem.data.bank import Bank
from remem.data.scenario import (
    Scenario,
    ScenarioSettings,
    cut_phases,
    fingerprint_of,
    phase_sizes,
    rows_by_position,
    set_aside,
)
from remem.data.source import Dataset, DataSettings
from remem.errors import InputError, SealedError
from remem.seeding import Streams
from remem.types import IntArray, Values

VALIDATION = 0.1  # of every class's training samples


@dataclass(frozen=True)
class SealedSource:
    """The test split while a policy learns: whoever touches it is told so."""

    name: str
    shape: tuple[int, ...]

    @property
    def labels(self) -> IntArray:
        raise self._broken()

    @property
    def fingerprint(self) -> str:
        raise self._broken()

    def read(self, rows: IntArray) -> Values:
        raise self._broken()

    def _broken(self) -> SealedError:
        return SealedError(f"{self.name}: the test set was asked for while a policy learns; no choice may see it")


def sealed(dataset: Dataset) -> Dataset:
    """The same data set with its test split out of reach."""
    return replace(dataset, test=SealedSource(dataset.name, dataset.train.shape))


def pseudo_scenario(
    dataset: Dataset, classes: Sequence[int], division: ScenarioSettings, streams: Streams, *, shuffled: bool = True
) -> Scenario:
    """Some classes of a data set as a task: a new order, phases, and validation samples set aside, fixed per task.

    `shuffled=False` keeps the order of `classes`, which is how a target itself becomes a task.
    """
    order = tuple(classes)
    if len(order) < 2:
        raise InputError(f"{dataset.name}: {len(order)} class to make pseudo tasks of; expected at least 2 in phase 0")
    if shuffled:
        places = streams.numpy(0, "class order").permutation(len(order))
        order = tuple(order[place] for place in places)
    sizes = phase_sizes(len(order), min(division.phases, _classes_left(len(order), division)), division.base_classes)
    by_position = _rows_of(dataset, order)
    cuts = [_cut(rows, label, dataset, streams) for rows, label in zip(by_position, order, strict=True)]
    train, judged = [kept for kept, _ in cuts], [apart for _, apart in cuts]
    settings = division.model_copy(update={"phases": len(sizes) - 1, "order": "pseudo", "validation": VALIDATION})
    source = dataset.train
    return Scenario(
        name=dataset.name,
        bank=Bank(source),
        judge=Bank(source),
        phases=cut_phases(sizes, train, judged),
        class_order=order,
        class_names=tuple(dataset.class_names[label] for label in order),
        look=dataset.look,
        fingerprint=fingerprint_of(source.fingerprint, order, sizes, streams.seed, streams.task),
        settings=settings,
        data=DataSettings(name=dataset.name),
    )


def training_rows(dataset: Dataset, classes: Sequence[int]) -> int:
    """How many training samples some classes have together."""
    return sum(len(rows) for rows in _rows_of(dataset, classes))


def _classes_left(classes: int, division: ScenarioSettings) -> int:
    """For the phases after phase 0, which needs one class itself."""
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
