"""Metrics by hand."""

import math

import numpy as np
import pytest

from remem.evaluation import metrics
from remem.evaluation.metrics import (
    accuracy,
    accuracy_by_phase,
    accuracy_per_class,
    class_means,
    confusion,
    forgetting,
    mean_interval,
    nearest_mean,
    old_new_accuracy,
)

LABELS = np.array([0, 0, 1, 1, 2, 2, 2, 2])
PREDICTED = np.array([0, 1, 1, 1, 2, 0, 2, 2])


def test_accuracies() -> None:
    assert accuracy(LABELS, PREDICTED) == 0.75
    assert accuracy_per_class(LABELS, PREDICTED) == {0: 0.5, 1: 1.0, 2: 0.75}
    assert accuracy_by_phase(LABELS, PREDICTED, {0: 0, 1: 0, 2: 1, 3: 2}) == [0.75, 0.75]
    assert accuracy_by_phase(LABELS, PREDICTED, {0: 0, 1: 1, 2: 2}) == [0.5, 1.0, 0.75]
    assert old_new_accuracy(LABELS, PREDICTED, 1) == (0.5, 5 / 6)
    assert old_new_accuracy(LABELS, PREDICTED, 0) == (None, 0.75)


def test_no_samples_is_an_error() -> None:
    with pytest.raises(ValueError, match="no samples"):
        accuracy(LABELS[:0], PREDICTED[:0])
    with pytest.raises(ValueError, match="no samples"):
        accuracy_by_phase(LABELS, PREDICTED, {0: 0, 1: 0, 2: 2})


def test_confusion() -> None:
    table = confusion(LABELS, PREDICTED, 4)
    assert table.tolist() == [[1, 1, 0, 0], [0, 2, 0, 0], [1, 0, 3, 0], [0, 0, 0, 0]]
    assert table.dtype == np.int64


def test_forgetting() -> None:
    # Phase 0: best earlier 0.9, final 0.5. Phase 1: 0.6 before, 0.7 at the end. The last phase does not count.
    matrix = [[0.8], [0.9, 0.4], [0.7, 0.6, 0.9], [0.5, 0.7, 0.5, 0.8]]
    assert forgetting(matrix) == pytest.approx((0.4 - 0.1 + 0.4) / 3)
    assert forgetting([[0.8]]) == 0.0


def test_class_means_are_unit_means_of_unit_features() -> None:
    features = np.array([[10.0, 0.0], [0.0, 0.1], [3.0, 4.0], [0.0, 0.0]], np.float32)
    means = class_means(features, np.array([5, 5, 2, 2]), [2, 5])
    assert means.dtype == np.float64
    assert means == pytest.approx(np.array([[0.6, 0.8], [math.sqrt(0.5), math.sqrt(0.5)]]), abs=1e-15)
    with pytest.raises(ValueError, match="class 7 has no features"):
        class_means(features, np.array([5, 5, 2, 2]), [2, 7])


def test_mirror_images_count_as_further_samples() -> None:
    rng = np.random.default_rng(0)
    features, mirrored = rng.normal(size=(2, 12, 3)).astype(np.float32)
    labels = np.arange(12) % 3
    both = class_means(np.concatenate([features, mirrored]), np.concatenate([labels, labels]), range(3))
    assert np.array_equal(class_means(features, labels, range(3), mirrored), both)


def test_nearest_mean_is_by_distance_to_unit_means(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    means = class_means(rng.normal(size=(40, 6)), np.arange(40) % 5, range(5))
    features = rng.normal(size=(200, 6)).astype(np.float32)
    distances = [[float(np.sum((f - m) ** 2)) for m in means] for f in features]
    found = nearest_mean(features, means)
    assert found.tolist() == [row.index(min(row)) for row in distances]
    assert nearest_mean(3 * features, means).tolist() == found.tolist()
    assert len(set(found.tolist())) == 5
    monkeypatch.setattr(metrics, "BLOCK", 7)
    assert nearest_mean(features, means).tolist() == found.tolist()


def test_interval_by_students_t() -> None:
    mean, half = mean_interval([1.0, 2.0, 3.0])
    assert mean == 2.0
    assert half == pytest.approx(4.302652729749464 / math.sqrt(3), rel=1e-9)  # the table's t for 2 degrees of freedom
    mean, half = mean_interval([0.4, 0.6, 0.5, 0.5, 0.5])
    assert mean == pytest.approx(0.5)
    assert half == pytest.approx(2.7764451052 * math.sqrt(0.005 / 5), rel=1e-9)
    assert mean_interval([0.3]) == (0.3, None)
