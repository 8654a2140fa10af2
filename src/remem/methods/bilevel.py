"""The two levels of Mnemonics (Liu et al., CVPR 2020): steps on exemplars, judged on other data, differentiable."""

from collections.abc import Callable, Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

Weights = Mapping[str, Tensor]
Forward = Callable[[Weights, Tensor], Tensor]
"""(weights, inputs) -> logits."""


def trained_on(
    forward: Forward, weights: Weights, inputs: Tensor, labels: Tensor, *, rate: float, steps: int
) -> Weights:
    """The temporary model: plain gradient steps on exemplars, through which gradients flow back to the exemplars."""
    names, values = list(weights), list(weights.values())
    for _ in range(steps):
        loss = F.cross_entropy(forward(dict(zip(names, values, strict=True)), inputs), labels)
        slopes = torch.autograd.grad(loss, values, create_graph=True)
        values = [value - rate * slope for value, slope in zip(values, slopes, strict=True)]
    return dict(zip(names, values, strict=True))


def outer_loss(
    forward: Forward,
    weights: Weights,
    exemplars: tuple[Tensor, Tensor],
    judges: tuple[Tensor, Tensor],
    *,
    rate: float,
    steps: int,
) -> Tensor:
    """How well a model that was trained on the exemplars recognises the judging samples."""
    learned = trained_on(forward, weights, *exemplars, rate=rate, steps=steps)
    inputs, labels = judges
    return F.cross_entropy(forward(learned, inputs), labels)
