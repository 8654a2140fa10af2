"""`resnet18` as LUCIR and AANets use it, `resnet18-pod` as PODNet does: for images of about 224 pixels."""

from remem.nets.blocks import ResNet, Variant
from remem.nets.contract import BACKBONES, Backbone, BackboneEntry, NetSettings


def build(settings: NetSettings, shape: tuple[int, ...]) -> Backbone:
    """The usual layout with a 7x7 stem of stride 2; ReLU after every addition but the very last."""
    variant = Variant(
        stem="7x7-pool",
        widths=(64, 128, 256, 512),
        strides=(1, 2, 2, 2),
        blocks=(2, 2, 2, 2),
        shortcut="conv",
        block_relu=True,
        stage_relu=True,
        last_relu=bool(settings.last_relu),
        zero_residual=False,
    )
    return ResNet(variant, channels=shape[-1])


def build_pod(settings: NetSettings, shape: tuple[int, ...]) -> Backbone:
    """A 3x3 stem of stride 1; a ReLU between the two blocks of a stage, none between stages."""
    variant = Variant(
        stem="3x3-pool",
        widths=(64, 128, 256, 512),
        strides=(1, 2, 2, 2),
        blocks=(2, 2, 2, 2),
        shortcut="conv",
        block_relu=True,
        stage_relu=False,
        last_relu=bool(settings.last_relu),
        zero_residual=True,
    )
    return ResNet(variant, channels=shape[-1])


BACKBONES.add(
    "resnet18",
    BackboneEntry(
        summary="ResNet-18 of LUCIR and AANets, for images of about 224 pixels",
        takes="images",
        accepts=frozenset({"last_relu"}),
        build=build,
    ),
)
BACKBONES.add(
    "resnet18-pod",
    BackboneEntry(
        summary="ResNet-18 of PODNet: fine stem (four times the work), no ReLU between stages",
        takes="images",
        accepts=frozenset({"last_relu"}),
        build=build_pod,
    ),
)
