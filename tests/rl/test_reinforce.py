"""reinforce.py: the expected gradient is exact, baselines and logged values by hand, and a known best path is found."""

from collections.abc import Callable, Iterable, Sequence
from itertools import product

import numpy as np
import pytest
import torch

from factories import same_tensors
from plain_policy import plain_entropy, plain_log_prob
from remem.action import State
from remem.policies.network import PolicyNetwork
from remem.policies.rmm import SHARES, Choice, PolicySettings, TwoLevelPolicy
from remem.rl.reinforce import MovingAverage, Reinforce, Run, leave_one_out, objective
from remem.rl.settings import ReinforceSettings

N_CLASSES = (20, 5, 5)


def state(phase: int, old_tenths: int) -> State:
    """A small decision problem of two phases, where some shares are not feasible."""
    feasible = (2, 3, 4, 5, 6, 7) if phase == 1 else (3, 4, 5, 6)
    old = sum(N_CLASSES[:phase])
    return State(phase, N_CLASSES[phase], old, old_tenths, 100, 30, 70, feasible, splits=True)


def reward(first: int, split: int, second: int, later: int) -> float:
    """Any known function of the path: best at an old share of 6 that stays, splits of 8 and 3."""
    return 1.0 - 0.02 * ((first - 6) ** 2 + (second - 6) ** 2) - 0.005 * ((split - 8) ** 2 + (later - 3) ** 2)


def paths() -> list[Run]:
    """Every feasible path with its reward."""
    runs = []
    for share, split in product(range(9), range(9)):
        first = state(1, 0)
        if SHARES[share] not in first.feasible:
            continue
        one = Choice(first.vector(), True, tuple(t in first.feasible for t in SHARES), share, split)
        after = state(2, SHARES[share])
        allowed = tuple(SHARES[share] + c in after.reachable for c in (-1, 0, 1))
        changes: list[int | None] = [c for c in range(3) if allowed[c]] or [None]
        for change, later in product(changes, range(9)):
            two = Choice(after.vector(), False, allowed, change, later)
            second = SHARES[share] + (0 if change is None else change - 1)
            runs.append(Run("t", (one, two), (reward(SHARES[share], split + 1, second, later + 1),)))
    return runs


def perturbed(seed: int, hidden: int = 32) -> TwoLevelPolicy:
    """A policy that is not uniform any more, in float64."""
    policy = TwoLevelPolicy(PolicySettings(hidden=hidden), seed=seed).double()
    draws = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(0.5 * torch.randn(parameter.shape, generator=draws, dtype=torch.float64))
    return policy


@pytest.mark.parametrize("baseline", [0.0, 0.7])
def test_the_expected_gradient_is_exact(baseline: float) -> None:
    """All paths weighted by their probability: the trainer's own gradient equals that of the expected return."""
    policy, runs = perturbed(2), paths()
    parameters = list(policy.parameters())
    flat = [choice for run in runs for choice in run.choices]
    log_probs = policy.log_prob(flat).view(len(runs), 2).sum(1)
    assert log_probs.exp().sum().item() == pytest.approx(1.0, abs=1e-12)  # the enumeration is complete
    expected_return = (log_probs.exp() * torch.tensor([run.total for run in runs], dtype=torch.float64)).sum()
    exact = torch.autograd.grad(expected_return, parameters)
    # The trainer's objective is a mean over runs; a run counted by its probability is a reward scaled by p x runs.
    chances = log_probs.exp().detach().tolist()
    weighted = [
        Run(run.task, run.choices, ((run.total - baseline) * p * len(runs),))
        for run, p in zip(runs, chances, strict=True)
    ]
    estimate = torch.autograd.grad(objective(policy, weighted, [0.0] * len(runs)), parameters)
    for one, other in zip(exact, estimate, strict=True):
        torch.testing.assert_close(other, one, rtol=0, atol=1e-6)
    assert max(gradient.abs().max().item() for gradient in exact) > 1e-3


