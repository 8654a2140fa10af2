"""`identity`: precomputed features, on which only the head is trained."""

from torch import Tensor, nn

from remem.nets.base import Backbone, BackboneEntry
from remem.nets.settings import NetSettings


class Identity(Backbone):
    """Returns its input; has no levels and no weights."""

    stage_relu = False

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self.levels = nn.ModuleList()

    def pool(self, x: Tensor) -> Tensor:
        return x


def build(settings: NetSettings, shape: tuple[int, ...]) -> Backbone:
    return Identity(shape[0])


ENTRY = BackboneEntry(
    summary="vectors as they are: only the head learns", takes="vectors", accepts=frozenset(), build=build
)
