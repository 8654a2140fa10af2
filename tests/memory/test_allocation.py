"""allocation.py: shares, decisions and quotas by hand, and apportioning against a plain version with fractions."""

from fractions import Fraction

import numpy as np
import pytest

from remem.action import Action, Decision, State
from remem.errors import InputError
from remem.memory.allocation import allocate, apportion, decide, feasible_tenths, make_state
from remem.memory.budget import Budget, PhaseFacts
from remem.types import Group


def cifar_state(phase: int = 1, old_tenths: int = 0, budget: int = 7000) -> State:
    old = 50 + 10 * (phase - 1)
    feasible = feasible_tenths(budget, old_classes=old, new_classes=10, arriving=5000)
    return State(phase, 10, old, old_tenths, budget, 2000, 5000, feasible, splits=True)


def tiny_state(budget: int, old: int, new: int, *, arriving: int = 1000, phase: int = 1, old_tenths: int = 0) -> State:
    feasible = feasible_tenths(budget, old_classes=old, new_classes=new, arriving=arriving)
    return State(phase, new, old, old_tenths, budget, 20, arriving, feasible, splits=False)


def plain_apportion(total: int, weights: list[int], lower: list[int], upper: list[int]) -> list[int]:
    """The definition itself: find lam on the broken line of sum(clip(lam w, l, u)), floor, hand out the rest."""
    items = list(zip(weights, lower, upper, strict=True))

    def shares(lam: Fraction) -> list[Fraction]:
        return [min(max(lam * w, Fraction(low)), Fraction(high)) for w, low, high in items]

    corners = sorted({Fraction(bound, w) for w, low, high in items for bound in (low, high)})
    lam = max(corner for corner in corners if sum(shares(corner)) <= total)
    given = sum(shares(lam))
    if given < total:
        following = min(corner for corner in corners if corner > lam)
        lam += (following - lam) * (total - given) / (sum(shares(following)) - given)
    real = shares(lam)
    quotas = [int(share) for share in real]
    order = sorted(range(len(real)), key=lambda i: (quotas[i] - real[i], i))
    for i in order[: total - sum(quotas)]:
        quotas[i] += 1
    return quotas


def test_apportion_by_hand() -> None:
    free = [10**6] * 5
    assert apportion(10, [1, 1, 1], [0] * 3, free[:3]) == [4, 3, 3]
    assert apportion(10, [3, 2, 2], [0] * 3, free[:3]) == [4, 3, 3]  # 4.29, 2.86, 2.86
    assert apportion(7, [5, 1, 1], [1] * 3, free[:3]) == [5, 1, 1]
    assert apportion(10, [8, 1, 1], [3] * 3, free[:3]) == [4, 3, 3]
    assert apportion(10, [1, 1, 1], [0] * 3, [1, 20, 20]) == [1, 5, 4]
    # lam = 4 raises nobody past 6, lifts the second to its floor and fills the first: 2 + 5 + 4 + 4.
    assert apportion(15, [1, 1, 1, 1], [0, 5, 0, 0], [2, 9, 6, 6]) == [2, 5, 4, 4]
    assert apportion(0, [], [], []) == []


def test_apportion_equals_the_plain_version() -> None:
    rng = np.random.default_rng(0)
    for _ in range(3000):
        n = int(rng.integers(1, 8))
        weights = rng.integers(1, int(rng.choice([2, 4, 100])), n).tolist()
        lower = rng.integers(0, 6, n).tolist()
        upper = [
            low + int(extra) for low, extra in zip(lower, rng.integers(0, int(rng.choice([3, 40])), n), strict=True)
        ]
        total = int(rng.integers(sum(lower), sum(upper) + 1))
        quotas = apportion(total, weights, lower, upper)
        assert quotas == plain_apportion(total, weights, lower, upper), (total, weights, lower, upper)
        assert sum(quotas) == total
        assert all(low <= q <= high for low, q, high in zip(lower, quotas, upper, strict=True))