def test_objective_by_hand() -> None:
    """Uniform policy, two runs with one choice of 9 x 9: (R - b) log(1/81), averaged."""
    choice = Choice((0.2, 0.0), True, (True,) * 9, 3, 3)
    runs = [Run("a", (choice,), (0.5, 0.4)), Run("a", (choice, choice), (0.2, 0.1))]
    log_prob = float(np.log(1 / 81))
    expected = ((0.9 - 0.6) * log_prob + (0.3 - 0.6) * 2 * log_prob) / 2
    assert objective(TwoLevelPolicy(), runs, [0.6, 0.6]).item() == pytest.approx(expected, abs=1e-6)


def test_moving_average_starts_at_the_first_mean_and_follows_in_run_order() -> None:
    average = MovingAverage(0.9)
    runs = [Run("a", (), (1.0,)), Run("a", (), (3.0,))]
    assert average.of(runs) == [2.0, 2.0]
    average.update(runs)
    assert average.values == pytest.approx({1: 0.9 * (0.9 * 2.0 + 0.1 * 1.0) + 0.1 * 3.0}, abs=1e-15)
    assert average.of([Run("a", (), (9.0,))]) == [average.values[1]]


def test_every_number_of_phases_has_a_moving_average_of_its_own() -> None:
    average = MovingAverage(0.5)
    runs = [Run("a", (), (1.0,)), Run("b", (), (2.0, 2.0)), Run("a", (), (3.0,)), Run("b", (), (2.0, 4.0))]
    assert average.of(runs) == [2.0, 5.0, 2.0, 5.0]
    average.update(runs)
    assert average.values == {1: 0.5 * (0.5 * 2 + 0.5 * 1) + 0.5 * 3, 2: 0.5 * (0.5 * 5 + 0.5 * 4) + 0.5 * 6}


def test_leave_one_out_compares_within_a_task() -> None:
    totals = [("a", 1.0), ("a", 2.0), ("b", 10.0), ("a", 6.0), ("c", 5.0), ("b", 20.0)]
    runs = [Run(task, (), (total,)) for task, total in totals]
    assert leave_one_out(runs) == [4.0, 3.5, 20.0, 1.5, 5.0, 10.0]


def sampled(policy: PolicyNetwork, rng: np.random.Generator) -> Run:
    first, one = policy.choose(state(1, 0), rng)
    second, two = policy.choose(state(2, first.old_tenths), rng)
    total = reward(first.old_tenths, first.level2_tenths, second.old_tenths, second.level2_tenths)
    return Run("t", (one, two), (total,))


def plain_loss(policy: TwoLevelPolicy, runs: Sequence[Run], baselines: Sequence[float], bonus: float) -> float:
    """-(mean over runs of (R - b) log pi + bonus x mean entropy of the states that were visited)."""
    choices = [choice for run in runs for choice in run.choices]
    gains = [
        (run.total - b) * sum(plain_log_prob(policy, choice) for choice in run.choices)
        for run, b in zip(runs, baselines, strict=True)
    ]
    entropies = [plain_entropy(policy, choice) for choice in choices]
    return -(sum(gains) / len(gains) + bonus * sum(entropies) / len(entropies))


def numeric_gradient_norm(policy: TwoLevelPolicy, loss: Callable[[], float], step: float = 1e-5) -> float:
    """The norm of the gradient by central differences, parameter by parameter."""
    squares = 0.0
    with torch.no_grad():
        for parameter in policy.parameters():
            flat = parameter.view(-1)
            for place in range(len(flat)):
                before = flat[place].item()
                flat[place] = before + step
                above = loss()
                flat[place] = before - step
                squares += ((above - loss()) / (2 * step)) ** 2
                flat[place] = before
    return float(squares**0.5)


