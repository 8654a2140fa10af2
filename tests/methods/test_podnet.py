"""PODNet: loss terms and local similarity against simple loops, imprinting, and the balanced fine-tuning."""

import math

import numpy as np
import pytest
import torch

import factories
from remem.methods.describe import Described
from remem.methods.losses import nca, nca_as_shipped, pod_spatial
from remem.methods.method import PhaseFacts
from remem.methods.podnet import Podnet, PodnetSettings, centre_proxies
from remem.methods.settings import TrainSettings
from remem.nets.base import Output
from remem.nets.heads import ProxyHead
from remem.nets.network import build_network
from remem.nets.settings import HeadSettings, NetSettings
from remem.types import Samples

TOLERANCE = 1e-5  # float32 against double-precision loops over some hundred terms of order 1


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def plain_pooled(maps: torch.Tensor) -> list[float]:
    channels, height, width = maps.shape
    cells = maps.tolist()
    rows = [sum(cells[c][h][w] ** 2 for w in range(width)) for c in range(channels) for h in range(height)]
    columns = [sum(cells[c][h][w] ** 2 for h in range(height)) for c in range(channels) for w in range(width)]
    length = math.sqrt(sum(v * v for v in rows + columns))
    return [v / length for v in rows + columns]


def plain_spatial(maps: list[torch.Tensor], teachers: list[torch.Tensor]) -> float:
    stages = []
    for ours, theirs in zip(maps, teachers, strict=True):
        gaps = []
        for one, other in zip(ours, theirs, strict=True):
            pairs = zip(plain_pooled(one), plain_pooled(other), strict=True)
            gaps.append(math.sqrt(sum((a - b) ** 2 for a, b in pairs)))
        stages.append(sum(gaps) / len(gaps))
    return sum(stages) / len(stages)


def test_pod_spatial() -> None:
    maps = [random(3, 2, 4, 5), random(3, 4, 2, 2, seed=1)]
    teachers = [random(3, 2, 4, 5, seed=2), random(3, 4, 2, 2, seed=3)]
    assert pod_spatial(maps, teachers).item() == pytest.approx(plain_spatial(maps, teachers), abs=TOLERANCE)


def test_pod_spatial_of_equal_maps_is_zero_with_a_finite_gradient() -> None:
    maps = random(2, 3, 4, 4).requires_grad_()
    loss = pod_spatial([maps], [maps.detach().clone()])
    loss.backward()
    assert loss.item() == 0.0
    assert maps.grad is not None
    assert torch.isfinite(maps.grad).all()


def plain_shipped(scores: list[float], label: int) -> float:
    top = max(scores)
    total = sum(math.exp(0.0) if i == label else math.exp(s - top) for i, s in enumerate(scores))
    return math.log(total) - (scores[label] - top)


def plain_paper(scores: list[float], label: int, margin: float) -> float:
    own = math.exp(scores[label] - margin)
    return max(0.0, -math.log(own / sum(math.exp(s) for i, s in enumerate(scores) if i != label)))


def test_nca_as_shipped() -> None:
    scores, labels = 3 * random(6, 5), torch.tensor([0, 1, 2, 3, 4, 0])
    expected = sum(plain_shipped(row, y) for row, y in zip(scores.tolist(), labels.tolist(), strict=True)) / 6
    assert nca_as_shipped(scores, labels).item() == pytest.approx(expected, abs=TOLERANCE)


def test_nca_with_a_working_margin() -> None:
    scores, labels = 3 * random(6, 5), torch.tensor([0, 1, 2, 3, 4, 0])
    expected = sum(plain_paper(row, y, 0.6) for row, y in zip(scores.tolist(), labels.tolist(), strict=True)) / 6
    assert nca(scores, labels, torch.tensor(0.6)).item() == pytest.approx(expected, abs=TOLERANCE)
    wider = nca(scores, labels, torch.tensor(2.0)).item()
    assert wider > expected + 0.1  # the margin has an effect


def plain_similarity(feature: list[float], proxies: list[list[float]]) -> float:
    def unit(vector: list[float]) -> list[float]:
        length = math.sqrt(sum(v * v for v in vector))
        return [v / length for v in vector]

    near = [-sum((a - b) ** 2 for a, b in zip(unit(feature), unit(proxy), strict=True)) for proxy in proxies]
    weights = [math.exp(s) for s in near]
    return sum(w * s for w, s in zip(weights, near, strict=True)) / sum(weights)


