"""Mnemonics: the outer gradient against finite differences, valid pixels, halves, and the budget."""

from typing import Any

import numpy as np
import pytest
import torch

import factories
from remem.methods.bilevel import Weights, outer_loss, trained_on
from remem.methods.method import Exemplars, PhaseFacts
from remem.methods.mnemonics import Mnemonics, MnemonicsSettings, halves
from remem.nets.two_branch import Scaled
from remem.types import Samples

MNEMONICS = {"method": {"name": "mnemonics", "refine_lr": 0.5}, "train": {"epochs": 2}, "finetune": {"epochs": 0}}


def forward(weights: Weights, inputs: torch.Tensor) -> torch.Tensor:
    """Two layers with a smooth activation, in the precision of the inputs."""
    return torch.tanh(inputs @ weights["one"]) @ weights["two"]


def problem() -> tuple[dict[str, torch.Tensor], tuple[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]:
    draws = torch.Generator().manual_seed(4)
    weights = {
        "one": torch.randn(5, 7, generator=draws, dtype=torch.float64).requires_grad_(),
        "two": torch.randn(7, 3, generator=draws, dtype=torch.float64).requires_grad_(),
    }
    exemplars = torch.randn(4, 5, generator=draws, dtype=torch.float64).requires_grad_(), torch.tensor([0, 1, 2, 0])
    targets = torch.randn(6, 5, generator=draws, dtype=torch.float64), torch.tensor([0, 1, 2, 2, 1, 0])
    return weights, exemplars, targets


@pytest.mark.parametrize("steps", [1, 3])
def test_outer_gradient_equals_finite_differences(steps: int) -> None:
    weights, exemplars, targets = problem()
    inputs, labels = exemplars

    def value(at: torch.Tensor) -> float:
        return outer_loss(forward, weights, (at, labels), targets, lr=0.3, steps=steps).item()

    loss = outer_loss(forward, weights, exemplars, targets, lr=0.3, steps=steps)
    (grad,) = torch.autograd.grad(loss, inputs)
    assert grad.abs().max() > 1e-3
    width = 1e-5  # the error of central differences is of the order width^2 = 1e-10
    for row in range(4):
        for column in range(5):
            nudge = torch.zeros_like(inputs)
            nudge[row, column] = width
            numeric = (value(inputs.detach() + nudge) - value(inputs.detach() - nudge)) / (2 * width)
            assert grad[row, column].item() == pytest.approx(numeric, abs=1e-8)


def test_the_temporary_model_is_plain_gradient_descent() -> None:
    weights, (inputs, labels), _ = problem()
    learned = trained_on(forward, weights, inputs, labels, lr=0.3, steps=2)
    copies = {name: value.detach().clone().requires_grad_() for name, value in weights.items()}
    for _ in range(2):
        loss = torch.nn.functional.cross_entropy(forward(copies, inputs.detach()), labels)
        loss.backward()
        with torch.no_grad():
            for value in copies.values():
                assert value.grad is not None
                value -= 0.3 * value.grad
                value.grad = None
    for name, value in copies.items():
        torch.testing.assert_close(learned[name], value, rtol=1e-12, atol=1e-12)


def test_halves_split_every_class() -> None:
    samples = Samples(np.arange(6), np.array([0, 0, 0, 1, 2, 2]))
    one, other = halves(samples)
    assert one.rows.tolist() == [0, 2, 3, 4]
    assert other.rows.tolist() == [1, 5]


def refined(**settings: float) -> tuple[Samples, np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Kept samples of phase 0, their original values, and their refined values."""
    prepared = factories.ready(factories.pictures(), MNEMONICS)
    episode = factories.opened(prepared)
    factories.play(episode, prepared, stop=1)
    bank, network = prepared.scenario.bank, episode.learner.network
    phase = prepared.scenario.phases[0]
    sizes = [len(rows) for rows in phase.train.values()]
    latest = Samples(np.concatenate(list(phase.train.values())), np.repeat(list(phase.train), sizes))
    kept = latest.take(slice(None, None, 4))
    none = Samples(np.empty(0, np.int64), np.empty(0, np.int64))
    after = bank.read(kept.rows)

    def replace(samples: Samples, values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        assert values.dtype == np.uint8
        assert len(values) <= 2  # at most one batch exists in two versions
        after[np.searchsorted(kept.rows, samples.rows)] = values
        return samples.rows + 1000

    exemplars = Exemplars(
        kept,
        none,
        latest,
        values=lambda samples: bank.read(samples.rows),
        show=lambda values: values.float().permute(0, 3, 1, 2),
        replace=replace,
    )
    method = Mnemonics(MnemonicsSettings(**settings, refine_batch=2))  # type: ignore[arg-type]
    method.refine(network, exemplars, PhaseFacts(1, 2, 0))
    return kept, bank.read(kept.rows), after


def test_a_learning_rate_of_zero_changes_no_pixel() -> None:
    """Rounded, not truncated: all 256 levels survive the conversion to float and back."""
    _, before, after = refined(refine_lr=0.0, refine_steps=3)
    assert np.array_equal(before, after)


def test_huge_steps_stay_inside_the_range() -> None:
    """Clamped, not wrapped: a pixel that increases ends at 255, never near 0."""
    kept, before, after = refined(refine_lr=1e15, refine_steps=1)
    moved = before != after
    assert all(moved[place].any() for place in range(len(kept)))
    assert set(np.unique(after[moved])) <= {0, 255}


def test_a_run_replaces_exemplars_within_the_budget_and_resumes() -> None:
    prepared = factories.ready(factories.pictures(), MNEMONICS)
    episode = factories.opened(prepared)
    factories.play(episode, prepared, stop=2)
    source_rows = 6 * 14
    held = episode._memory.samples()
    old = held.of(range(2))
    assert (old.rows >= source_rows).all()  # every exemplar is a refined row
    assert len(episode.bank.owned()) == len(old)  # earlier versions are dropped
    assert episode.samples_peak <= 40
    changed = [
        not np.array_equal(value, prepared.scenario.bank.read(np.arange(source_rows))[i])
        for i, value in enumerate(episode.bank.owned().values())
    ]
    assert any(changed)
    other = factories.opened(prepared)
    other.restore(episode.snapshot())
    for one, two in zip(factories.play(episode, prepared), factories.play(other, prepared), strict=True):
        assert factories.facts_of(one) == factories.facts_of(two)
    assert factories.same_tensors(episode.learner.state(), other.learner.state())


def test_weight_transfer_freezes_the_kernels_of_phase_0() -> None:
    prepared = factories.ready(factories.pictures(), MNEMONICS)
    episode = factories.opened(prepared)
    factories.play(episode, prepared, stop=1)
    kernel = episode.learner.network.backbone.levels[1].blocks[0].conv1.weight.detach().clone()  # type: ignore[union-attr,index]
    factories.play(episode, prepared)
    layer = episode.learner.network.backbone.levels[1].blocks[0].conv1  # type: ignore[union-attr,index]
    assert isinstance(layer, Scaled)
    assert torch.equal(layer.kernel, kernel)
    assert not torch.equal(layer.factor, torch.ones_like(layer.factor))


def test_vectors_are_refined_too() -> None:
    prepared = factories.ready(factories.blobs(), MNEMONICS)
    results = factories.play(factories.opened(prepared), prepared)
    assert all(result.held_old + result.held_new <= 40 for result in results[1:])


def test_refining_exemplars_lowers_the_outer_loss() -> None:
    weights, (inputs, labels), targets = problem()
    losses = []
    for _ in range(30):
        loss = outer_loss(forward, weights, (inputs, labels), targets, lr=0.3, steps=2)
        losses.append(loss.item())
        (grad,) = torch.autograd.grad(loss, inputs)
        inputs = (inputs - 2.0 * grad).detach().requires_grad_()
    assert losses[-1] < 0.8 * losses[0]
