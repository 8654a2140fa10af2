"""The network: normalisation, building, determinism, state, user modules and precision."""

import copy

import pytest
import torch
from torch import Tensor, nn

from remem.errors import InputError
from remem.nets.base import Backbone, Features
from remem.nets.network import Network, adopt, build_network
from remem.nets.settings import HeadSettings, NetSettings

SMALL = NetSettings(width=4, blocks=(1, 1))
SHAPE = (8, 8, 3)


def pixels(count: int = 4) -> Tensor:
    generator = torch.Generator().manual_seed(3)
    values = torch.randint(0, 256, (count, 3, 8, 8), generator=generator).float()
    return values.contiguous(memory_format=torch.channels_last)


def network(seed: int = 0, head: str = "cosine", classes: tuple[int, ...] = (5,)) -> Network:
    net = build_network(SMALL, SHAPE, HeadSettings(name=head), seed, mean=(10.0, 20.0, 30.0), std=(2.0, 4.0, 8.0))
    for phase, count in enumerate(classes):
        net.head.grow(count, torch.Generator().manual_seed(phase))
    return net


class Flat(nn.Module):
    """Returns its input, flattened."""

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1)


def test_normalises_per_channel() -> None:
    net = build_network(Flat(), (1, 2, 3), HeadSettings(), 0, mean=(10.0, 20.0, 30.0), std=(2.0, 4.0, 0.0))
    x = torch.tensor([12.0, 14.0, 20.0, 12.0, 31.0, 29.0]).view(1, 3, 1, 2)
    assert net(x).features.tolist() == [[1.0, 2.0, 0.0, -2.0, 1.0, -1.0]]  # a deviation of 0 counts as 1


def test_normalises_per_dimension() -> None:
    net = build_network(Flat(), (2,), HeadSettings(), 0, mean=(1.0, -1.0), std=(0.5, 2.0))
    assert net(torch.tensor([[2.0, 3.0]])).features.tolist() == [[2.0, 2.0]]


def test_by_default_images_are_scaled_to_one_and_vectors_are_unchanged() -> None:
    assert build_network(Flat(), (1, 1, 1), HeadSettings(), 0)(torch.full((1, 1, 1, 1), 255.0)).features.item() == 1.0
    assert build_network(Flat(), (1,), HeadSettings(), 0)(torch.tensor([[7.0]])).features.item() == 7.0


def test_normaliser_of_the_wrong_length_is_named() -> None:
    with pytest.raises(InputError, match="std: 1 values given, expected 3"):
        build_network(SMALL, SHAPE, HeadSettings(), 0, std=(1.0,))


def test_forward_is_backbone_then_head() -> None:
    net = network().eval()
    x = pixels()
    features, maps, scores, logits = net(x)
    expected = net.backbone(
        (x - torch.tensor([10.0, 20.0, 30.0]).view(3, 1, 1)) / torch.tensor([2.0, 4.0, 8.0]).view(3, 1, 1)
    )
    torch.testing.assert_close(features, expected.vector)
    assert len(maps) == 2
    rows = torch.cat((net.head.old, net.head.new))
    torch.testing.assert_close(scores, nn.functional.cosine_similarity(features[:, None], rows[None], dim=2))
    assert torch.equal(logits, scores)  # the learned scale starts at 1


@pytest.mark.parametrize("name", ["small", "resnet32", "resnet32-pod"])
def test_equal_seeds_give_equal_weights_and_leave_the_global_generator(name: str) -> None:
    torch.manual_seed(11)
    state = torch.get_rng_state()
    one = build_network(NetSettings(name=name), SHAPE, HeadSettings(), 4).state_dict()
    assert torch.equal(torch.get_rng_state(), state)
    torch.rand(3)
    two = build_network(NetSettings(name=name), SHAPE, HeadSettings(), 4).state_dict()
    other = build_network(NetSettings(name=name), SHAPE, HeadSettings(), 5).state_dict()
    assert one.keys() == two.keys()
    assert all(torch.equal(one[key], two[key]) for key in one)
    first = "backbone.levels.0.entry.0.weight"
    assert not torch.equal(one[first], other[first])