def test_local_similarity_and_its_scale() -> None:
    head = ProxyHead(4, proxies=3, scale=2.5)
    head.grow(2, torch.Generator().manual_seed(0))
    head.grow(1, torch.Generator().manual_seed(1))
    features = random(5, 4)
    scores, logits = head(features)
    proxies = torch.cat((head.old, head.new)).tolist()
    for row, feature in zip(scores.tolist(), features.tolist(), strict=True):
        assert row == pytest.approx([plain_similarity(feature, own) for own in proxies], abs=TOLERANCE)
    torch.testing.assert_close(logits, 2.5 * scores)


@pytest.mark.parametrize(("old", "new", "factor"), [(50, 10, math.sqrt(6)), (50, 2, math.sqrt(26))])
def test_weights_grow_with_all_seen_classes(old: int, new: int, factor: float) -> None:
    method = Podnet(PodnetSettings())
    network = build_network(NetSettings(name="mlp"), (6,), method.head, seed=0)
    losses = method.objective(PhaseFacts(1, old, new), network)
    scores, maps, theirs = random(3, old + new), random(3, 2, 4, 4), random(3, 2, 4, 4, seed=5)
    output = Output(random(3, 6), (maps,), scores, scores)
    teacher = Output(random(3, 6, seed=4), (theirs,), scores, scores)
    terms = losses(output, torch.tensor([0, 1, old]), teacher)
    assert terms["spatial"].item() == pytest.approx(3.0 * factor * plain_spatial([maps], [theirs]), rel=1e-5)
    cosine = torch.nn.functional.cosine_similarity(output.features.double(), teacher.features.double())
    assert terms["flat"].item() == pytest.approx(factor * (1 - cosine).mean().item(), rel=1e-5)
    assert set(terms) == {"nca", "flat", "spatial"}


def test_vectors_have_no_spatial_term() -> None:
    method = Podnet(PodnetSettings())
    network = build_network(NetSettings(name="mlp"), (6,), method.head, seed=0)
    scores = random(3, 4)
    terms = method.objective(PhaseFacts(1, 2, 2), network)(
        Output(random(3, 6), (), scores, scores), torch.tensor([0, 1, 2]), Output(random(3, 6), (), scores, scores)
    )
    assert set(terms) == {"nca", "flat"}


def test_proxies_start_at_cluster_centres() -> None:
    corners = np.eye(4, dtype=np.float32)
    units = np.repeat(corners, 5, axis=0) + 0.01 * np.random.default_rng(0).standard_normal((20, 4)).astype(np.float32)
    centres = centre_proxies(units, 4, seed=1)
    order = centres.argmax(axis=1)
    assert sorted(order.tolist()) == [0, 1, 2, 3]
    for centre, corner in zip(centres, order, strict=True):
        np.testing.assert_allclose(centre, units[5 * corner : 5 * corner + 5].mean(axis=0), atol=1e-6)


def test_fewer_samples_than_proxies_are_repeated() -> None:
    units = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]], dtype=np.float32)  # two distinct ones
    centres = centre_proxies(units, 5, seed=0)
    assert centres.shape == (5, 2)
    assert {tuple(row) for row in centres.tolist()} == {(1.0, 0.0), (0.0, 1.0)}


def test_fine_tuning_trains_old_and_new_proxies_only() -> None:
    prepared = factories.ready(factories.pictures(), {"method": {"name": "podnet"}, "train": {"epochs": 1}})
    episode = factories.opened(prepared)
    factories.play(episode, prepared, stop=2)
    network = episode.learner.network
    method = Podnet(PodnetSettings())
    facts = PhaseFacts(1, 2, 2)
    none = Samples(np.empty(0, np.int64), np.empty(0, np.int64))
    main = method.stages(facts, network, none, prepared.config.train)[0]
    tuned = method.balanced(main, network, none, prepared.config.finetune)
    chosen = [parameter for group in tuned.groups for parameter in group.parameters]
    assert [id(parameter) for parameter in chosen] == [id(network.head.old), id(network.head.new)]
    assert not tuned.needs_teacher
    scores = random(3, 4)
    output = Output(random(3, 4, seed=1), (), scores, scores)
    terms = tuned.objective(output, torch.tensor([0, 1, 2]), output)
    assert set(terms) == {"nca"}  # no distillation, even from a teacher
    assert terms["nca"].item() == pytest.approx(nca_as_shipped(scores, torch.tensor([0, 1, 2])).item())
    trained = {id(parameter) for group in main.groups for parameter in group.parameters}
    assert id(network.head.old) not in trained
    assert {id(network.head.new), id(network.head.scale)} <= trained
    assert main.clamp == 5.0


