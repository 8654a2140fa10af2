"""ResNet-18 for images of about 224 pixels and ResNet-32 for about 32 pixels, each as LUCIR and as PODNet define it."""

from functools import partial

from remem.nets.base import Backbone, BackboneEntry
from remem.nets.blocks import ResNet, Variant
from remem.nets.settings import NetSettings


def build(variant: Variant, settings: NetSettings, shape: tuple[int, ...]) -> Backbone:
    return ResNet(variant, channels=shape[-1], last_relu=bool(settings.last_relu))


def _entry(summary: str, variant: Variant) -> BackboneEntry:
    return BackboneEntry(summary, "images", frozenset({"last_relu"}), partial(build, variant))


RESNET18 = _entry(
    "ResNet-18 of LUCIR and AANets, for images of about 224 pixels",
    Variant(stem="7x7-pool", widths=(64, 128, 256, 512), strides=(1, 2, 2, 2), blocks=(2, 2, 2, 2)),
)
RESNET18_POD = _entry(
    "ResNet-18 of PODNet: fine stem (four times the work), no ReLU between stages",
    Variant(
        stem="3x3-pool",
        widths=(64, 128, 256, 512),
        strides=(1, 2, 2, 2),
        blocks=(2, 2, 2, 2),
        stage_relu=False,
        zero_residual=True,
    ),
)
RESNET32 = _entry(
    "ResNet-32 of LUCIR and AANets, for images of about 32 pixels",
    Variant(stem="3x3", widths=(16, 32, 64), strides=(1, 2, 2), blocks=(5, 5, 5)),
)
RESNET32_POD = _entry(
    "ResNet-32 of PODNet: no ReLU after additions, four stages",
    Variant(
        stem="3x3",
        widths=(16, 32, 64, 64),  # the last block is a stage of its own
        strides=(1, 2, 2, 1),
        blocks=(5, 5, 4, 1),
        shortcut="pad",
        block_relu=False,
        stage_relu=False,
        zero_residual=True,
    ),
)
