"""What every backbone promises: its settings, its levels, and what one forward pass returns."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple

from pydantic import Field
from torch import Tensor, nn

from remem.errors import InputError
from remem.registry import Registry
from remem.settings import Settings

Count = Annotated[int, Field(ge=1, le=65536)]


class Features(NamedTuple):
    """What a backbone returns."""

    vector: Tensor  # (n, d), signed where the last ReLU is off
    maps: tuple[Tensor, ...]  # stage outputs (n, c, h, w) before the ReLU that follows them; () for vectors


class Output(NamedTuple):
    """What a network returns; `scores` and `logits` are float32 even under autocast."""

    features: Tensor  # (n, d)
    maps: tuple[Tensor, ...]
    scores: Tensor  # (n, C) before the learned scale
    logits: Tensor  # (n, C) as the loss takes them


class NetSettings(Settings):
    """Which backbone, and what differs from its own defaults (None: the default of that backbone)."""

    name: str = "auto"  # `small` for images, `mlp` for vectors
    width: Count | None = None  # channels of the first stage; for `mlp` the number of features
    blocks: Annotated[tuple[Count, ...], Field(min_length=1)] | None = None  # residual blocks of each stage
    hidden: tuple[Count, ...] | None = None  # units of each hidden layer
    batch_norm: bool | None = None
    last_relu: bool | None = None


class Backbone(nn.Module):
    """A chain of levels, each taking and returning a map before its ReLU, then pooling.

    Levels are what AANets aggregates: a wrapper may run two copies level by level.
    """

    width: int  # d, the number of features
    levels: nn.ModuleList
    stage_relu: bool  # whether a level begins with the ReLU that ends the level before it

    def pool(self, x: Tensor) -> Tensor:
        """The last level's output -> features (n, d)."""
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
    accepts: frozenset[str]  # names of the settings that mean something here
    build: Callable[[NetSettings, tuple[int, ...]], Backbone]


BACKBONES: Registry[BackboneEntry] = Registry("backbone")


def backbone_name(settings: NetSettings, shape: tuple[int, ...]) -> str:
    """What `auto` means for rows of this shape."""
    return settings.name if settings.name != "auto" else ("small" if len(shape) == 3 else "mlp")


def build_backbone(settings: NetSettings, shape: tuple[int, ...]) -> Backbone:
    """The backbone that the settings name, with weights from torch's global generator."""
    settings = settings.model_copy(update={"name": backbone_name(settings, shape)})
    entry = BACKBONES[settings.name]
    given = settings.model_dump(exclude={"name"}, exclude_none=True)
    for field, value in given.items():
        if field not in entry.accepts:
            known = ", ".join(sorted(entry.accepts))
            raise InputError(f"net.{field}: {value} given, but backbone '{settings.name}' has only: {known}")
    kind = "images" if len(shape) == 3 else "vectors"
    if kind != entry.takes:
        raise InputError(f"net.name: backbone '{settings.name}' takes {entry.takes}, the data are {kind} {shape}")
    return entry.build(settings, shape)
