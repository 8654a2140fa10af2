"""LUCIR: the loss terms and their weights against simple loops, imprinting, and frozen rows."""

import math

import numpy as np
import pytest
import torch

import factories
from remem.methods.losses import less_forget, rank_margin
from remem.methods.lucir import Lucir, LucirSettings
from remem.methods.method import PhaseFacts
from remem.nets.base import Output
from remem.nets.network import build_network
from remem.nets.settings import HeadSettings, NetSettings

# float32 sums of a few dozen terms of order 1
TOLERANCE = 1e-6


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def plain_cosine(a: list[float], b: list[float]) -> float:
    product = sum(x * y for x, y in zip(a, b, strict=True))
    return product / math.sqrt(sum(x * x for x in a)) / math.sqrt(sum(y * y for y in b))


def plain_margin(scores: list[list[float]], labels: list[int], old: int, margin: float, top: int) -> float:
    terms = []
    for row, label in zip(scores, labels, strict=True):
        if label < old:
            for rival in sorted(row[old:], reverse=True)[:top]:
                terms.append(max(0.0, margin - row[label] + rival))
    return sum(terms) / len(terms) if terms else 0.0


def test_less_forget_is_one_minus_the_cosine() -> None:
    ours, teachers = random(7, 5), random(7, 5, seed=1)
    expected = sum(1 - plain_cosine(a, b) for a, b in zip(ours.tolist(), teachers.tolist(), strict=True)) / 7
    assert less_forget(ours, teachers).item() == pytest.approx(expected, abs=TOLERANCE)


@pytest.mark.parametrize("top", [1, 2, 9])
def test_margin_counts_exemplars_and_their_highest_rivals_only(top: int) -> None:
    scores, labels = random(8, 7).tanh(), torch.tensor([0, 3, 4, 5, 6, 1, 2, 3])
    expected = plain_margin(scores.tolist(), labels.tolist(), old=4, margin=0.5, top=top)
    assert rank_margin(scores, labels, 4, margin=0.5, top=top).item() == pytest.approx(expected, abs=TOLERANCE)


def test_margin_by_hand() -> None:
    # One exemplar of class 0 with cosine 0.2; new cosines 0.1 and 0.6: (0.5-0.2+0.1) and (0.5-0.2+0.6), mean 0.65.
    scores = torch.tensor([[0.2, 0.9, 0.1, 0.6], [0.1, 0.1, 0.1, 0.1]])
    assert rank_margin(scores, torch.tensor([0, 2]), 2, margin=0.5, top=2).item() == pytest.approx(0.65, abs=TOLERANCE)


def test_margin_without_exemplars_is_zero_and_has_a_gradient() -> None:
    scores = random(3, 5).requires_grad_()
    loss = rank_margin(scores, torch.tensor([3, 4, 4]), 3, margin=0.5, top=2)
    loss.backward()
    assert loss.item() == 0.0
    assert scores.grad is not None
    assert not scores.grad.any()


def test_one_new_class_has_one_rival() -> None:
    scores = torch.tensor([[0.4, 0.3]])
    assert rank_margin(scores, torch.tensor([0]), 1, margin=0.5, top=2).item() == pytest.approx(0.4, abs=TOLERANCE)


@pytest.mark.parametrize(("old", "new", "weight"), [(50, 10, 11.18034), (50, 5, 15.811388), (50, 2, 25.0)])
def test_the_weight_of_less_forget(old: int, new: int, weight: float) -> None:
    """As in the published code: 5 sqrt(old / new)."""
    method = Lucir(LucirSettings())
    network = build_network(NetSettings(name="mlp"), (6,), HeadSettings(name="cosine"), seed=0)
    losses = method.objective(PhaseFacts(1, old, new), network)
    scores = random(4, old + new).tanh()
    output = Output(random(4, 6), (), scores, 3 * scores)
    teacher = Output(random(4, 6, seed=2), (), scores, scores)
    terms = losses(output, torch.tensor([0, 1, old, old + 1]), teacher)
    cosines = [plain_cosine(a, b) for a, b in zip(output.features.tolist(), teacher.features.tolist(), strict=True)]
    expected = weight * sum(1 - c for c in cosines) / 4
    assert terms["less_forget"].item() == pytest.approx(expected, rel=1e-5)  # the weights above have 7 digits
    assert terms["classify"].item() == pytest.approx(
        sum(plain_cross_entropy(row, y) for row, y in zip((3 * scores).tolist(), [0, 1, old, old + 1], strict=True))
        / 4,
        abs=1e-5,
    )
    assert terms["margin"].item() == pytest.approx(
        plain_margin(scores.tolist(), [0, 1, old, old + 1], old, 0.5, 2), abs=TOLERANCE
    )