def test_head_settings_reach_the_head() -> None:
    method = Podnet(PodnetSettings(proxies=3))
    assert method.head == HeadSettings(name="proxies", proxies=3)


def test_as_many_distinct_samples_as_proxies_are_the_proxies() -> None:
    """Whatever the seed, in the order of their values; one sample occurs twice."""
    units = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [1.0, 0.0]], dtype=np.float32)
    for seed in range(6):
        assert centre_proxies(units, 3, seed).tolist() == [[-1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]


def test_equal_seeds_give_equal_centres_in_equal_order() -> None:
    units = np.random.default_rng(0).standard_normal((60, 3)).astype(np.float32)
    first = centre_proxies(units, 6, seed=3)
    assert first.dtype == np.float32
    assert np.array_equal(first, centre_proxies(units, 6, seed=3))


def test_new_proxies_are_centres_with_the_mean_length_of_old_ones() -> None:
    """Two old classes whose proxies have lengths 5, 1, 2 and 0: 2 on average. Class 2 has two directions; class 3 has
    three that are close, with mean (0.8, 1.4 / 3), and one opposite."""
    method = Podnet(PodnetSettings(proxies=2))
    network = build_network(NetSettings(name="mlp", hidden=(), width=2), (6,), method.head, seed=0)
    network.head.grow(2, torch.Generator().manual_seed(0))
    network.head.grow(2, torch.Generator().manual_seed(1))
    with torch.no_grad():
        network.head.old.copy_(torch.tensor([[[3.0, 4.0], [0.0, 1.0]], [[2.0, 0.0], [0.0, 0.0]]]))
    untouched = network.head.old.detach().clone()
    held = Samples(np.arange(9), np.array([0, 2, 3, 2, 3, 1, 3, 3, 2]))
    features = {
        1: (3.0, 0.0),
        3: (0.0, 2.0),
        8: (5.0, 0.0),
        2: (4.0, 0.0),
        4: (3.0, 4.0),
        6: (4.0, 3.0),
        7: (-1.0, 0.0),
    }

    def describe(samples: Samples) -> Described:
        values = np.array([features[row] for row in samples.rows.tolist()], np.float32)  # fails for old classes
        return Described(values, np.zeros((len(values), 4), np.float32))

    method.begin(network, PhaseFacts(1, 2, 2), held, describe)
    two, three = (sorted(rows) for rows in network.head.new.detach().tolist())
    assert two == [[0.0, 2.0], [2.0, 0.0]]
    np.testing.assert_allclose(three, [[-2.0, 0.0], [1.6, 2.8 / 3]], rtol=0, atol=1e-6)  # float32 of order 1
    assert torch.equal(network.head.old, untouched)


def test_phase_0_keeps_its_random_proxies() -> None:
    method = Podnet(PodnetSettings(proxies=2))
    network = build_network(NetSettings(name="mlp"), (6,), method.head, seed=0)
    network.head.grow(2, torch.Generator().manual_seed(0))
    before = network.head.new.detach().clone()

    def describe(samples: Samples) -> Described:
        raise AssertionError("nothing to describe")

    method.begin(network, PhaseFacts(0, 0, 2), Samples(np.arange(2), np.arange(2)), describe)
    assert torch.equal(network.head.new, before)
    (main,) = method.stages(PhaseFacts(0, 0, 2), network, Samples(np.arange(2), np.arange(2)), TrainSettings())
    trained = {id(parameter) for group in main.groups for parameter in group.parameters}
    assert trained == {id(parameter) for parameter in network.parameters()}


def test_the_margin_is_scaled_with_the_similarities() -> None:
    """A margin of 0.6 on logits that are 2.5 times the similarities is 1.5."""
    method = Podnet(PodnetSettings(nca="margin", margin=0.6))
    network = build_network(NetSettings(name="mlp"), (6,), method.head, seed=0)
    with torch.no_grad():
        network.head.scale.fill_(2.5)  # type: ignore[operator]
    logits, labels = 3 * random(6, 5), [0, 1, 2, 3, 4, 0]
    output = Output(random(6, 6), (), logits / 2.5, logits)
    terms = method.objective(PhaseFacts(0, 0, 5), network)(output, torch.tensor(labels), None)
    expected = sum(plain_paper(row, y, 1.5) for row, y in zip(logits.tolist(), labels, strict=True)) / 6
    assert terms["nca"].item() == pytest.approx(expected, abs=TOLERANCE)
    assert set(terms) == {"nca"}
