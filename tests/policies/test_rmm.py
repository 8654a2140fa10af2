"""The two-level policy: uniform before training, masked, and its log-probabilities against a plain version."""

import math

import numpy as np
import pytest
import torch

from plain_policy import plain_chances, plain_entropy, plain_log_prob
from remem.action import State
from remem.memory.allocation import decide, feasible_tenths
from remem.policies.rmm import SHARES, Choice, PolicySettings, TwoLevelPolicy


def state(phase: int = 1, *, old_tenths: int = 0, feasible: tuple[int, ...] = SHARES, splits: bool = True) -> State:
    return State(phase, 10, 40 + 10 * phase, old_tenths, 7000, 2000, 5000, feasible, splits)


def perturbed(seed: int = 0, levels: int = 2) -> TwoLevelPolicy:
    """A policy that is not uniform any more, in float64."""
    policy = TwoLevelPolicy(PolicySettings(levels=levels), seed=seed).double()
    draws = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=draws, dtype=torch.float64))
    return policy


def test_untrained_is_uniform_over_what_is_feasible() -> None:
    policy = TwoLevelPolicy()
    first = Choice((0.2, 0.0), True, tuple(t >= 3 for t in SHARES), 4, 2)
    later = Choice((0.1, 0.6), False, (True, True, False), 1, None)
    expected = [math.log(1 / 7) + math.log(1 / 9), math.log(1 / 2)]
    assert policy.log_prob([first, later]).tolist() == pytest.approx(expected, abs=1e-6)


def test_hidden_units_turn_within_the_range_of_states() -> None:
    """A unit is 0 where w . s = -b. With weights in [-12, 12], this is at a point of the unit cube."""
    policy = TwoLevelPolicy(seed=3)
    assert policy.settings == PolicySettings(hidden=32, levels=2)
    for layer, inputs in ((policy.eta[0], 2), (policy.phi[0], 3)):  # both parts of the state; and the action
        assert isinstance(layer, torch.nn.Linear)
        weight, bias = layer.weight.detach(), layer.bias.detach()
        assert weight.shape == (32, inputs)
        assert 10 < weight.abs().max() <= 12
        assert (weight > 0).any()
        assert (weight < 0).any()
        assert (weight.clamp(max=0).sum(1) <= -bias).all()
        assert (-bias <= weight.clamp(min=0).sum(1)).all()


def test_the_seed_alone_decides_where_learning_starts() -> None:
    before = torch.random.get_rng_state()
    one, same, other = (TwoLevelPolicy(seed=seed).eta[0].state_dict()["weight"] for seed in (3, 3, 4))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert torch.equal(
        TwoLevelPolicy().eta[0].state_dict()["weight"], TwoLevelPolicy(seed=0).eta[0].state_dict()["weight"]
    )
    assert torch.equal(torch.random.get_rng_state(), before)


def test_ties_go_to_the_middle_share_to_no_change_and_to_an_even_split() -> None:
    policy = TwoLevelPolicy()
    action, _ = policy.choose(state())
    assert (action.old_tenths, action.level2_tenths) == (5, 5)
    action, _ = policy.choose(state(2, old_tenths=7))
    assert (action.old_tenths, action.level2_tenths) == (7, 5)
    action, _ = policy.choose(state(2, old_tenths=7, feasible=(8, 9)))
    assert action.old_tenths == 8


def test_one_level_never_splits_unevenly() -> None:
    policy = perturbed(levels=1)
    for seed in range(20):
        action, choice = policy.choose(state(), np.random.default_rng(seed))
        assert action.level2_tenths == 5
        assert choice.level2 is None


def test_nothing_feasible_costs_no_probability() -> None:
    policy = perturbed()
    action, choice = policy.choose(state(3, old_tenths=9, feasible=(2,), splits=False), np.random.default_rng(0))
    assert action.old_tenths == 9
    assert choice.level1 is None
    assert policy.log_prob([choice]).tolist() == [0.0]
    assert policy.log_prob([]).tolist() == []


def test_log_probabilities_entropies_and_chances_equal_a_plain_version() -> None:
    policy = perturbed(3)
    rng = np.random.default_rng(1)
    choices = [policy.choose(state(), rng)[1] for _ in range(5)]
    choices += [policy.choose(state(2, old_tenths=t, feasible=(3, 4, 5, 6)), rng)[1] for t in (2, 3, 5, 6, 7, 9)]
    for real, plain in ((policy.log_prob, plain_log_prob), (policy.entropy, plain_entropy)):
        assert real(choices).tolist() == pytest.approx([plain(policy, choice) for choice in choices], abs=1e-12)
    for choice, level1, level2 in zip(choices, *policy.chances(choices), strict=True):
        if choice.level1 is not None:
            expected, _ = plain_chances(policy, choice)
            assert level1[: len(expected)] == pytest.approx(expected, abs=1e-12)
        assert level2 == pytest.approx(plain_chances(policy, choice)[1], abs=1e-12)


def test_masked_sampling_equals_rejection_sampling() -> None:
    """Chi-square of both samples against each other; 4000 draws each, fixed seed; the 99.9 % quantile for 5 is 20.5."""
    policy, feasible = perturbed(7), (2, 3, 5, 6, 8, 9)
    rng = np.random.default_rng(5)
    masked = np.zeros(10)
    for _ in range(4000):
        masked[policy.choose(state(feasible=feasible), rng)[0].old_tenths] += 1
    free, _ = plain_chances(policy, Choice(state().vector(), True, (True,) * 9, 0, None))
    rejected = np.zeros(10)
    while rejected.sum() < 4000:
        share = SHARES[rng.choice(9, p=free)]
        rejected[share] += share in feasible
    assert masked[[1, 4, 7]].sum() == 0
    both = masked + rejected
    seen = both > 0
    assert ((masked - rejected)[seen] ** 2 / both[seen]).sum() < 20.5


def test_no_infeasible_action_in_10_000_random_episodes() -> None:
    rng = np.random.default_rng(0)
    policy, taken = TwoLevelPolicy(), 0
    for _ in range(10_000):
        old_tenths, old = 0, int(rng.integers(1, 30))
        for phase in (1, 2):
            new = int(rng.integers(1, 12))
            budget = int(rng.integers(old + new, 6 * (old + new) + 2))
            arriving = new * int(rng.integers(1, 20))
            feasible = feasible_tenths(budget, old_classes=old, new_classes=new, arriving=arriving)
            now = State(phase, new, old, old_tenths, budget, budget // 3, arriving, feasible, old > 1)
            action, choice = policy.choose(now, rng)
            decision = decide(now, action)
            if choice.level1 is not None:
                assert not decision.clamped
                assert action.old_tenths in feasible
                assert phase == 1 or abs(decision.old_tenths - old_tenths) <= 1
                taken += 1
            assert old <= decision.old_total <= budget - new
            old_tenths, old = decision.old_tenths, old + new
    assert taken > 10_000  # the mask does not simply forbid everything


def test_entropy_of_a_uniform_policy() -> None:
    choices = [Choice((0.2, 0.0), True, (True,) * 9, 0, 0), Choice((0.2, 0.3), False, (True, True, False), 0, None)]
    assert TwoLevelPolicy().entropy(choices).tolist() == pytest.approx([2 * math.log(9), math.log(2)], abs=1e-6)
