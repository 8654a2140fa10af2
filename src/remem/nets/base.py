"""The interface of backbones, and what one forward pass of a network returns."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from torch import Tensor, nn

from remem.nets.settings import NetSettings


class Features(NamedTuple):
    """The output of a backbone."""

    vector: Tensor  # (n, d); can be negative unless the backbone ends in a ReLU
    maps: tuple[Tensor, ...]  # stage outputs (n, c, h, w) before the ReLU that follows them; () for vectors


class Output(NamedTuple):
    """The output of a network; `scores` and `logits` are float32 even under autocast."""

    features: Tensor  # (n, d)
    maps: tuple[Tensor, ...]
    scores: Tensor  # (n, C) before the learned scale
    logits: Tensor  # (n, C) as the loss takes them


class Backbone(nn.Module):
    """A chain of levels, each mapping pre-activations to pre-activations, followed by pooling.

    AANets runs two copies of a backbone level by level and mixes their outputs.
    """

    width: int  # d, the number of features
    levels: nn.ModuleList
    stage_relu: bool  # whether a level starts with the ReLU that ends the previous level

    def pool(self, x: Tensor) -> Tensor:
        """Maps the last level's output to features (n, d)."""
        raise NotImplementedError

    def forward(self, x: Tensor) -> Features:
        maps = []
        for level in self.levels:
            x = level(x)
            maps.append(x)
        return Features(self.pool(x), tuple(maps) if x.dim() == 4 else ())


@dataclass(frozen=True)
class BackboneEntry:
    """A registered backbone; `build` takes the settings and the shape of one row: (h, w, c) or (d,)."""

    summary: str
    takes: Literal["images", "vectors"]
    accepts: frozenset[str]  # the settings that this backbone has
    build: Callable[[NetSettings, tuple[int, ...]], Backbone]
