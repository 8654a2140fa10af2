"""Backbones: sizes, shapes, which maps they return, and where their ReLUs are."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from remem.errors import InputError
from remem.nets.backbones import BACKBONES, build_backbone
from remem.nets.blocks import Block, Level, PadShortcut, ResNet
from remem.nets.settings import NetSettings

IMAGE_NETS = ["small", "resnet32", "resnet32-pod", "resnet18", "resnet18-pod"]


def images(side: int, channels: int = 3, count: int = 2) -> Tensor:
    generator = torch.Generator().manual_seed(side)
    return torch.randn(count, channels, side, side, generator=generator)


def resnet(name: str, side: int = 32, channels: int = 3, **settings: object) -> ResNet:
    """A backbone whose zero-initialised batch norms are set to one, so that every branch has an effect."""
    torch.manual_seed(1)
    net = build_backbone(NetSettings.model_validate({"name": name, **settings}), (side, side, channels))
    assert isinstance(net, ResNet)
    for module in net.modules():
        if isinstance(module, Block):
            nn.init.ones_(module.norm2.weight)
    return net


def test_every_registered_backbone_is_tested() -> None:
    assert set(BACKBONES) == {*IMAGE_NETS, "mlp", "identity"}


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("resnet32", 466_256),
        ("resnet32-pod", 463_504),
        ("resnet18", 11_689_512 - 513_000),  # torchvision's ResNet-18 without its classifier of 1000 classes
        ("resnet18-pod", 11_689_512 - 513_000 - 64 * 3 * (49 - 9)),  # a 3x3 stem instead of 7x7
    ],
)
def test_parameter_count_of_the_published_networks(name: str, parameters: int) -> None:
    assert sum(p.numel() for p in resnet(name).parameters()) == parameters


def test_parameter_count_of_a_small_network_by_hand() -> None:
    net = resnet("small", channels=1, width=4, blocks=(1, 1))
    stem = 1 * 4 * 9 + 2 * 4
    first = 2 * (4 * 4 * 9 + 2 * 4)
    second = (4 * 8 * 9 + 2 * 8) + (8 * 8 * 9 + 2 * 8) + (4 * 8 + 2 * 8)
    assert sum(p.numel() for p in net.parameters()) == stem + first + second


@pytest.mark.parametrize(
    ("name", "side", "channels", "sides"),
    [
        ("small", 8, 1, [8, 4, 2]),
        ("small", 16, 3, [16, 8, 4]),
        ("small", 32, 3, [32, 16, 8]),
        ("small", 48, 3, [48, 24, 12]),
        ("small", 13, 3, [13, 7, 4]),
        ("resnet32", 8, 1, [8, 4, 2]),
        ("resnet32", 32, 3, [32, 16, 8]),
        ("resnet32", 48, 3, [48, 24, 12]),
        ("resnet32-pod", 16, 3, [16, 8, 4, 4]),
        ("resnet32-pod", 32, 3, [32, 16, 8, 8]),
        ("resnet32-pod", 13, 3, [13, 7, 4, 4]),
        ("resnet18", 64, 3, [16, 8, 4, 2]),
        ("resnet18-pod", 32, 3, [16, 8, 4, 2]),
        ("resnet18", 224, 3, [56, 28, 14, 7]),
        ("resnet18-pod", 64, 3, [32, 16, 8, 4]),
    ],
)
def test_shapes(name: str, side: int, channels: int, sides: list[int]) -> None:
    net = resnet(name, side, channels).eval()
    with torch.no_grad():
        vector, maps = net(images(side, channels))
    assert vector.shape == (2, net.width)
    assert [m.shape[-1] for m in maps] == sides
    assert [m.shape[-2] for m in maps] == sides
    assert maps[-1].shape[1] == net.width
    assert len(net.levels) == len(maps)


@pytest.mark.parametrize("name", IMAGE_NETS)
def test_maps_are_before_their_relu_and_features_are_signed(name: str) -> None:
    net = resnet(name)
    for module in net.modules():
        # without a bias the sums drift upwards with depth at random weights; this keeps both signs in every map
        if isinstance(module, Block):
            nn.init.constant_(module.norm2.bias, -1.0)
    vector, maps = net(images(32, count=4))
    assert all(m.min() < 0 < m.max() for m in maps)
    assert vector.min() < 0
    torch.testing.assert_close(vector, maps[-1].mean(dim=(2, 3)))


@pytest.mark.parametrize("name", ["small", "resnet32-pod"])
def test_last_relu_acts_before_pooling(name: str) -> None:
    signed, cut = resnet(name).eval(), resnet(name, last_relu=True).eval()
    x = images(32)
    torch.testing.assert_close(cut(x).vector, F.relu(signed(x).maps[-1]).mean(dim=(2, 3)))
    assert torch.equal(cut(x).maps[-1], signed(x).maps[-1])


def plain_forward(net: ResNet, x: Tensor, relu_after: set[int]) -> Tensor:
    """An independent implementation: all blocks in sequence, a ReLU after those in `relu_after`."""
    first = net.levels[0]
    assert isinstance(first, Level)
    x = first.entry(x)
    blocks = [module for module in net.modules() if isinstance(module, Block)]
    for number, block in enumerate(blocks, start=1):
        branch = block.norm2(block.conv2(block.norm1(block.conv1(x)).clamp(min=0)))
        x = branch + block.shortcut(x)
        if number in relu_after:
            x = x.clamp(min=0)
    return x.mean(dim=(2, 3))


@pytest.mark.parametrize(
    ("name", "relu_after"),
    [
        ("small", set(range(1, 6))),  # after every addition but the last
        ("resnet32", set(range(1, 15))),
        ("resnet32-pod", set()),  # after none
        ("resnet18", set(range(1, 8))),
        ("resnet18-pod", {1, 3, 5, 7}),  # after the first block of each stage only
    ],
)
def test_relus_are_where_the_papers_code_has_them(name: str, relu_after: set[int]) -> None:
    net = resnet(name).eval()
    x = images(32)
    torch.testing.assert_close(net(x).vector, plain_forward(net, x, relu_after))


@pytest.mark.parametrize("name", ["small", "resnet32", "resnet32-pod"])
def test_running_the_levels_by_hand_equals_forward(name: str) -> None:
    net = resnet(name).eval()
    x = images(16)
    expected = net(x)
    for level, map_ in zip(net.levels, expected.maps, strict=True):
        x = level(x)
        assert torch.equal(x, map_)
    assert torch.equal(net.pool(x), expected.vector)


@pytest.mark.parametrize("name", ["small", "resnet32"])
def test_a_level_begins_with_the_relu_of_the_level_before(name: str) -> None:
    net = resnet(name).eval()
    assert net.stage_relu
    x = net.levels[0](images(16))
    assert torch.equal(net.levels[1](x), net.levels[1](F.relu(x)))


def test_pod_variants_have_no_relu_between_levels() -> None:
    for name in ("resnet32-pod", "resnet18-pod"):
        net = resnet(name).eval()
        assert not net.stage_relu
        x = images(16, channels=16 if name == "resnet32-pod" else 64)
        assert not torch.allclose(net.levels[1](x), net.levels[1](F.relu(x)))


def test_pad_shortcut_takes_every_second_pixel_and_adds_zero_channels() -> None:
    x = torch.arange(9.0).view(1, 1, 3, 3)
    expected = torch.tensor([[[[0.0, 2.0], [6.0, 8.0]], [[0.0, 0.0], [0.0, 0.0]]]])
    assert torch.equal(PadShortcut(missing=1, stride=2)(x), expected)


def test_initial_weights() -> None:
    torch.manual_seed(0)
    net = build_backbone(NetSettings(name="resnet32-pod"), (32, 32, 3))
    blocks = [module for module in net.modules() if isinstance(module, Block)]
    assert len(blocks) == 15
    assert all(block.norm2.weight.abs().max() == 0 for block in blocks)
    assert all(torch.equal(block.norm1.weight, torch.ones_like(block.norm1.weight)) for block in blocks)
    last = blocks[-1].conv2.weight
    # Kaiming-normal, fan out: variance 2 / (64 * 9); 36,864 draws put the sample value within 3 % (4 sigma)
    assert last.var().item() == pytest.approx(2 / (64 * 9), rel=0.03)


def test_gradient_reaches_every_parameter() -> None:
    for name in ("small", "resnet32-pod"):
        net = resnet(name)
        vector, _ = net(images(16, count=4))
        vector.square().sum().backward()
        assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in net.parameters())


def mlp(**settings: object) -> nn.Module:
    torch.manual_seed(2)
    return build_backbone(NetSettings.model_validate({"name": "mlp", **settings}), (6,))


def test_identity_has_no_weights_and_returns_its_input() -> None:
    net = build_backbone(NetSettings(name="identity"), (5,))
    x = torch.randn(3, 5)
    assert torch.equal(net(x).vector, x)
    assert net(x).maps == ()
    assert net.width == 5
    assert not list(net.parameters())


def test_mlp_is_linear_relu_linear() -> None:
    net = mlp(hidden=(5,), width=3, batch_norm=False)
    x = torch.randn(7, 6)
    first, second = (module for module in net.modules() if isinstance(module, nn.Linear))
    vector, maps = net(x)
    torch.testing.assert_close(vector, (x @ first.weight.T + first.bias).clamp(min=0) @ second.weight.T + second.bias)
    assert maps == ()
    assert vector.min() < 0


def test_mlp_settings() -> None:
    assert sum(p.numel() for p in mlp().parameters()) == 6 * 128 + 2 * 128 + 128 * 64 + 2 * 64
    assert sum(p.numel() for p in mlp(hidden=(), width=4).parameters()) == 6 * 4 + 2 * 4
    assert mlp(last_relu=True)(torch.randn(9, 6)).vector.min() == 0


@pytest.mark.parametrize(
    ("settings", "shape", "message"),
    [
        ({"name": "smal"}, (8, 8, 1), "no backbone named 'smal'; did you mean 'small'?"),
        ({"name": "small", "hidden": (3,)}, (8, 8, 1), "net.hidden: .* 'small' has only: blocks, last_relu, width"),
        ({"name": "resnet32", "width": 8}, (8, 8, 1), "net.width: 8 given"),
        ({"name": "mlp"}, (8, 8, 1), "backbone 'mlp' takes vectors, the data are images"),
        ({"name": "small"}, (8,), "backbone 'small' takes images, the data are vectors"),
    ],
)
def test_wrong_settings_are_named(settings: dict[str, object], shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        build_backbone(NetSettings.model_validate(settings), shape)


@pytest.mark.parametrize("wrong", [{"width": 0}, {"blocks": ()}, {"blocks": (0,)}, {"layers": 3}])
def test_settings_refuse_bad_values(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="NetSettings"):
        NetSettings.model_validate(wrong)