def test_apportion_is_proportional_within_one_when_no_bound_binds() -> None:
    rng = np.random.default_rng(1)
    for _ in range(300):
        weights = rng.integers(1, 1000, int(rng.integers(1, 30))).tolist()
        total = int(rng.integers(0, 10**6))
        quotas = apportion(total, weights, [0] * len(weights), [total] * len(weights))
        ideals = [Fraction(total * w, sum(weights)) for w in weights]
        assert sum(quotas) == total
        assert all(abs(q - ideal) < 1 for q, ideal in zip(quotas, ideals, strict=True))


@pytest.mark.parametrize(("total", "weights"), [(1, [1, 1]), (11, [1, 1]), (5, [0, 1])])
def test_apportion_refuses_what_has_no_answer(total: int, weights: list[int]) -> None:
    with pytest.raises(ValueError, match="cannot apportion"):
        apportion(total, weights, [1, 1], [5, 5])


class CountingWeight(int):
    """A weight that counts the multiplications with it."""

    multiplied = 0

    def __rmul__(self, other: int) -> int:
        CountingWeight.multiplied += 1
        return int(other) * int(self)


def test_apportion_takes_few_passes_over_many_classes() -> None:
    rng = np.random.default_rng(2)
    upper = rng.integers(1, 1300, 500).tolist()
    before = CountingWeight.multiplied
    quotas = apportion(sum(upper) // 2, [CountingWeight(1)] * 500, [1] * 500, upper)
    assert quotas == apportion(sum(upper) // 2, [1] * 500, [1] * 500, upper)
    assert 0 < CountingWeight.multiplied - before < 50 * 500  # about eight passes; one per class would be 500


def test_feasible_shares_of_the_papers_settings() -> None:
    # 5000 arrive: 0.2 leaves 5600, 0.3 only 4900, so 0.1 would leave a whole step empty.
    assert feasible_tenths(7000, old_classes=50, new_classes=10, arriving=5000) == (2, 3, 4, 5, 6, 7, 8, 9)
    # 1000 arrive: 0.6 leaves 1200, 0.7 only 900.
    assert feasible_tenths(3000, old_classes=50, new_classes=2, arriving=1000) == (6, 7, 8, 9)
    # 0.2 leaves exactly the 5600 that arrive.
    assert feasible_tenths(7000, old_classes=50, new_classes=10, arriving=5600) == (2, 3, 4, 5, 6, 7, 8, 9)
    assert feasible_tenths(7000, old_classes=50, new_classes=10, arriving=9000) == tuple(range(1, 10))
    assert feasible_tenths(10**6, old_classes=50, new_classes=10, arriving=500) == (9,)


def test_feasible_shares_leave_one_sample_for_every_class() -> None:
    # |M_old| of 25 samples: 3 5 8 10 13 15 18 20 23 for 0.1 .. 0.9.
    assert feasible_tenths(25, old_classes=8, new_classes=5, arriving=1000) == (3, 4, 5, 6, 7, 8)
    assert feasible_tenths(25, old_classes=13, new_classes=12, arriving=1000) == (5,)
    assert feasible_tenths(25, old_classes=24, new_classes=1, arriving=1000) == ()


def test_states_by_hand() -> None:
    """CIFAR-100 with N = 5, M = 7000: before phase 2 there are 60 old classes, and 10 bring 5000 samples."""
    fixed = make_state(Budget("fixed", 7000, 2000), [50, 10], PhaseFacts(10, 5000), 6)
    assert fixed == State(2, 10, 60, 6, 7000, 2000, 5000, (2, 3, 4, 5, 6, 7, 8, 9), splits=True)
    growing = make_state(Budget("growing", 20, 0), [50, 1], PhaseFacts(10, 5000), 0)
    assert (growing.budget, growing.exemplars) == (51 * 20 + 5000, 51 * 20)
    assert not growing.splits  # one class in phase 1


def test_a_share_is_carried_out() -> None:
    assert decide(cifar_state(), Action(old_tenths=6, level2_tenths=7)) == Decision(4200, 0.6, 6, 0.6, 0.7, False)
    later = decide(cifar_state(phase=2, old_tenths=6), Action(old_tenths=5))
    assert later == Decision(3500, 0.5, 5, -0.1, 0.5, False)


def test_level_one_adds_up_to_the_nominal_share() -> None:
    nominal, total = 0, 0.0
    for phase, tenths in enumerate([3, 4, 5, 4, 4], start=1):
        decision = decide(cifar_state(phase, nominal), Action(old_tenths=tenths))
        nominal = decision.old_tenths
        assert decision.level1 is not None
        total += decision.level1
    assert nominal == 4
    assert total == pytest.approx(0.4)


def test_an_infeasible_share_becomes_the_nearest_feasible_one() -> None:
    assert decide(cifar_state(), Action(old_tenths=1)) == Decision(1400, 0.2, 2, 0.2, 0.5, True)
    assert decide(cifar_state(), Action(old_tenths=10)) == Decision(6300, 0.9, 9, 0.9, 0.5, True)
    two = State(2, 1, 5, 4, 100, 20, 50, feasible=(3, 7), splits=True)
    assert decide(two, Action(old_tenths=5)) == Decision(30, 0.3, 3, -0.1, 0.5, True)  # a tie: the lower


def test_where_no_share_is_feasible_the_nearest_old_memory_is_used() -> None:
    decision = decide(tiny_state(25, 24, 1), Action(old_tenths=5))
    assert decision == Decision(24, 0.9, 9, 0.9, None, True)
    # 12 old and 13 new classes of 25 exactly; 10 x 12 / 25 = 4.8.
    assert decide(tiny_state(25, 12, 13), Action(old_tenths=9)) == Decision(12, 0.5, 5, 0.5, None, True)


def test_exact_numbers_are_clipped_to_the_floors() -> None:
    assert decide(cifar_state(), Action(old_total=2000)) == Decision(2000, 2 / 7, 3, None, 0.5, False)
    assert decide(cifar_state(), Action(old_total=0)) == Decision(50, 50 / 7000, 1, None, 0.5, True)
    assert decide(cifar_state(), Action(old_total=7000)) == Decision(6990, 6990 / 7000, 9, None, 0.5, True)


def test_an_exact_number_takes_precedence_over_the_share() -> None:
    exact = decide(cifar_state(), Action(old_tenths=9, old_total=2000))
    assert exact == decide(cifar_state(), Action(old_total=2000))
    assert decide(cifar_state(), Action()) == Decision(3500, 0.5, 5, 0.5, 0.5, False)  # half and half


@pytest.mark.parametrize("level2", [0, 10, -1])
def test_splits_outside_the_grid_are_refused(level2: int) -> None:
    for action in (Action(5, level2), Action(level2_tenths=level2, old_total=2000)):
        with pytest.raises(InputError, match=f"action: got level 2 of {level2} tenths, expected 1 to 9"):
            decide(cifar_state(), action)


def test_a_budget_below_the_number_of_classes_is_refused() -> None:
    with pytest.raises(InputError, match="24 samples are less than one for each of the 25 classes"):
        decide(tiny_state(24, 20, 5), Action(old_tenths=5))


def even_groups(sizes: list[int]) -> list[Group]:
    groups, start = [], 0
    for size in sizes:
        middle = start + (size + 1) // 2
        groups.append(Group(tuple(range(start, middle)), tuple(range(middle, start + size))))
        start += size
    return groups


def test_cifar_under_fixed_and_static_shares() -> None:
    arriving = dict.fromkeys(range(50, 60), 500)
    held = dict.fromkeys(range(50), 500)
    fixed = allocate(7000, decide(cifar_state(), Action(6)), even_groups([50]), held=held, arriving=arriving)
    assert fixed.old == dict.fromkeys(range(50), 84)
    assert fixed.new == dict.fromkeys(range(50, 60), 280)
    static = allocate(
        7000, decide(cifar_state(), Action(old_total=2000)), even_groups([50]), held=held, arriving=arriving
    )
    assert static.old == dict.fromkeys(range(50), 40)
    assert static.new == dict.fromkeys(range(50, 60), 500)

    held = dict(fixed.old) | dict(fixed.new)
    state = cifar_state(phase=2, old_tenths=6)
    arriving = dict.fromkeys(range(60, 70), 500)
    second = allocate(7000, decide(state, Action(6)), even_groups([50, 10]), held=held, arriving=arriving)
    assert second.old == dict.fromkeys(range(60), 70)
    assert second.budget == 7000


def test_what_new_data_cannot_use_goes_to_old_classes() -> None:
    # 0.2 of 7000 leaves 5600 for 5000 new samples; the other 600 keep 2000 of the old.
    decision = decide(cifar_state(), Action(old_tenths=2))
    held = dict.fromkeys(range(50), 500)
    allocation = allocate(7000, decision, even_groups([50]), held=held, arriving=dict.fromkeys(range(50, 60), 500))
    assert decision.old_total == 1400
    assert allocation.old == dict.fromkeys(range(50), 40)
    assert sum(allocation.new.values()) == 5000


def test_what_old_classes_cannot_use_goes_to_new_data() -> None:
    decision = Decision(60, 0.6, 6, 0.6, 0.5, False)
    allocation = allocate(100, decision, even_groups([2]), held={0: 7, 1: 9}, arriving={2: 90, 3: 30})
    assert allocation.old == {0: 7, 1: 9}
    assert allocation.new == {2: 54, 3: 30}


def test_level_two_splits_every_old_phase_between_its_halves() -> None:
    # Phase 0: weights 0.7 x 2 to 0.3 x 2 of 40; phase 1 (three classes, a2 = 0.5) stays even: 30 of 70 in three.
    groups = [Group((1, 3), (0, 2), level2_tenths=7), Group((4, 6), (5,), level2_tenths=5)]
    decision = Decision(70, 0.7, 7, 0.7, 0.5, False)
    allocation = allocate(100, decision, groups, held=dict.fromkeys(range(7), 50), arriving={7: 50})
    assert allocation.old == {0: 6, 1: 14, 2: 6, 3: 14, 4: 10, 5: 10, 6: 10}
    assert allocation.new == {7: 30}


def test_full_halves_hand_on_what_they_cannot_use() -> None:
    # The hard half would get 36 of 40 but holds 10; the easy half takes 30 of its 100.
    groups = [Group((0,), (1,), level2_tenths=9)]
    decision = Decision(40, 0.4, 4, 0.4, 0.9, False)
    allocation = allocate(100, decision, groups, held={0: 10, 1: 100}, arriving={2: 500})
    assert allocation.old == {0: 10, 1: 30}
    assert allocation.new == {2: 60}


def test_ties_go_by_class_order() -> None:
    # 5 samples over the halves {1, 2} and {0, 3}: 2.5 each, the odd one to the half of class 0, there to class 0.
    groups = [Group((1, 2), (0, 3))]
    decision = Decision(5, 0.5, 5, 0.5, 0.5, False)
    allocation = allocate(10, decision, groups, held=dict.fromkeys(range(4), 9), arriving={4: 50, 5: 50})
    assert allocation.old == {0: 2, 1: 1, 2: 1, 3: 1}
    assert allocation.new == {4: 3, 5: 2}


def test_a_class_that_returns_has_a_quota_among_the_old_and_one_among_the_new() -> None:
    """Twelve samples, half for old classes: 3 + 3 for classes 0 and 1, and 6 over classes 0, 2 and 3, evenly."""
    decision = Decision(6, 0.5, 5, 0.5, None, clamped=False)
    found = allocate(12, decision, [Group((0,), (1,))], held={0: 5, 1: 5}, arriving={0: 9, 2: 9, 3: 9})
    assert found.old == {0: 3, 1: 3}
    assert found.new == {0: 2, 2: 2, 3: 2}


def test_only_unseen_classes_are_sure_of_a_sample_among_the_new() -> None:
    decision = Decision(2, 0.5, 5, 0.5, None, clamped=False)
    found = allocate(3, decision, [Group((0,), (1,))], held={0: 5, 1: 5}, arriving={0: 9, 2: 9})
    assert found.new == {0: 0, 2: 1}


def test_where_nothing_arrives_the_old_classes_have_all() -> None:
    decision = Decision(3, 0.3, 3, 0.3, None, clamped=False)
    found = allocate(10, decision, [Group((0,), (1,))], held={0: 9, 1: 9}, arriving={})
    assert (found.old, found.new) == ({0: 5, 1: 5}, {})
