"""Backbones by name. Each line gives the import path of an entry."""

from typing import TYPE_CHECKING

from remem.errors import InputError
from remem.nets.settings import NetSettings
from remem.registry import Registry

if TYPE_CHECKING:  # a misspelt name is refused before torch is loaded
    from remem.nets.base import Backbone, BackboneEntry

BACKBONES: "Registry[BackboneEntry]" = Registry("backbone")
BACKBONES.add_lazy("small", "remem.nets.small:ENTRY")
BACKBONES.add_lazy("resnet18", "remem.nets.resnet:RESNET18")
BACKBONES.add_lazy("resnet18-pod", "remem.nets.resnet:RESNET18_POD")
BACKBONES.add_lazy("resnet32", "remem.nets.resnet:RESNET32")
BACKBONES.add_lazy("resnet32-pod", "remem.nets.resnet:RESNET32_POD")
BACKBONES.add_lazy("mlp", "remem.nets.mlp:ENTRY")
BACKBONES.add_lazy("identity", "remem.nets.identity:ENTRY")


def backbone_name(settings: NetSettings, shape: tuple[int, ...]) -> str:
    """The name of the backbone for rows of this shape; resolves `auto`."""
    return settings.name if settings.name != "auto" else ("small" if len(shape) == 3 else "mlp")


def build_backbone(settings: NetSettings, shape: tuple[int, ...]) -> "Backbone":
    """Builds the backbone that the settings name, with weights from torch's global generator."""
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
