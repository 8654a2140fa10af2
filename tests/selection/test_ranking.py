"""Every registered selection returns a permutation of every group and uses only its own random stream."""

import numpy as np
import pytest

from remem.errors import InputError
from remem.selection.herding import herd
from remem.selection.ranking import SELECTIONS
from remem.selection.uniform import shuffle

FEATURES = np.random.default_rng(0).normal(size=(60, 5)).astype(np.float32)
GROUPS = [np.arange(20), np.arange(20, 50), np.array([55])]


def test_the_names() -> None:
    assert list(SELECTIONS) == ["herding", "uniform"]
    with pytest.raises(InputError, match="did you mean 'herding'"):
        SELECTIONS["herdin"]


@pytest.mark.parametrize("name", list(SELECTIONS))
def test_every_selection_permutes_every_group(name: str) -> None:
    ranked = SELECTIONS[name].rank(FEATURES, GROUPS, np.random.default_rng(1), 1)
    assert [sorted(order.tolist()) for order in ranked] == [group.tolist() for group in GROUPS]
    again = SELECTIONS[name].rank(FEATURES, GROUPS, np.random.default_rng(1), 1)
    assert all(np.array_equal(a, b) for a, b in zip(ranked, again, strict=True))
    assert SELECTIONS[name].summary


def test_herding_ignores_the_generator_and_uniform_ignores_features() -> None:
    herded = SELECTIONS["herding"].rank(FEATURES, GROUPS, np.random.default_rng(2), 1)
    assert all(np.array_equal(a, b) for a, b in zip(herded, herd(FEATURES, GROUPS), strict=True))
    drawn = SELECTIONS["uniform"].rank(FEATURES, GROUPS, np.random.default_rng(2), 1)
    assert all(np.array_equal(a, b) for a, b in zip(drawn, shuffle(GROUPS, np.random.default_rng(2)), strict=True))


def test_uniform_puts_every_sample_first_equally_often() -> None:
    rng = np.random.default_rng(3)
    firsts = np.bincount([int(shuffle([np.arange(4)], rng)[0][0]) for _ in range(4000)], minlength=4)
    assert np.abs(firsts - 1000).max() < 140  # five standard deviations of a binomial count
