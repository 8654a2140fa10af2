"""`identity`: features that were computed before; only a head learns on them."""

from torch import Tensor, nn

from remem.nets.contract import BACKBONES, Backbone, BackboneEntry, NetSettings


class Identity(Backbone):
    """Vectors are their own features: no level, no weight."""

    stage_relu = False

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self.levels = nn.ModuleList()

    def pool(self, x: Tensor) -> Tensor:
        return x


def build(settings: NetSettings, shape: tuple[int, ...]) -> Backbone:
    return Identity(shape[0])


BACKBONES.add(
    "identity",
    BackboneEntry(
        summary="vectors as they are: only the head learns", takes="vectors", accepts=frozenset(), build=build
    ),
)