def plain_cross_entropy(logits: list[float], label: int) -> float:
    return math.log(sum(math.exp(value) for value in logits)) - logits[label]


def test_phase_0_is_cross_entropy_alone() -> None:
    network = build_network(NetSettings(name="mlp"), (6,), HeadSettings(name="cosine"), seed=0)
    losses = Lucir(LucirSettings()).objective(PhaseFacts(0, 0, 4), network)
    scores = random(4, 4)
    assert set(losses(Output(random(4, 6), (), scores, scores), torch.arange(4), None)) == {"classify"}


def test_imprinted_rows_are_class_means_of_unit_features() -> None:
    prepared = factories.ready(
        factories.blobs(), {"method": {"name": "lucir"}, "train": {"epochs": 1}, "finetune": {"epochs": 0}}
    )
    episode = factories.opened(prepared)
    factories.play(episode, prepared, stop=1)
    learner, network = episode.learner, episode.learner.network
    phase = prepared.scenario.phases[1]
    rows = np.concatenate(list(phase.train.values()))
    labels = np.repeat(list(phase.train), [len(part) for part in phase.train.values()])
    from remem.types import Samples

    held = Samples(rows, labels)
    features = learner.describe(prepared.scenario.bank, held).features.astype(np.float64)
    network.head.grow(len(phase.classes), torch.Generator().manual_seed(0))
    facts = PhaseFacts(1, phase.classes[0], len(phase.classes))
    Lucir(LucirSettings()).begin(
        network, facts, held, lambda samples: learner.describe(prepared.scenario.bank, samples)
    )
    length = np.linalg.norm(network.head.old.detach().numpy(), axis=1).mean()
    for place, label in enumerate(phase.classes):
        units = features[labels == label] / np.linalg.norm(features[labels == label], axis=1, keepdims=True)
        mean = units.mean(axis=0)
        expected = length * mean / np.linalg.norm(mean)
        np.testing.assert_allclose(network.head.new[place].detach().numpy(), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("freeze", [True, False])
def test_old_rows_stay_if_frozen(freeze: bool) -> None:
    settings = {"method": {"name": "lucir", "freeze_old": freeze}, "finetune": {"epochs": 0}}
    prepared = factories.ready(factories.blobs(), settings)
    episode = factories.opened(prepared)
    factories.play(episode, prepared, stop=1)
    before = episode.learner.network.head.new.detach().clone()
    factories.play(episode, prepared, stop=2)
    after = episode.learner.network.head.old.detach()
    assert torch.equal(before, after) == freeze


def test_head_settings_reach_the_head() -> None:
    assert Lucir(LucirSettings(scale=3.0)).head == HeadSettings(name="cosine", scale=3.0)


def test_the_margin_term_counts_exemplars_only() -> None:
    """Processes that share a batch weigh the term by its samples of old classes, here 0, 1 and 2."""
    from remem.methods.settings import TrainSettings
    from remem.types import Samples

    network = build_network(NetSettings(name="mlp"), (6,), HeadSettings(name="cosine"), seed=0)
    held = Samples(np.arange(5), np.arange(5))
    (main,) = Lucir(LucirSettings()).stages(PhaseFacts(1, 3, 2), network, held, TrainSettings())
    assert set(main.counted) == {"margin"}
    assert main.counted["margin"](np.array([0, 4, 2, 3])).tolist() == [True, False, True, False]
