"""Herding against simple loops in integers and fractions, including ties and duplicates."""

from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from remem.selection import herding
from remem.selection.herding import herd, herd_exact
from remem.types import IntArray


def plain_herd(vectors: list[list[int]]) -> list[int]:
    """Pick k maximises v . (k T - n S), in Python integers; the first of equals wins."""
    n, total = len(vectors), [sum(column) for column in zip(*vectors, strict=True)]
    picked_sum, order = [0] * len(total), list[int]()
    for k in range(1, n + 1):
        aim = [k * t - n * s for t, s in zip(total, picked_sum, strict=True)]
        scores = {i: sum(a * b for a, b in zip(vectors[i], aim, strict=True)) for i in range(n) if i not in order}
        best = max(scores, key=lambda i: (scores[i], -i))
        order.append(best)
        picked_sum = [s + v for s, v in zip(picked_sum, vectors[best], strict=True)]
    return order


def nearest_running_mean(vectors: list[list[int]]) -> list[int]:
    """The textbook form: squared distance between the class mean and the mean of the picks, in fractions."""
    n = len(vectors)
    mean = [Fraction(sum(column), n) for column in zip(*vectors, strict=True)]
    order: list[int] = []
    for k in range(1, n + 1):
        gaps = {}
        for i in (i for i in range(n) if i not in order):
            running = [Fraction(sum(column), k) for column in zip(*[vectors[j] for j in [*order, i]], strict=True)]
            gaps[i] = sum((m - r) ** 2 for m, r in zip(mean, running, strict=True))
        order.append(min(gaps, key=lambda i: (gaps[i], i)))
    return order


def unit_steps(features: NDArray[np.floating], bits: int = 16) -> list[list[int]]:
    """Unit vectors in steps of 2^-bits, row by row."""
    result = []
    for row in features.astype(np.float64):
        norm = float(np.sqrt(np.sum(row * row)))
        result.append([round(float(x) / norm * 2**bits) if norm else 0 for x in row])
    return result


def test_by_hand() -> None:
    # T = (1, 1), n = 4. k = 1: scores 1 1 1 -1. k = 2: aim (-2, 2), 1 and 3 tie. k = 3: aim (-1, -1).
    features = np.array([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0], [-0.5, 0.0]])
    assert herd(features, [np.arange(4)])[0].tolist() == [0, 1, 3, 2]


def test_whole_numbers_equal_the_plain_loop_with_many_ties() -> None:
    rng = np.random.default_rng(0)
    for _ in range(150):
        classes, n, d = (int(x) for x in rng.integers(1, [4, 16, 5]))
        units = rng.integers(-2, 3, (classes, n, d)).astype(np.float64)
        picks = herd_exact(units)
        for one, order in zip(units, picks, strict=True):
            assert order.tolist() == plain_herd(one.astype(int).tolist())


def test_fractions_on_a_grid_need_no_rounding() -> None:
    rng = np.random.default_rng(1)
    steps = rng.integers(-5000, 5000, (1, 60, 8))
    assert herd_exact(steps / 2.0**12)[0].tolist() == plain_herd(steps[0].tolist())


def test_for_equal_lengths_it_is_the_nearest_running_mean() -> None:
    rng = np.random.default_rng(2)
    circle = np.array([[3, 4], [4, 3], [5, 0], [0, 5], [-3, 4], [4, -3], [-4, -3], [0, -5]])  # all of length 5
    for _ in range(60):
        vectors = circle[rng.integers(0, len(circle), int(rng.integers(1, 14)))]
        order = herd_exact(vectors[None].astype(np.float64))[0].tolist()
        assert order == nearest_running_mean(vectors.tolist())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_features_equal_the_plain_loop_on_rounded_unit_vectors(dtype: type[np.floating]) -> None:
    rng = np.random.default_rng(3)
    features = np.maximum(rng.normal(0.3, 1, (150, 12)), 0).astype(dtype)
    features[40:60] = features[20:40]  # duplicates are real ties
    features[60:70] = 4 * features[70:80]  # so are multiples
    features[5] = 0
    groups = [np.arange(0, 80), np.arange(80, 81), np.arange(149, 80, -1), np.array([], np.int64)]
    ranked = herd(features, groups)
    for group, order in zip(groups, ranked, strict=True):
        assert order.dtype == np.int64
        assert order.tolist() == group[plain_herd(unit_steps(features[group]))].tolist()


