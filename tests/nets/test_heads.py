"""Heads: values computed by hand, growth, imprinting and gradients."""

import math

import pytest
import torch
from torch import Tensor

from remem.errors import InputError
from remem.nets.heads import HEADS, CosineHead, Head, LinearHead, ProxyHead
from remem.nets.settings import HeadSettings

NAMES = ["linear", "cosine", "proxies"]


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def grown(name: str, sizes: list[int], width: int = 8) -> Head:
    head = HEADS[name].build(HeadSettings(name=name, proxies=3, scale=2.0), width)
    for phase, size in enumerate(sizes):
        head.grow(size, generator(phase))
    return head


def features(width: int = 8) -> Tensor:
    return torch.randn(5, width, generator=generator(99))


def test_registry() -> None:
    assert list(HEADS) == sorted(NAMES)
    with pytest.raises(InputError, match="did you mean 'cosine'"):
        HEADS["cosin"]


def test_linear_by_hand() -> None:
    head = LinearHead(2)
    head.grow_to(1, 1)
    head.load_state_dict(
        {
            "old": torch.tensor([[1.0, 2.0]]),
            "new": torch.tensor([[-3.0, 0.5]]),
            "old_bias": torch.tensor([10.0]),
            "new_bias": torch.tensor([20.0]),
        }
    )
    scores, logits = head(torch.tensor([[1.0, 1.0], [2.0, -2.0]]))
    assert logits.tolist() == [[13.0, 17.5], [8.0, 13.0]]
    assert torch.equal(scores, logits)


def test_cosine_by_hand() -> None:
    head = CosineHead(2, scale=4.0)
    head.grow(1, generator())
    head.imprint(torch.tensor([[10.0, 0.0]]))
    head.grow(2, generator())
    head.imprint(torch.tensor([[0.0, 0.5], [-3.0, -4.0]]))
    scores, logits = head(torch.tensor([[3.0, 4.0]]))
    torch.testing.assert_close(scores, torch.tensor([[0.6, 0.8, -1.0]]))
    torch.testing.assert_close(logits, torch.tensor([[2.4, 3.2, -4.0]]))


def test_proxies_by_hand() -> None:
    head = ProxyHead(2, proxies=2, scale=3.0)
    head.grow(2, generator())
    head.imprint(torch.tensor([[[5.0, 0.0], [0.0, 2.0]], [[-1.0, 0.0], [-2.0, 0.0]]]))
    scores, logits = head(torch.tensor([[7.0, 0.0]]))
    # class 0: squared distances 0 and 2, weights 1 and e^-2 over their sum; class 1: both distances 4
    first = -2 * math.exp(-2) / (1 + math.exp(-2))
    torch.testing.assert_close(scores, torch.tensor([[first, -4.0]]))
    torch.testing.assert_close(logits, 3 * scores)


@pytest.mark.parametrize("name", NAMES)
def test_growth_moves_rows_without_touching_them(name: str) -> None:
    head = grown(name, [4])
    first = head.new.detach().clone()
    before = head(features())
    head.grow(3, generator(1))
    second = head.new.detach().clone()
    assert head.classes == 7
    assert torch.equal(head.old, first)
    head.grow(2, generator(2))
    assert torch.equal(head.old, torch.cat((first, second)))
    assert len(head.new) == 2
    for earlier, now in zip(before, head(features()), strict=True):
        assert now.shape == (5, 9)
        # rows are the same to the bit; a product of another shape may add in another order
        torch.testing.assert_close(now[:, :4], earlier, rtol=1e-6, atol=1e-6)


def test_growth_keeps_outputs_to_the_bit_where_sums_are_exact() -> None:
    head = LinearHead(3)
    head.grow(2, generator())
    head.imprint(torch.tensor([[1.0, -2.0, 4.0], [0.5, 8.0, -1.0]]))
    with torch.no_grad():
        head.new_bias.copy_(torch.tensor([3.0, -7.0]))
    x = torch.tensor([[2.0, 3.0, -1.0], [0.0, 0.25, 16.0]])
    before = head(x)[1]
    head.grow(5, generator())
    assert torch.equal(head(x)[1][:, :2], before)


@pytest.mark.parametrize("name", NAMES)
def test_a_head_without_classes_gives_empty_scores(name: str) -> None:
    scores, logits = grown(name, [])(features())
    assert scores.shape == logits.shape == (5, 0)


@pytest.mark.parametrize("name", NAMES)
def test_equal_generators_give_equal_rows(name: str) -> None:
    torch.manual_seed(5)
    state = torch.get_rng_state()
    one, two = grown(name, [4, 2]), grown(name, [4, 2])
    assert torch.equal(one.old, two.old)
    assert torch.equal(one.new, two.new)
    assert torch.equal(torch.get_rng_state(), state)
    one.grow(4, generator(7))
    two.grow(4, generator(8))
    assert not torch.equal(one.new, two.new)


@pytest.mark.parametrize(
    ("name", "bound", "deviation"),
    [
        ("linear", math.sqrt(3 / 64), 1 / math.sqrt(64)),
        ("cosine", 1 / math.sqrt(64), 1 / math.sqrt(3 * 64)),
        ("proxies", math.inf, 1 / math.sqrt(64)),
    ],
)
def test_spread_of_fresh_rows(name: str, bound: float, deviation: float) -> None:
    rows = grown(name, [200], width=64).new.detach()
    assert rows.abs().max() <= bound
    # at least 12,800 draws: a relative error of the deviation under 1 / sqrt(2 * 12,800) = 0.6 %
    assert rows.std().item() == pytest.approx(deviation, rel=0.03)
    if name == "proxies":
        assert rows.abs().max() > 3 * deviation  # normal, not uniform


