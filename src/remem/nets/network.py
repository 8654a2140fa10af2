"""The network: normalisation, backbone and head in one `forward`; built from settings or from a user's module."""

import copy
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from remem.errors import InputError
from remem.nets.backbones import build_backbone
from remem.nets.base import Backbone, Features, Output
from remem.nets.heads import HEADS, Head
from remem.nets.settings import HeadSettings, NetSettings


class Network(nn.Module):
    """Maps raw samples to everything a loss may need in one `forward`, the only method under Fabric's autocast."""

    mean: Tensor  # (c,) on the scale 0..255, or (d,) for vectors
    std: Tensor

    def __init__(self, backbone: Backbone, head: Head, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = head
        self.register_buffer("mean", torch.zeros(len(mean)))
        self.register_buffer("std", torch.ones(len(std)))
        self.normalise_by(torch.tensor(mean), torch.tensor(std))

    def normalise_by(self, mean: Tensor, std: Tensor) -> None:
        """Sets the mean and standard deviation that inputs are normalised with."""
        self.mean.copy_(mean)
        # a constant dimension has a deviation of 0; dividing by it would give NaN
        self.std.copy_(torch.where(std > 0, std, 1.0))

    def forward(self, x: Tensor) -> Output:
        """Images (n, c, h, w) with values 0..255, or vectors (n, d); float32."""
        features: Features = self.backbone(self.normalised(x))
        vector = features.vector.float()
        scores, logits = self.head(vector)
        return Output(vector, features.maps, scores, logits)

    def normalised(self, x: Tensor) -> Tensor:
        if x.dim() == 2:
            return (x - self.mean).div_(self.std)
        return (x - self.mean.view(-1, 1, 1)).div_(self.std.view(-1, 1, 1))

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Loads a state dict of any phase; the head takes its sizes from it."""
        self.head.grow_to(len(state["head.old"]), len(state["head.new"]))
        self.load_state_dict(state)


class Adopted(Backbone):
    """A user's module as a backbone with one level; its inputs are normalised."""

    stage_relu = False

    def __init__(self, module: nn.Module, width: int) -> None:
        super().__init__()
        self.levels = nn.ModuleList([module])
        self.width = width

    def pool(self, x: Tensor) -> Tensor:
        return x

    def forward(self, x: Tensor) -> Features:
        result = self.levels[0](x)
        return result if isinstance(result, Features) else Features(result, ())


def adopt(module: nn.Module, shape: tuple[int, ...]) -> Backbone:
    """Copies a module that returns (n, d) or `Features`; a trial forward pass on another copy determines d."""
    if isinstance(module, Backbone):
        return copy.deepcopy(module)
    name = type(module).__name__
    size = (shape[-1], *shape[:-1])  # rows are (h, w, c), networks take (c, h, w); (d,) is unchanged
    try:
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            result = copy.deepcopy(module).cpu().eval()(torch.zeros(2, *size, device="cpu"))
    except Exception as error:  # a user's module can raise anything
        line = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"backbone: {name} failed on an input of shape {(2, *size)}: {line}") from error
    vector = result.vector if isinstance(result, Features) else result
    if not isinstance(vector, Tensor) or vector.dim() != 2 or len(vector) != 2:
        returned = tuple(vector.shape) if isinstance(vector, Tensor) else type(vector).__name__
        raise InputError(f"backbone: {name} returned {returned} for 2 samples, expected a tensor of shape (2, d)")
    return Adopted(copy.deepcopy(module), width=vector.shape[1])


def build_network(
    net: NetSettings | nn.Module,
    shape: tuple[int, ...],
    head: HeadSettings,
    seed: int,
    *,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
) -> Network:
    """Builds a network without classes for rows of this shape.

    Equal seeds give equal weights, and torch's global generator is not changed. Without `mean` and `std`, images are
    scaled to [0, 1] and vectors are not normalised.
    """
    channels = shape[-1]
    mean = (0.0,) * channels if mean is None else mean
    std = (255.0 if len(shape) == 3 else 1.0,) * channels if std is None else std
    for field, values in (("mean", mean), ("std", std)):
        if len(values) != channels:
            raise InputError(f"{field}: {len(values)} values given, expected {channels} for rows of shape {shape}")
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would also seed the accelerators
        backbone = adopt(net, shape) if isinstance(net, nn.Module) else build_backbone(net, shape)
        return Network(backbone, HEADS[head.name].build(head, backbone.width), mean, std)
