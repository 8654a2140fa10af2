"""The bilevel problem of Mnemonics (Liu et al., CVPR 2020): a differentiable loss of models trained on exemplars."""

from collections.abc import Callable, Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

Weights = Mapping[str, Tensor]
Forward = Callable[[Weights, Tensor], Tensor]
"""(weights, inputs) -> logits."""


def trained_on(forward: Forward, weights: Weights, inputs: Tensor, labels: Tensor, *, lr: float, steps: int) -> Weights:
    """The inner level: weights after gradient steps on exemplars, differentiable with respect to the exemplars."""
    names, values = list(weights), list(weights.values())
    for _ in range(steps):
        loss = F.cross_entropy(forward(dict(zip(names, values, strict=True)), inputs), labels)
        grads = torch.autograd.grad(loss, values, create_graph=True)
        values = [value - lr * grad for value, grad in zip(values, grads, strict=True)]
    return dict(zip(names, values, strict=True))


def outer_loss(
    forward: Forward,
    weights: Weights,
    exemplars: tuple[Tensor, Tensor],
    targets: tuple[Tensor, Tensor],
    *,
    lr: float,
    steps: int,
) -> Tensor:
    """The outer level: cross-entropy on the target samples of a model trained on the exemplars."""
    learned = trained_on(forward, weights, *exemplars, lr=lr, steps=steps)
    inputs, labels = targets
    return F.cross_entropy(forward(learned, inputs), labels)
