"""A scenario: a data set split into phases, each with its classes, training rows and evaluation samples."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from remem.data.bank import Bank
from remem.data.orders import class_order
from remem.data.preprocessing import Preprocessing
from remem.data.settings import DataSettings, ScenarioSettings
from remem.data.source import Dataset
from remem.errors import InputError, listed
from remem.seeding import Streams
from remem.types import IntArray, Phase, Samples


@dataclass(frozen=True)
class Scenario:
    """All phases, and the banks of their training and evaluation rows."""

    name: str
    bank: Bank
    eval_bank: Bank
    phases: tuple[Phase, ...]
    class_order: tuple[int, ...]  # the data set's label at each position
    class_names: tuple[str, ...]  # by position
    preprocessing: Preprocessing
    fingerprint: str
    settings: ScenarioSettings
    data: DataSettings  # what the data set was loaded with, for the result file
    notes: tuple[str, ...] = ()


def build_scenario(dataset: Dataset, settings: ScenarioSettings, data: DataSettings | None = None) -> Scenario:
    """Splits a data set into phases. Depends on the data and the class order only, not on the run seed."""
    if not 0 <= settings.validation < 1:
        raise InputError(f"validation: {settings.validation} given; expected a share from 0 to below 1")
    order = selected_classes(settings, dataset)
    sizes = divide(len(order), settings)
    train = rows_by_position(dataset.train.labels, order)
    for position, rows in enumerate(train):
        if not len(rows):
            raise InputError(f"{dataset.name}: class '{dataset.class_names[order[position]]}' has no training samples")
    if settings.validation:
        cuts = [_cut(rows, settings.validation, label, dataset) for rows, label in zip(train, order, strict=True)]
        train, eval_rows = [kept for kept, _ in cuts], [held_out for _, held_out in cuts]
        eval_bank = Bank(dataset.train)
    else:
        eval_rows = rows_by_position(dataset.test.labels, order)
        eval_bank = Bank(dataset.test)
    phases = cut_phases(sizes, train, eval_rows)
    names = tuple(dataset.class_names[label] for label in order)
    for phase in phases:
        if not len(phase.eval_samples):
            raise InputError(f"{dataset.name}: no class of phase {phase.index} has a test sample")
    return Scenario(
        name=dataset.name,
        bank=Bank(dataset.train),
        eval_bank=eval_bank,
        phases=phases,
        class_order=order,
        class_names=names,
        preprocessing=dataset.preprocessing,
        fingerprint=fingerprint_of(dataset.train.fingerprint, eval_bank.fingerprint, order, sizes, settings.validation),
        settings=settings,
        data=DataSettings(name=dataset.name) if data is None else data,
        notes=(*dataset.notes, *_not_evaluated(names, eval_rows)),
    )


def _not_evaluated(names: Sequence[str], eval_rows: Sequence[IntArray]) -> list[str]:
    """A note on the classes without evaluation samples, which count in no accuracy."""
    without = [name for name, rows in zip(names, eval_rows, strict=True) if not len(rows)]
    if not without:
        return []
    what = "1 class has no evaluation samples and counts"
    if len(without) > 1:
        what = f"{len(without)} classes have no evaluation samples and count"
    return [f"{what} in no accuracy: {listed(without)}"]


def selected_classes(settings: ScenarioSettings, dataset: Dataset) -> tuple[int, ...]:
    """The labels of the scenario in their class order."""
    known = len(dataset.class_names)
    if settings.classes is not None and settings.classes > known:
        raise InputError(f"classes: {settings.classes} given; expected at most {known}, all of {dataset.name}")
    return class_order(settings.order, dataset.name, known)[: settings.classes]


def divide(classes: int, settings: ScenarioSettings) -> tuple[int, ...]:
    """The number of classes of phases 0..N, as given or evenly."""
    if settings.sizes is None:
        return phase_sizes(classes, settings.phases, settings.base_classes)
    if sum(settings.sizes) != classes:
        raise InputError(f"scenario.sizes: {sum(settings.sizes)} classes in all; expected {classes}")
    return settings.sizes


def phase_sizes(classes: int, phases: int, base_classes: int | None) -> tuple[int, ...]:
    """The number of classes of phases 0..N; if they do not divide evenly, earlier phases get one more."""
    if phases < 1:
        raise InputError(f"phases: {phases} given; expected at least 1")
    if base_classes is not None and not 0 <= base_classes < classes:
        raise InputError(f"base_classes: {base_classes} given; expected 0 to {classes - 1} of {classes} classes")
    if base_classes == 0:
        if phases + 1 > classes:
            raise InputError(f"phases: {phases} given; expected at most {classes - 1}, for {classes} classes in all")
        return _even(classes, phases + 1)
    base = (classes + 1) // 2 if base_classes is None else base_classes
    left = classes - base
    if phases > left:
        raise InputError(f"phases: {phases} given; expected at most {left}, the classes left after phase 0's {base}")
    return (base, *_even(left, phases))


def _even(total: int, parts: int) -> tuple[int, ...]:
    share, more = divmod(total, parts)
    return tuple(share + (part < more) for part in range(parts))


def rows_by_position(labels: IntArray, order: tuple[int, ...]) -> list[IntArray]:
    """The rows of each class in ascending order, by position in the class order."""
    by_label = np.argsort(labels, kind="stable")
    starts, ends = (np.searchsorted(labels[by_label], order, side=side) for side in ("left", "right"))
    return [by_label[start:end].astype(np.int64) for start, end in zip(starts, ends, strict=True)]


def _cut(rows: IntArray, share: float, label: int, dataset: Dataset) -> tuple[IntArray, IntArray]:
    """Validation rows depend on the label alone, not on the run seed or the class order."""
    count = max(1, round(share * len(rows)))
    if count >= len(rows):
        name = dataset.class_names[label]
        raise InputError(f"validation: {share} takes all {len(rows)} training samples of class '{name}'; expected less")
    return set_aside(rows, count, Streams(0, "validation").numpy(0, f"class {label}"))


def set_aside(rows: IntArray, count: int, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Splits rows at random into (training, evaluation), both in the order of `rows`."""
    mask = np.zeros(len(rows), dtype=np.bool_)
    mask[rng.permutation(len(rows))[:count]] = True
    return rows[~mask], rows[mask]


def cut_phases(sizes: tuple[int, ...], train: list[IntArray], eval_rows: list[IntArray]) -> tuple[Phase, ...]:
    """Phases of the given sizes; `train` and `eval_rows` hold rows by position in the class order."""
    ends = np.cumsum(sizes).tolist()
    phases = []
    for index, (size, end) in enumerate(zip(sizes, ends, strict=True)):
        classes = tuple(range(end - size, end))
        evaluated = [eval_rows[position] for position in classes]
        labels = np.repeat(np.array(classes, dtype=np.int64), [len(rows) for rows in evaluated])
        samples = Samples(rows=np.concatenate(evaluated), labels=labels)
        phases.append(Phase(index, classes, {position: train[position] for position in classes}, samples))
    return tuple(phases)


def fingerprint_of(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()
