"""Pseudo tasks: made of training data only, with their own validation samples and class orders."""

import numpy as np
import pytest

from factories import blobs
from remem.data.arrays import from_arrays
from remem.data.pseudo import pseudo_scenario, sealed, training_rows
from remem.data.scenario import Scenario
from remem.data.settings import ScenarioSettings
from remem.errors import InputError, SealedError
from remem.seeding import Streams

BLOBS = sealed(blobs(classes=10, per_class=20))
CLASSES = (7, 2, 9, 4, 0, 5, 8)


def task(number: int, *, phases: int = 3, base: int | None = None, shuffled: bool = True) -> Scenario:
    division = ScenarioSettings(phases=phases, base_classes=base)
    return pseudo_scenario(BLOBS, CLASSES, division, Streams(3, f"pseudo {number}"), shuffled=shuffled)


def rows_of(scenario: Scenario, position: int) -> tuple[set[int], set[int]]:
    """(training rows, validation rows) of one class."""
    phase = next(phase for phase in scenario.phases if position in phase.classes)
    return set(phase.train[position].tolist()), set(phase.eval_samples.of([position]).rows.tolist())


def test_a_tenth_of_every_class_is_set_aside_and_never_trained_on() -> None:
    scenario = task(0)
    for position, label in enumerate(scenario.class_order):
        train, validation = rows_of(scenario, position)
        assert (len(train), len(validation)) == (18, 2)
        assert train.isdisjoint(validation)
        assert train | validation == set(range(20 * label, 20 * label + 20))  # blobs are sorted by class


def test_equal_task_names_give_equal_tasks_and_other_names_other_orders() -> None:
    first, again, other = task(0), task(0), task(1)
    for position in range(len(CLASSES)):
        assert rows_of(first, position) == rows_of(again, position)
    assert first.class_order == again.class_order
    assert first.fingerprint == again.fingerprint
    assert other.class_order != first.class_order
    assert other.fingerprint != first.fingerprint
    by_label = [{label: rows_of(s, p)[1] for p, label in enumerate(s.class_order)} for s in (first, other)]
    assert by_label[0] != by_label[1]  # the validation samples differ, too


def test_only_the_given_classes_appear_and_half_of_them_come_first() -> None:
    scenario = task(2)
    assert sorted(scenario.class_order) == sorted(CLASSES)
    assert scenario.class_names == tuple(BLOBS.class_names[label] for label in scenario.class_order)
    assert [len(phase.classes) for phase in scenario.phases] == [4, 1, 1, 1]
    assert [len(phase.classes) for phase in task(2, phases=2).phases] == [4, 2, 1]


def test_phases_are_capped_by_the_classes_that_are_left() -> None:
    assert [len(phase.classes) for phase in task(0, phases=25).phases] == [4, 1, 1, 1]
    assert [len(phase.classes) for phase in task(0, phases=25, base=0).phases] == [1] * 7
    assert task(0, phases=25).settings.phases == 3


def test_a_target_scenario_as_a_task_keeps_its_order() -> None:
    assert task(0, shuffled=False).class_order == CLASSES
    assert task(5, shuffled=False, base=2, phases=2).phases[0].classes == (0, 1)


@pytest.mark.parametrize(("samples", "validation"), [(2, 1), (4, 1), (14, 1), (16, 2), (31, 3)])
def test_at_least_one_sample_is_set_aside(samples: int, validation: int) -> None:
    labels = np.repeat([0, 1], [samples, 10])
    values = np.arange(len(labels), dtype=np.float32)[:, None]
    dataset = sealed(from_arrays(values, labels, values[:1], labels[:1]))
    scenario = pseudo_scenario(dataset, (0, 1), ScenarioSettings(phases=1), Streams(0), shuffled=False)
    train, held_out = rows_of(scenario, 0)
    assert (len(train), len(held_out)) == (samples - validation, validation)
    assert training_rows(dataset, (0,)) == samples


def test_too_few_classes_or_samples_are_refused() -> None:
    labels = np.array([0, 1, 1])
    values = np.zeros((3, 1), np.float32)
    dataset = sealed(from_arrays(values, labels, values, labels))
    with pytest.raises(InputError, match="class '0' has 1 training samples; a pseudo task needs two"):
        pseudo_scenario(dataset, (0, 1), ScenarioSettings(phases=1), Streams(0))
    with pytest.raises(InputError, match="1 class to make pseudo tasks of; expected at least 2 in phase 0"):
        pseudo_scenario(dataset, (1,), ScenarioSettings(phases=1), Streams(0))


def test_every_access_to_the_sealed_test_set_raises() -> None:
    for touch in (
        lambda: BLOBS.test.labels,
        lambda: BLOBS.test.fingerprint,
        lambda: BLOBS.test.read(np.array([0])),
    ):
        with pytest.raises(SealedError, match="blobs: the test set was asked for while a policy learns"):
            touch()
    assert BLOBS.test.shape == BLOBS.train.shape
    assert len(BLOBS.train.labels) == 200  # the training data stay accessible
