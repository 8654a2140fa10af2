"""`resnet32` as LUCIR and AANets use it, `resnet32-pod` as PODNet does: for images of about 32 pixels."""

from remem.nets.blocks import ResNet, Variant
from remem.nets.contract import BACKBONES, Backbone, BackboneEntry, NetSettings


def build(settings: NetSettings, shape: tuple[int, ...]) -> Backbone:
    """1x1-convolution shortcuts; ReLU after every addition but the very last."""
    variant = Variant(
        stem="3x3",
        widths=(16, 32, 64),
        strides=(1, 2, 2),
        blocks=(5, 5, 5),
        shortcut="conv",
        block_relu=True,
        stage_relu=True,
        last_relu=bool(settings.last_relu),
        zero_residual=False,
    )
    return ResNet(variant, channels=shape[-1])


def build_pod(settings: NetSettings, shape: tuple[int, ...]) -> Backbone:
    """Zero-padded shortcuts, no ReLU after any addition, and the last block as a stage of its own."""
    variant = Variant(
        stem="3x3",
        widths=(16, 32, 64, 64),
        strides=(1, 2, 2, 1),
        blocks=(5, 5, 4, 1),
        shortcut="pad",
        block_relu=False,
        stage_relu=False,
        last_relu=bool(settings.last_relu),
        zero_residual=True,
    )
    return ResNet(variant, channels=shape[-1])


BACKBONES.add(
    "resnet32",
    BackboneEntry(
        summary="ResNet-32 of LUCIR and AANets, for images of about 32 pixels",
        takes="images",
        accepts=frozenset({"last_relu"}),
        build=build,
    ),
)
BACKBONES.add(
    "resnet32-pod",
    BackboneEntry(
        summary="ResNet-32 of PODNet: no ReLU after additions, four stages",
        takes="images",
        accepts=frozenset({"last_relu"}),
        build=build_pod,
    ),
)