def test_linear_bias_starts_at_zero_and_grows_along() -> None:
    head = LinearHead(4)
    head.grow(2, generator())
    with torch.no_grad():
        head.new_bias.add_(1)
    head.grow(3, generator())
    assert head.old_bias.tolist() == [1.0, 1.0]
    assert head.new_bias.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("name", NAMES)
def test_imprint_sets_new_rows_only(name: str) -> None:
    head = grown(name, [4, 2])
    old = head.old.detach().clone()
    rows = torch.full_like(head.new, 0.25)
    head.imprint(rows)
    rows += 1
    assert torch.equal(head.new, torch.full_like(head.new, 0.25))
    assert torch.equal(head.old, old)
    with pytest.raises(ValueError, match="shape"):
        head.imprint(rows[:1])


@pytest.mark.parametrize("name", NAMES)
def test_old_rows_stay_when_left_out(name: str) -> None:
    head = grown(name, [4, 2])
    old = [p.detach().clone() for p in head.old_parameters()]
    new = [p.detach().clone() for p in head.new_parameters()]
    frozen = {id(p) for p in head.old_parameters()}
    trained = [p for p in head.parameters() if id(p) not in frozen]
    optimiser = torch.optim.SGD(trained, lr=1.0, weight_decay=0.1)
    torch.nn.functional.cross_entropy(head(features())[1], torch.tensor([0, 1, 2, 4, 5])).backward()
    optimiser.step()
    assert all(torch.equal(p, before) for p, before in zip(head.old_parameters(), old, strict=True))
    assert all(not torch.equal(p, before) for p, before in zip(head.new_parameters(), new, strict=True))


@pytest.mark.parametrize("name", ["cosine", "proxies"])
def test_scale_is_learned_and_survives_growth(name: str) -> None:
    head = grown(name, [4])
    assert isinstance(head, CosineHead | ProxyHead)
    assert head.scale.item() == 2.0
    head(features())[1].sum().backward()
    assert head.scale.grad is not None
    torch.testing.assert_close(head.scale.grad, head(features())[0].sum().detach())
    scores, logits = head(features())
    assert torch.equal(logits, 2 * scores)
    with torch.no_grad():
        head.scale.fill_(5.0)
    head.grow(2, generator())
    assert head.scale.item() == 5.0


@pytest.mark.parametrize("name", NAMES)
def test_state_goes_into_a_head_of_the_same_sizes(name: str) -> None:
    head = grown(name, [4, 2])
    twin = HEADS[name].build(HeadSettings(name=name, proxies=3), 8)
    twin.grow_to(4, 2)
    twin.load_state_dict(head.state_dict())
    assert all(torch.equal(a, b) for a, b in zip(head(features()), twin(features()), strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_float32_under_autocast(name: str) -> None:
    head = grown(name, [4, 2])
    expected = head(features())
    with torch.autocast("cpu", torch.bfloat16):
        assert (features() @ features().T).dtype == torch.bfloat16  # autocast is on
        scores, logits = head(features())
    assert scores.dtype == logits.dtype == torch.float32
    assert torch.equal(scores, expected[0])
    assert torch.equal(logits, expected[1])


@pytest.mark.parametrize("name", NAMES)
def test_scores_of_several_heads_at_once(name: str) -> None:
    """Scores and gradients of a stack are those of each head alone, to float32 rounding."""
    generator = torch.Generator().manual_seed(0)
    heads = [HEADS[name].build(HeadSettings(name=name, proxies=3), 8) for _ in range(4)]
    for head in heads:
        head.grow(5, generator)
    features = torch.randn(4, 6, 8, generator=generator)
    weights = torch.randn(4, 6, 5, generator=generator)
    alone = [
        head.class_scores(head.prepare(own), head.new_parameters()) for head, own in zip(heads, features, strict=True)
    ]
    expected = [
        torch.autograd.grad((score * weight).sum(), head.new_parameters())
        for score, weight, head in zip(alone, weights, heads, strict=True)
    ]
    stacks = [
        torch.stack(parts).detach().requires_grad_() for parts in zip(*(h.new_parameters() for h in heads), strict=True)
    ]
    together = heads[0].class_scores(heads[0].prepare(features), stacks)
    torch.testing.assert_close(together, torch.stack(alone), rtol=0, atol=1e-5)
    gradients = torch.autograd.grad((together * weights).sum(), stacks)
    for found, parts in zip(gradients, zip(*expected, strict=True), strict=True):
        torch.testing.assert_close(found, torch.stack(parts), rtol=0, atol=1e-5)


def test_old_and_new_classes_can_be_scored_apart() -> None:
    """The score of a class depends on its own parameters alone, so frozen ones need to be computed only once."""
    for name in NAMES:
        head = HEADS[name].build(HeadSettings(name=name, proxies=3), 8)
        for classes in (4, 2):
            head.grow(classes, torch.Generator().manual_seed(classes))
        features = torch.randn(5, 8, generator=torch.Generator().manual_seed(1))
        parts = [
            head.class_scores(head.prepare(features), own) for own in (head.old_parameters(), head.new_parameters())
        ]
        torch.testing.assert_close(head(features)[0], torch.cat(parts, dim=1), rtol=0, atol=1e-6)
