"""`small`: a residual network for images of 8 to 64 pixels that trains on a CPU."""

from remem.nets.blocks import ResNet, Variant
from remem.nets.contract import BACKBONES, Backbone, BackboneEntry, NetSettings


def build(settings: NetSettings, shape: tuple[int, ...]) -> Backbone:
    """Stages that halve the image and double the channels; 16 channels and 3 x 2 blocks unless told otherwise."""
    blocks = settings.blocks or (2, 2, 2)
    width = settings.width or 16
    stages = len(blocks)
    variant = Variant(
        stem="3x3",
        widths=tuple(width * 2**stage for stage in range(stages)),
        strides=(1,) + (2,) * (stages - 1),
        blocks=blocks,
        shortcut="conv",
        block_relu=True,
        stage_relu=True,
        last_relu=bool(settings.last_relu),
        zero_residual=False,
    )
    return ResNet(variant, channels=shape[-1])


BACKBONES.add(
    "small",
    BackboneEntry(
        summary="residual network for small images on a CPU; width and blocks are settings",
        takes="images",
        accepts=frozenset({"width", "blocks", "last_relu"}),
        build=build,
    ),
)