def test_equals_stay_in_group_order() -> None:
    features = np.ones((6, 3), np.float32)
    assert herd(features, [np.array([4, 1, 5, 0])])[0].tolist() == [4, 1, 5, 0]


@pytest.mark.parametrize(("n", "far"), [(5, 1_000_003), (7, 2_000_003), (11, 1_000_003)])
def test_ties_hold_where_float64_rounds_too(n: int, far: int) -> None:
    """Each sample is one step larger in its own feature, so that all are equally good and far from zero."""
    units = far + np.eye(n)  # 4 n^2 |v|^2 < 2^53, and an n-th is no binary fraction
    assert herd_exact(units[None])[0].tolist() == list(range(n))


def test_zero_features_do_not_divide_by_zero() -> None:
    assert herd(np.zeros((4, 3)), [np.arange(4)])[0].tolist() == [0, 1, 2, 3]


def test_a_limit_cuts_the_same_ranking() -> None:
    features = np.random.default_rng(4).normal(size=(50, 6))
    whole = herd(features, [np.arange(30), np.arange(30, 50)])
    short = herd(features, [np.arange(30), np.arange(30, 50)], limit=25)
    assert [len(order) for order in short] == [25, 20]
    assert all(np.array_equal(a[:25], b) for a, b in zip(whole, short, strict=True))


def test_chunks_threads_and_order_of_classes_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    features = rng.normal(size=(400, 16)).astype(np.float32)
    groups = [np.sort(g) for g in np.split(rng.permutation(400), [40, 80, 120, 200, 201, 280])]
    whole = herd(features, groups)
    backwards = herd(features, groups[::-1])[::-1]
    monkeypatch.setattr(herding, "_CHUNK_BYTES", 1)
    one_by_one = herd(features, groups)
    monkeypatch.setattr(herding, "_WORTH_A_THREAD", 1)
    by_threads = herd(features, groups, threads=3)
    for other in (backwards, one_by_one, by_threads):
        assert all(np.array_equal(a, b) for a, b in zip(whole, other, strict=True))


def by_distances(units: IntArray, picks: int) -> list[int]:
    """Computes all distances from k T to n (S + v) for every pick in integers; the first of equals wins."""
    n, total, left, places = len(units), units.sum(axis=0), units, list(range(len(units)))
    picked, order = np.zeros_like(total), list[int]()
    for k in range(1, picks + 1):
        best = int(((k * total - n * (picked + left)) ** 2).sum(axis=1).argmin())
        picked = picked + left[best]
        order.append(places.pop(best))
        left = np.delete(left, best, axis=0)
    return order


def by_products(units: IntArray, picks: int) -> list[int]:
    """One matrix-vector product per pick, in integers."""
    n, total = len(units), units.sum(axis=0)
    aim, free, order = total, np.ones(n, bool), list[int]()
    for _ in range(picks):
        scores = np.where(free, units @ aim, np.iinfo(np.int64).min)
        order.append(int(scores.argmax()))
        free[order[-1]] = False
        aim = aim + total - n * units[order[-1]]
    return order


def test_equal_selections_on_features_rounded_to_a_grid() -> None:
    """500 samples of 64 features in steps of 2^-12, 200 picks; equal lengths make distances and products agree."""
    rng = np.random.default_rng(8)
    lengths = rng.integers(0, 1000, 64)
    for ties in (0, 250):
        units = rng.choice([-1, 1], (2, 500, 64)) * rng.permuted(np.tile(lengths, (2, 500, 1)), axis=2)
        units[:, 500 - ties :] = units[:, :ties]  # duplicates
        picks = herd_exact(units / 2.0**12, 200)
        for one, order in zip(units, picks, strict=True):
            assert order.tolist() == by_distances(one, 200) == by_products(one, 200)


def test_scores_that_float32_cannot_distinguish_are_ranked_exactly() -> None:
    """Groups of four samples differ in one small feature, which changes scores above 2^30 by a few units."""
    rng = np.random.default_rng(9)
    units = np.repeat(rng.integers(-30_000, 30_000, (2, 50, 6)), 4, axis=1)
    units[:, :, 0] = rng.integers(-2, 3, (2, 200))
    picks = herd_exact(units.astype(np.float64))
    for one, order in zip(units, picks, strict=True):
        assert order.tolist() == by_products(one, len(one))


