"""`mlp`: a small fully connected network for vectors."""

from itertools import pairwise

import torch.nn.functional as F
from torch import Tensor, nn

from remem.nets.base import Backbone, BackboneEntry
from remem.nets.settings import NetSettings


class MLP(Backbone):
    """Linear layers with batch norm and ReLU; every layer is a level and returns its pre-activation."""

    stage_relu = True

    def __init__(self, sizes: tuple[int, ...], *, batch_norm: bool, last_relu: bool) -> None:
        super().__init__()
        self.width = sizes[-1]
        self.last_relu = last_relu
        self.levels = nn.ModuleList()
        for position, (inputs, outputs) in enumerate(pairwise(sizes)):
            layer = nn.Linear(inputs, outputs, bias=not batch_norm)
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            parts: list[nn.Module] = [nn.ReLU()] if position else []
            parts += [layer, nn.BatchNorm1d(outputs)] if batch_norm else [layer]
            self.levels.append(nn.Sequential(*parts))

    def pool(self, x: Tensor) -> Tensor:
        return F.relu(x) if self.last_relu else x


def build(settings: NetSettings, shape: tuple[int, ...]) -> Backbone:
    """By default one hidden layer of 128 units, and 64 features."""
    hidden = (128,) if settings.hidden is None else settings.hidden
    return MLP(
        (shape[0], *hidden, settings.width or 64),
        batch_norm=settings.batch_norm is not False,
        last_relu=bool(settings.last_relu),
    )


ENTRY = BackboneEntry(
    summary="fully connected network for vectors; hidden layers, width and batch norm are settings",
    takes="vectors",
    accepts=frozenset({"hidden", "width", "batch_norm", "last_relu"}),
    build=build,
)