@pytest.mark.parametrize("bonus", [0.0, 0.3])
@pytest.mark.parametrize("baseline", ["average", "leave-one-out"])
def test_loss_entropy_and_gradient_norm_of_a_step_by_a_plain_computation(baseline: str, bonus: float) -> None:
    """Two steps, so that the moving average is not just the mean of the runs at hand."""
    policy, rng = perturbed(1, hidden=3), np.random.default_rng(0)
    settings = ReinforceSettings.model_validate({"baseline": baseline, "entropy": bonus, "decay": 0.5})
    reinforce, average = Reinforce(policy, settings), None
    for _ in range(2):
        runs = [sampled(policy, rng) for _ in range(3)]
        totals = [run.total for run in runs]
        average = sum(totals) / 3 if average is None else average
        others = [(sum(totals) - total) / 2 for total in totals]
        baselines = [average] * 3 if baseline == "average" else others
        entropy = sum(plain_entropy(policy, choice) for run in runs for choice in run.choices) / 6

        def loss(runs: Sequence[Run] = runs, baselines: Sequence[float] = baselines) -> float:
            return plain_loss(policy, runs, baselines, bonus)

        expected = (loss(), entropy, numeric_gradient_norm(policy, loss))
        assert reinforce.step(runs) == pytest.approx(expected, rel=1e-6, abs=1e-9)
        assert min(map(abs, expected)) > 1e-3
        for total in totals:
            average = 0.5 * average + 0.5 * total


def test_each_level_has_a_learning_rate_of_its_own() -> None:
    """The first step of Adam moves every parameter that has a gradient by its learning rate."""
    policy, rng = perturbed(1, hidden=3), np.random.default_rng(0)
    before = {name: value.detach().clone() for name, value in policy.named_parameters()}
    Reinforce(policy, ReinforceSettings(lr_eta=0.01, lr_phi=0.5)).step([sampled(policy, rng) for _ in range(4)])
    moved = {name: (value - before[name]).abs().max().item() for name, value in policy.named_parameters()}
    assert moved == pytest.approx({name: 0.5 if name.startswith("phi") else 0.01 for name in moved}, rel=1e-3)


def train(reinforce: Reinforce, sample: Callable[[int], list[Run]], epochs: Iterable[int]) -> None:
    for epoch in epochs:
        reinforce.step(sample(epoch))


@pytest.mark.learning
@pytest.mark.parametrize(("seed", "baseline"), [(0, "average"), (1, "leave-one-out"), (2, "leave-one-out")])
def test_the_best_path_is_found(seed: int, baseline: str) -> None:
    policy, rng = TwoLevelPolicy(seed=seed), np.random.default_rng(seed)
    settings = ReinforceSettings.model_validate({"baseline": baseline, "lr_eta": 0.02, "lr_phi": 0.02})
    train(Reinforce(policy, settings), lambda epoch: [sampled(policy, rng) for _ in range(16)], range(400))
    first, _ = policy.choose(state(1, 0))
    second, _ = policy.choose(state(2, first.old_tenths))
    assert (first.old_tenths, second.old_tenths) == (6, 6)
    # A tenth off at level 2 costs 0.005, less than the rewards of one epoch vary: within a tenth is what they can tell.
    assert abs(first.level2_tenths - 8) <= 1
    assert abs(second.level2_tenths - 3) <= 1


@pytest.mark.parametrize("baseline", ["average", "leave-one-out"])
def test_equal_seeds_give_equal_weights_and_resuming_changes_nothing(baseline: str) -> None:
    """Every epoch has a stream of its own, so learning can resume in the middle."""
    settings = ReinforceSettings.model_validate({"baseline": baseline})

    def learned(reinforce: Reinforce, epochs: range) -> Reinforce:
        def sample(epoch: int) -> list[Run]:
            return [sampled(reinforce.policy, np.random.default_rng([epoch, run])) for run in range(4)]

        train(reinforce, sample, epochs)
        return reinforce

    whole, again = (learned(Reinforce(TwoLevelPolicy(seed=4), settings), range(6)) for _ in range(2))
    first = learned(Reinforce(TwoLevelPolicy(seed=4), settings), range(3))
    resumed = Reinforce(TwoLevelPolicy(seed=9), settings)
    resumed.load(first.state())
    learned(resumed, range(3, 6))
    assert same_tensors(whole.state(), again.state())
    assert same_tensors(whole.state(), resumed.state())
    assert not same_tensors(whole.state(), first.state())
