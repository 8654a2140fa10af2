"""Scenarios: classes and rows of every phase, checked by hand on small data sets."""

import numpy as np
import pytest

from remem.data.arrays import from_arrays
from remem.data.preprocessing import Preprocessing
from remem.data.scenario import Scenario, build_scenario, phase_sizes
from remem.data.settings import ScenarioSettings
from remem.data.source import ArraySource, Dataset
from remem.errors import InputError
from remem.types import IntArray, Values


def vectors(labels: list[int]) -> ArraySource:
    return ArraySource(np.arange(len(labels), dtype=np.float32)[:, None], np.array(labels, dtype=np.int64))


def dataset(train: list[int], test: list[int], classes: int) -> Dataset:
    names = tuple("abcdefghijklmnopqrstuvwxyz"[:classes])
    return Dataset("toy", vectors(train), vectors(test), names, Preprocessing(None, None, "none", False))


def scenario(data: Dataset, **settings: object) -> Scenario:
    return build_scenario(data, ScenarioSettings.model_validate(settings))


@pytest.mark.parametrize(
    ("classes", "phases", "base", "expected"),
    [
        (100, 5, None, (50, 10, 10, 10, 10, 10)),
        (100, 25, None, (50,) + (2,) * 25),
        (10, 3, None, (5, 2, 2, 1)),
        (11, 3, None, (6, 2, 2, 1)),
        (10, 4, 3, (3, 2, 2, 2, 1)),
        (100, 9, 0, (10,) * 10),
        (10, 3, 0, (3, 3, 2, 2)),
        (2, 1, None, (1, 1)),
        (3, 2, 0, (1, 1, 1)),
    ],
)
def test_phase_sizes(classes: int, phases: int, base: int | None, expected: tuple[int, ...]) -> None:
    assert phase_sizes(classes, phases, base) == expected


@pytest.mark.parametrize(
    ("classes", "phases", "base", "words"),
    [
        (10, 0, None, "phases: 0 given"),
        (10, 6, None, "phases: 6 given; expected at most 5"),
        (10, 3, 8, "phases: 3 given; expected at most 2"),
        (10, 10, 0, "phases: 10 given; expected at most 9"),
        (10, 1, 10, "base_classes: 10 given"),
        (10, 1, -1, "base_classes: -1 given"),
        (1, 1, None, "phases: 1 given; expected at most 0"),
    ],
)
def test_impossible_numbers(classes: int, phases: int, base: int | None, words: str) -> None:
    with pytest.raises(InputError, match=words):
        phase_sizes(classes, phases, base)


def test_rows_and_positions() -> None:
    data = dataset(train=[2, 0, 1, 3, 0, 2, 2], test=[3, 3, 1, 0, 2], classes=4)
    orders = {tuple(scenario(data, phases=2, order=f"seed:{seed}").class_order) for seed in range(9)}
    assert len(orders) > 1
    made = scenario(data, phases=2, order="natural")
    assert [phase.classes for phase in made.phases] == [(0, 1), (2,), (3,)]
    assert [phase.index for phase in made.phases] == [0, 1, 2]
    assert {c: rows.tolist() for c, rows in made.phases[0].train.items()} == {0: [1, 4], 1: [2]}
    assert made.phases[1].train[2].tolist() == [0, 5, 6]
    assert made.phases[0].eval_samples.rows.tolist() == [3, 2]
    assert made.phases[0].eval_samples.labels.tolist() == [0, 1]
    assert made.phases[2].eval_samples.rows.tolist() == [0, 1]
    assert made.phases[2].eval_samples.labels.tolist() == [3, 3]
    assert made.phases[0].arriving == 3


def test_labels_become_positions() -> None:
    data = dataset(train=[0, 1, 2, 3] * 2, test=[0, 1, 2, 3], classes=4)
    made = scenario(data, phases=2, order="seed:3")
    assert made.class_names == tuple("abcd"[label] for label in made.class_order)
    for phase in made.phases:
        for position, rows in phase.train.items():
            label = made.class_order[position]
            assert made.bank.read(rows).ravel().tolist() == [label, label + 4]
        for row, position in zip(phase.eval_samples.rows, phase.eval_samples.labels, strict=True):
            assert row == made.class_order[position]  # the test set has its four labels in order