def test_chunks_hold_every_group_once_and_are_balanced_over_threads() -> None:
    sizes = [500] * 100 + [0] + [7] * 3
    for threads in (1, 2, 3):
        chunks = list(herding._chunks(sizes, 64, threads))
        assert sorted(index for chunk in chunks for index in chunk) == [*range(100), *range(101, 104)]
        large = [len(chunk) for chunk in chunks if sizes[chunk[0]] == 500]
        assert len(large) % threads == 0
        assert max(large) - min(large) <= 1
        assert [chunk for chunk in chunks if sizes[chunk[0]] == 7] == [[101, 102, 103]]


def test_only_ties_are_in_doubt() -> None:
    """Scores of the first class are 0.5 and 8, those of the second are equal; the last sample has no rival."""
    units = np.array([[[0.0, 1.0], [4.0, 0.0]], [[1.0, 1.0], [1.0, 1.0]]])
    picks, in_doubt = herding._RoughHerding(units).pick(np.arange(2))
    assert picks.tolist() == [[1, 0], [0, 1]]
    assert in_doubt.tolist() == [[False, False], [True, False]]


def test_an_aim_of_zero_leaves_a_tie_in_doubt() -> None:
    """The mean is (1, 0). After the pick (2, 0), both others are equally good."""
    units = np.array([[[2.0, 0.0], [0.5, 1.0], [0.5, -1.0]]])
    picks, in_doubt = herding._RoughHerding(units).pick(np.arange(3))
    assert picks.tolist() == [[0, 1, 2]]
    assert in_doubt.tolist() == [[False, True, False]]


def test_error_bounds_by_hand() -> None:
    """The longest samples have lengths 5 and 1, the means 2.5 and 0.5. A difference has twice the error of a score."""
    units = np.array([[[3.0, 4.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 1.0]]])  # n = 2, d = 2
    by_length, by_step = herding._error_bounds(units, units.mean(axis=1))
    roundings = np.array([2 * (2 + 4) * 5, 2 * (2 + 4) * 1]) / 2**24  # d + 4 of float32
    assert by_length == pytest.approx(roundings, rel=0.02)
    assert (by_length > roundings).all()
    assert by_step == pytest.approx(np.array([2 * (2 + 2) * 5 * 2.5, 2 * (2 + 2) * 1 * 0.5]) / 2**46)  # float64, x 100


@pytest.mark.parametrize(
    ("size", "bits"), [(1, 16), (724, 16), (725, 15), (1500, 14), (2**24, 1), (2**25, 0), (2**40, 0)]
)
def test_the_grid_by_hand(size: int, bits: int) -> None:
    """4 size^2 4^bits is at most 2^53: for 16 bits, size^2 is at most 2^19, and 724^2 = 524176 < 524288 < 725^2."""
    assert herding._bits(size) == bits


def test_large_classes_use_a_coarser_grid_and_stay_exact() -> None:
    rng = np.random.default_rng(6)
    features = rng.normal(1, 0.2, (1500, 4))
    order = herd(features, [np.arange(1500)], limit=40)[0]
    vectors = np.array(unit_steps(features, bits=14), dtype=object)  # 4 x 1500^2 x 4^14 < 2^53 < 4 x 1500^2 x 4^15
    total, picked, left = vectors.sum(axis=0), 0 * vectors[0], list(range(1500))
    for k, found in enumerate(order.tolist(), start=1):
        scores = (vectors[left] * (k * total - 1500 * picked)).sum(axis=1).tolist()
        best = left[scores.index(max(scores))]
        assert found == best
        left.remove(best)
        picked = picked + vectors[best]


def test_diverged_features_are_refused() -> None:
    with pytest.raises(ValueError, match="diverged"):
        herd(np.array([[1.0, np.nan]]), [np.array([0])])


def test_herded_prefixes_have_better_means_than_random_ones() -> None:
    rng = np.random.default_rng(7)
    features = rng.normal(0.5, 1, (300, 20))
    units = features / np.linalg.norm(features, axis=1, keepdims=True)

    def gap(chosen: IntArray) -> float:
        return float(np.linalg.norm(units.mean(axis=0) - units[chosen].mean(axis=0)))

    herded = herd(features, [np.arange(300)])[0]
    chance = min(gap(rng.permutation(300)[:20]) for _ in range(50))
    assert gap(herded[:20]) < chance / 3
