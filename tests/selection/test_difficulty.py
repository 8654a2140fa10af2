"""Class entropy by hand, and the harder half."""

import math

import numpy as np
import pytest

from remem.selection import difficulty as module
from remem.selection.difficulty import class_entropy, split


def test_entropy_by_hand() -> None:
    # Class 0: two equal logits, log 2, and odds 3 : 1. Class 2: certain. Class 1 has no samples.
    logits = np.array([[7.0, 7.0], [0.0, math.log(3)], [0.0, 900.0]])
    entropy = class_entropy(logits, np.array([0, 0, 2]))
    odds = -0.75 * math.log(0.75) - 0.25 * math.log(0.25)
    assert list(entropy) == [0, 2]
    assert entropy[0] == pytest.approx((math.log(2) + odds) / 2, rel=1e-14)
    assert entropy[2] == 0.0


def test_entropy_is_stable_for_large_logits_of_any_precision() -> None:
    logits = np.array([[3e4, 3e4, -3e4], [-1e5, -1e5, -1e5]], np.float32)
    entropy = class_entropy(logits, np.array([0, 1]))
    assert entropy[0] == pytest.approx(math.log(2), rel=1e-14)
    assert entropy[1] == pytest.approx(math.log(3), rel=1e-14)


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    logits, labels = rng.standard_normal((40, 5)).astype(np.float32), rng.integers(0, 4, 40)
    whole = class_entropy(logits, labels)
    monkeypatch.setattr(module, "BLOCK", 7)
    assert class_entropy(logits, labels) == whole


def test_the_input_is_not_changed() -> None:
    logits = np.array([[1.0, 2.0]])
    class_entropy(logits, np.array([0]))
    assert logits.tolist() == [[1.0, 2.0]]


@pytest.mark.parametrize(
    ("entropy", "hard", "easy"),
    [
        ({0: 0.1, 1: 0.9, 2: 0.5, 3: 0.7}, (1, 3), (0, 2)),
        ({4: 0.1, 5: 0.9, 6: 0.5}, (5, 6), (4,)),
        ({9: 0.3, 7: 0.3, 8: 0.3}, (7, 8), (9,)),  # ties by class order
        ({5: 0.2}, (5,), ()),
    ],
)
def test_the_harder_half(entropy: dict[int, float], hard: tuple[int, ...], easy: tuple[int, ...]) -> None:
    assert split(entropy) == (hard, easy)