def test_classes_without_samples() -> None:
    with pytest.raises(InputError, match="toy: class 'c' has no training samples"):
        scenario(dataset([0, 1, 3], [0, 1, 2, 3], 4), phases=1)
    with pytest.raises(InputError, match="toy: no class of phase 1 has a test sample"):
        scenario(dataset([0, 1, 2, 3], [0, 1], 4), phases=1, order="natural")


class Untouchable:
    """A test set that must not be read."""

    @property
    def labels(self) -> IntArray:
        raise AssertionError("the test set was touched")

    @property
    def shape(self) -> tuple[int, ...]:
        raise AssertionError("the test set was touched")

    @property
    def fingerprint(self) -> str:
        raise AssertionError("the test set was touched")

    def read(self, rows: IntArray) -> Values:
        raise AssertionError("the test set was touched")


def test_validation_is_cut_from_the_training_rows() -> None:
    counts = [30, 4, 2, 25]
    labels = [label for label, count in enumerate(counts) for _ in range(count)]
    whole = dataset(labels, [0], 4)
    data = Dataset("toy", whole.train, Untouchable(), whole.class_names, whole.preprocessing)
    made = scenario(data, phases=1, validation=0.1, order="seed:1")
    for phase in made.phases:
        for position in phase.classes:
            label = made.class_order[position]
            kept, held_out = phase.train[position], phase.eval_samples.rows[phase.eval_samples.labels == position]
            assert len(held_out) == [3, 1, 1, 2][label]  # max(1, round(n / 10)); round(2.5) is 2
            assert sorted([*kept, *held_out]) == np.flatnonzero(whole.train.labels == label).tolist()
            assert kept.tolist() == sorted(kept)
            assert made.eval_bank.read(held_out).ravel().tolist() == held_out.tolist()


