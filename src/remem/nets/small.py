"""`small`: a residual network for images of 8 to 64 pixels that trains on a CPU."""

from remem.nets.base import Backbone, BackboneEntry
from remem.nets.blocks import ResNet, Variant
from remem.nets.settings import NetSettings


def build(settings: NetSettings, shape: tuple[int, ...]) -> Backbone:
    """Every stage halves the image and doubles the channels; by default 3 stages of 2 blocks, from 16 channels."""
    blocks = settings.blocks or (2, 2, 2)
    width, stages = settings.width or 16, len(blocks)
    widths = tuple(width * 2**stage for stage in range(stages))
    variant = Variant(stem="3x3", widths=widths, strides=(1,) + (2,) * (stages - 1), blocks=blocks)
    return ResNet(variant, channels=shape[-1], last_relu=bool(settings.last_relu))


ENTRY = BackboneEntry(
    summary="residual network for small images on a CPU; width and blocks are settings",
    takes="images",
    accepts=frozenset({"width", "blocks", "last_relu"}),
    build=build,
)
