"""The backbone of AANets (Liu et al., CVPR 2021): a stable and a plastic branch, mixed at every residual level."""

import copy

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from remem.nets.base import Backbone, Features


class Scaled(nn.Module):
    """A layer with frozen kernels and one learned factor per kernel, initially 1."""

    kernel: Tensor
    bias: Tensor | None

    def __init__(self, layer: nn.Conv2d | nn.Linear) -> None:
        super().__init__()
        self.register_buffer("kernel", layer.weight.detach().clone())
        self.register_buffer("bias", None if layer.bias is None else layer.bias.detach().clone())
        kernels = layer.weight.shape[:2]
        self.factor = nn.Parameter(torch.ones(*kernels, *(1,) * (layer.weight.dim() - 2), device=layer.weight.device))
        self._layer = (_without_weights(layer),)  # in a tuple, so that torch does not register it as a submodule

    def forward(self, x: Tensor) -> Tensor:
        layer, kernel = self._layer[0], self.kernel * self.factor
        if isinstance(layer, nn.Linear):
            return F.linear(x, kernel, self.bias)
        out: Tensor = layer._conv_forward(x, kernel, self.bias)
        return out


def _without_weights(layer: nn.Conv2d | nn.Linear) -> nn.Conv2d | nn.Linear:
    """A shallow copy that keeps stride, padding and the like, but no weights."""
    bare = copy.copy(layer)
    bare._parameters = {"weight": None, "bias": None}
    return bare


class TwoBranch(Backbone):
    """Both branches get the same mixed input at every level; `weights` has the stable branch's weight per level."""

    def __init__(self, backbone: Backbone) -> None:
        super().__init__()
        self.width = backbone.width
        self.stage_relu = backbone.stage_relu
        self.stable = stabilised(backbone.levels)
        self.plastic = backbone
        self.weights = nn.Parameter(torch.full((len(backbone.levels),), 0.5, device=_device(backbone)))

    def pool(self, x: Tensor) -> Tensor:
        return self.plastic.pool(x)

    def forward(self, x: Tensor) -> Features:
        maps = []
        last = len(self.stable) - 1
        for level, (stable, plastic) in enumerate(zip(self.stable, self.plastic.levels, strict=True)):
            weight, one, other = self.weights[level], stable(x), plastic(x)
            maps.append(weight * one + (1 - weight) * other)
            # Branches are mixed after the ReLU that ends a level, if the variant has one. The maps are mixed before
            # it, as PODNet distils pre-activations.
            relu = self.stage_relu and level < last
            x = weight * F.relu(one) + (1 - weight) * F.relu(other) if relu else maps[-1]
        return Features(self.pool(x), tuple(maps) if x.dim() == 4 else ())


def stabilised(levels: nn.ModuleList) -> nn.ModuleList:
    """A copy with frozen kernels and one learned factor per kernel; batch norms stay trainable."""
    copies = copy.deepcopy(levels)
    for module in list(copies.modules()):
        for name, child in module.named_children():
            if isinstance(child, nn.Conv2d | nn.Linear):
                setattr(module, name, Scaled(child))
    return copies


def _device(module: nn.Module) -> torch.device:
    return next(module.parameters()).device