def test_validation_rows_depend_on_the_label_only() -> None:
    labels = [label for label in range(4) for _ in range(50)]
    data = dataset(labels, [0], 4)

    def held_out(order: str, phases: int) -> list[int]:
        made = scenario(data, phases=phases, order=order, validation=0.2)
        return sorted(row for phase in made.phases for row in phase.eval_samples.rows.tolist())

    chosen = held_out("natural", 1)
    assert chosen == held_out("seed:5", 2)
    assert len(chosen) == 40
    within = {tuple(row % 50 for row in chosen if row // 50 == label) for label in range(4)}
    assert len(within) == 4  # other positions in every class


def test_only_the_first_classes_of_the_order() -> None:
    """Rows, names and phases are those of the classes that are left; labels of the data set need not be adjacent."""
    data = dataset([0, 1, 2, 3, 4, 4, 2, 0], [4, 3, 2, 1, 0], classes=5)
    order = scenario(data, phases=1, order="seed:3").class_order
    few = scenario(data, phases=1, order="seed:3", classes=3)
    assert few.class_order == order[:3]
    assert few.class_names == tuple("abcde"[label] for label in order[:3])
    assert [phase.classes for phase in few.phases] == [(0, 1), (2,)]
    for phase in few.phases:
        for position, rows in phase.train.items():
            assert rows.tolist() == np.flatnonzero(data.train.labels == order[position]).tolist()
        assert data.test.labels[phase.eval_samples.rows].tolist() == [order[p] for p in phase.eval_samples.labels]
    assert few.fingerprint != scenario(data, phases=1, order="seed:3").fingerprint


def test_more_classes_than_there_are() -> None:
    data = dataset([0, 1, 2], [0, 1, 2], classes=3)
    assert len(scenario(data, phases=1, classes=3).class_order) == 3
    with pytest.raises(InputError, match=r"classes: 4 given; expected at most 3, all of toy"):
        scenario(data, phases=1, classes=4)


def test_wrong_validation() -> None:
    data = dataset([0, 0, 1], [0, 1], 2)
    with pytest.raises(InputError, match=r"validation: 1\.0 given"):
        scenario(data, phases=1, validation=1.0)
    with pytest.raises(InputError, match=r"validation: 0\.1 takes all 1 training samples of class 'b'"):
        scenario(data, phases=1, validation=0.1)


def test_different_scenarios_have_different_fingerprints() -> None:
    data = dataset([0, 1, 2, 3] * 10, [0, 1, 2, 3], 4)
    other = dataset([0, 1, 2, 3] * 11, [0, 1, 2, 3], 4)
    base = {"phases": 2, "order": "natural"}
    variants = [base, base | {"phases": 1}, base | {"order": "seed:3"}, base | {"validation": 0.1}]
    digests = [scenario(data, **settings).fingerprint for settings in variants]
    digests.append(scenario(other, **base).fingerprint)
    assert len(set(digests)) == 5
    assert digests[0] == scenario(data, **base).fingerprint


def test_images_from_arrays_end_to_end() -> None:
    images = np.arange(6 * 4, dtype=np.uint8).reshape(6, 2, 2, 1)
    made = scenario(from_arrays(images, list("abcabc"), images, list("cbacba")), phases=1, order="natural")
    assert [phase.classes for phase in made.phases] == [(0, 1), (2,)]
    assert np.array_equal(made.bank.read(made.phases[1].train[2]), images[[2, 5]])
    assert np.array_equal(made.eval_bank.read(made.phases[1].eval_samples.rows), images[[0, 3]])


def test_sizes_decide_phases_and_classes() -> None:
    data = dataset([label for label in range(6) for _ in range(2)], list(range(6)), 6)
    built = scenario(data, sizes=[2, 1, 3], order="natural")
    assert [phase.classes for phase in built.phases] == [(0, 1), (2,), (3, 4, 5)]
    assert (built.settings.phases, built.settings.base_classes, built.settings.classes) == (2, 2, 6)
    fewer = scenario(data, sizes=[1, 3], order="natural")  # the first four classes of the order
    assert [phase.classes for phase in fewer.phases] == [(0,), (1, 2, 3)]
    assert ScenarioSettings.model_validate(built.settings.model_dump()) == built.settings  # as in config.json


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"sizes": [2, 0]}, r"scenario.sizes: \[2, 0\] given; expected whole numbers of at least 1"),
        ({"sizes": [2, 1.5]}, "expected whole numbers"),
        ({"sizes": [2, 2], "phases": 3}, "scenario.phases: 3 given; scenario.sizes makes it 1"),
        ({"sizes": [2, 2], "base_classes": 1}, "scenario.base_classes: 1 given; scenario.sizes makes it 2"),
        ({"sizes": [2, 2], "classes": 6}, "scenario.classes: 6 given; scenario.sizes makes it 4"),
        ({"sizes": [5, 5]}, "classes: 10 given; expected at most 6"),
    ],
)
def test_sizes_that_contradict_other_settings(settings: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        scenario(dataset(list(range(6)), list(range(6)), 6), **settings)


def test_classes_without_evaluation_samples_are_noted() -> None:
    train = [label for label in range(12) for _ in range(2)]
    assert scenario(dataset(train, list(range(12)), 12), phases=2).notes == ()
    one = scenario(dataset(train, [*range(7), *range(8, 12)], 12), phases=2)
    assert one.notes == ("1 class has no evaluation samples and counts in no accuracy: h",)
    many = scenario(dataset(train, [0, 6, 11], 12), phases=1, order="natural")
    assert many.notes == (
        "9 classes have no evaluation samples and count in no accuracy: b, c, d, e, f, h, i, j and 1 more",
    )
    cut = scenario(dataset(train, [0], 12), phases=2, validation=0.5)  # evaluated on training data: all have some
    assert cut.notes == ()
