"""The scale of the nearest-mean readout, against cross-entropies computed one sample at a time."""

import math

import numpy as np
import pytest

from remem.evaluation import calibration
from remem.evaluation.calibration import LEAST, MOST, PLAIN_SCALE, fit_scale, similarities, softmax
from remem.evaluation.metrics import FloatArray, class_means, nearest_mean
from remem.types import IntArray


def clouds(classes: int, counts: list[int], spread: float, seed: int = 0) -> tuple[FloatArray, IntArray]:
    """Features around one direction per class."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(99).standard_normal((classes, 5))
    labels = np.repeat(np.arange(classes), counts)
    return centres[labels] + spread * rng.standard_normal((len(labels), 5)), labels


def unit(vector: FloatArray) -> FloatArray:
    result: FloatArray = vector / math.sqrt(sum(value**2 for value in vector))
    return result


def cross_entropy(
    scale: float, features: FloatArray, labels: IntArray, means: FloatArray, mirrored: FloatArray | None = None
) -> float:
    """Every class counts the same; a sample's own class has the mean of its other samples."""
    total, used = dict.fromkeys(range(len(means)), 0.0), [k for k in range(len(means)) if (labels == k).sum() > 1]
    rest = 1 / (sum(int((labels == k).sum()) for k in used) + 2)
    for place, (feature, label) in enumerate(zip(features, labels.tolist(), strict=True)):
        others = [k for k in np.flatnonzero(labels == label) if k != place]
        if not others:
            continue
        views = [unit(features[k]) for k in others] + ([] if mirrored is None else [unit(mirrored[k]) for k in others])
        own = unit(np.sum(views, axis=0))
        scores = [float(unit(feature) @ (own if k == label else mean)) for k, mean in enumerate(means)]
        norm = math.log(sum(math.exp(scale * score) for score in scores))
        targets = [1 - rest if k == label else rest / (len(means) - 1) for k in range(len(means))]
        loss = sum(target * (norm - scale * score) for target, score in zip(targets, scores, strict=True))
        total[label] += loss / int((labels == label).sum())
    return sum(total.values()) / len(used)


@pytest.mark.parametrize(("counts", "spread"), [([6, 6, 6], 1.0), ([3, 9, 1], 0.7), ([5, 5, 5], 2.5)])
@pytest.mark.parametrize("mirror", [False, True])
def test_the_scale_has_the_least_cross_entropy(counts: list[int], spread: float, mirror: bool) -> None:
    features, labels = clouds(3, counts, spread)
    mirrored = clouds(3, counts, spread, seed=1)[0] if mirror else None
    means = class_means(features, labels, range(3), mirrored)
    scale = fit_scale(features, labels, means, mirrored)
    assert LEAST < scale < MOST
    best = cross_entropy(scale, features, labels, means, mirrored)
    for factor in (0.5, 0.9, 0.99, 1.01, 1.1, 2):
        assert cross_entropy(factor * scale, features, labels, means, mirrored) > best


def test_the_length_of_features_does_not_matter() -> None:
    features, labels = clouds(3, [6, 6, 6], 1.0)
    means = class_means(features, labels, range(3))
    lengths = np.linspace(0.1, 50, len(features))[:, None]
    assert fit_scale(lengths * features, labels, means) == fit_scale(features, labels, means)


def test_separable_classes_have_a_finite_scale_that_grows_with_the_evidence() -> None:
    scales = []
    for count in (5, 50, 500):
        features, labels = clouds(3, [count] * 3, 0.05)
        scales.append(fit_scale(features, labels, class_means(features, labels, range(3))))
    assert scales == sorted(scales)
    assert PLAIN_SCALE < scales[0] < scales[-1] < MOST


def test_features_that_say_nothing_give_almost_equal_probabilities() -> None:
    features, labels = clouds(4, [50] * 4, 1000.0)
    means = class_means(features, labels, range(4))
    chances = softmax(fit_scale(features, labels, means) * similarities(features, means))
    assert chances.max() < 0.5


def test_without_evidence_the_scale_is_the_plain_one() -> None:
    features, labels = clouds(3, [1, 1, 1], 1.0)
    assert fit_scale(features, labels, class_means(features, labels, range(3))) == PLAIN_SCALE
    features, labels = clouds(1, [9], 1.0)
    assert fit_scale(features, labels, class_means(features, labels, range(1))) == PLAIN_SCALE


def test_probabilities_of_new_samples_are_about_right() -> None:
    """What a run would show: at the plain scale right answers read 10 % to 30 %, and many more of them are right."""
    features, labels = clouds(10, [20] * 10, 0.8)
    means = class_means(features, labels, range(10))
    scale = fit_scale(features, labels, means)
    new, truth = clouds(10, [200] * 10, 0.8, seed=1)
    right = float(np.mean(nearest_mean(new, means) == truth))
    sure = float(softmax(scale * similarities(new, means)).max(axis=1).mean())
    plain = float(softmax(PLAIN_SCALE * similarities(new, means)).max(axis=1).mean())
    assert abs(sure - right) < 0.1
    assert plain < right - 0.3


def test_of_many_samples_a_part_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    features, labels = clouds(3, [300] * 3, 1.0)
    means = class_means(features, labels, range(3))
    whole = fit_scale(features, labels, means)
    monkeypatch.setattr(calibration, "LARGEST", 300)
    assert fit_scale(features, labels, means) == pytest.approx(whole, rel=0.3)


def test_softmax_by_hand() -> None:
    values = np.array([[0.0, math.log(3)], [1000.0, 1000.0]], np.float32)
    assert softmax(values) == pytest.approx(np.array([[0.25, 0.75], [0.5, 0.5]]))
