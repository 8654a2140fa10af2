"""Every registered backbone builds for its kind of input, refuses the other kind, and works in a network."""

import pytest
import torch

from remem.errors import InputError
from remem.nets.backbones import BACKBONES, build_backbone
from remem.nets.network import build_network
from remem.nets.settings import HeadSettings, NetSettings

SHAPES: dict[str, tuple[int, ...]] = {"images": (32, 32, 3), "vectors": (10,)}
INPUTS = {"images": (2, 3, 32, 32), "vectors": (2, 10)}


@pytest.mark.parametrize("name", BACKBONES)
def test_it_works_for_its_kind_of_input(name: str) -> None:
    kind = BACKBONES[name].takes
    network = build_network(NetSettings(name=name), SHAPES[kind], HeadSettings(name="cosine"), 0).eval()
    network.head.grow(3, torch.Generator().manual_seed(0))
    with torch.no_grad():
        output = network(torch.rand(INPUTS[kind], generator=torch.Generator().manual_seed(1)) * 255)
    assert output.features.shape == (2, network.backbone.width)
    assert output.logits.shape == output.scores.shape == (2, 3)
    assert len(output.maps) == (len(network.backbone.levels) if kind == "images" else 0)
    assert output.features.isfinite().all()
    assert BACKBONES[name].summary


@pytest.mark.parametrize("name", BACKBONES)
def test_it_refuses_the_other_kind(name: str) -> None:
    other = "vectors" if BACKBONES[name].takes == "images" else "images"
    with pytest.raises(InputError, match=f"net.name: backbone '{name}' takes {BACKBONES[name].takes}"):
        build_backbone(NetSettings(name=name), SHAPES[other])