@pytest.mark.parametrize("head", ["linear", "cosine", "proxies"])
@pytest.mark.parametrize("classes", [(), (5,), (5, 2, 3)])
def test_restore_takes_a_state_of_any_phase(head: str, classes: tuple[int, ...]) -> None:
    net = network(0, head, classes)
    net(pixels())  # moves the running statistics
    state = copy.deepcopy(net.state_dict())
    twin = network(1, head, (9,))
    twin.restore(state)
    assert twin.head.classes == sum(classes)
    net.eval()
    twin.eval()
    for a, b in zip(net(pixels())[2:], twin(pixels())[2:], strict=True):
        assert torch.equal(a, b)
    assert all(tensor.is_contiguous() for tensor in state.values())  # safetensors requires it


def test_a_frozen_copy_gets_no_gradient() -> None:
    net = network()
    teacher = copy.deepcopy(net).eval().requires_grad_(False)
    loss = (net(pixels()).features - teacher(pixels()).features).square().sum()
    loss.backward()
    assert all(p.grad is None for p in teacher.parameters())
    assert all(p.grad is not None for p in net.backbone.parameters())
    assert all(p.grad is None for p in net.head.parameters())


def test_float32_scores_under_autocast() -> None:
    net = network().eval()
    with torch.autocast("cpu", torch.bfloat16):
        out = net(pixels())
    assert out.maps[0].dtype == torch.bfloat16
    assert out.features.dtype == out.scores.dtype == out.logits.dtype == torch.float32
    rows = torch.cat((net.head.old, net.head.new))
    # bf16 alone would be off by up to 0.004
    exact = nn.functional.cosine_similarity(out.features[:, None], rows[None], dim=2)
    torch.testing.assert_close(out.scores, exact, rtol=0, atol=1e-6)
    out.logits.sum().backward()
    assert all(p.grad is not None and p.grad.dtype == torch.float32 for p in net.parameters())


class Own(nn.Module):
    """A user's network: batch norm, dropout, mixed modes, (n, d) out."""

    def __init__(self, maps: bool = False) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 3)
        self.norm = nn.BatchNorm2d(6)
        self.drop = nn.Dropout(0.5)
        self.maps = maps

    def forward(self, x: Tensor) -> Tensor | Features:
        x = self.norm(self.conv(x))
        vector = self.drop(x.mean(dim=(2, 3)))
        return Features(vector, (x,)) if self.maps else vector


def test_adopting_a_module_does_not_change_it() -> None:
    own = Own()
    own.norm.eval()
    before = copy.deepcopy(own.state_dict())
    state = torch.get_rng_state()
    backbone = adopt(own, SHAPE)
    assert torch.equal(torch.get_rng_state(), state)
    assert backbone.width == 6
    assert all(torch.equal(before[key], value) for key, value in own.state_dict().items())
    assert (own.training, own.norm.training, own.drop.training) == (True, False, True)
    copied = backbone.levels[0]
    assert isinstance(copied, Own)
    assert torch.equal(copied.conv.weight, own.conv.weight)
    with torch.no_grad():
        copied.conv.weight.zero_()
    assert torch.equal(own.conv.weight, before["conv.weight"])  # training the copy does not change the user's module


@pytest.mark.parametrize("maps", [False, True])
def test_own_module_in_a_network(maps: bool) -> None:
    net = build_network(Own(maps), SHAPE, HeadSettings(name="linear"), 0)
    net.head.grow(3, torch.Generator())
    out = net(pixels())
    assert out.features.shape == (4, 6)
    assert out.logits.shape == (4, 3)
    assert len(out.maps) == maps


def test_own_backbone_is_copied_as_it_is() -> None:
    original = network().backbone
    copied = adopt(original, SHAPE)
    assert isinstance(copied, Backbone)
    assert copied is not original
    assert len(copied.levels) == 2


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (nn.Conv2d(1, 4, 3), r"Conv2d failed on an input of shape \(2, 3, 8, 8\): "),
        (nn.Conv2d(3, 4, 3), r"Conv2d returned \(2, 4, 6, 6\) for 2 samples, expected a tensor of shape \(2, d\)"),
        (nn.LSTM(8, 4), "LSTM failed"),
    ],
)
def test_modules_that_do_not_fit_are_named(module: nn.Module, message: str) -> None:
    with pytest.raises(InputError, match=message):
        adopt(module, SHAPE)
