"""The codecs by name, and ladders of them from exact to coarse."""

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from remem.errors import InputError
from remem.registry import Registry

if TYPE_CHECKING:
    from remem.codecs.codec import Codec, Shape

RAW, LADDER, FILE = "raw", "ladder", "file"
# What `ladder` stands for, from exact to coarse, with the smallest and largest side of the images that have this rung.
# At 32 px webp-75 takes fewer bytes than half-ycc420 and loses less.
IMAGE_RUNGS = {
    "raw": (1, None),
    "ycc420": (1, None),
    "ycc420-5": (1, None),
    "ycc420-4": (1, None),
    "half-ycc420": (16, 31),
    "webp-90": (32, None),
    "webp-75": (32, None),
    "quarter-ycc420": (64, None),
}
VECTOR_RUNGS = ("raw", "float16", "int8")

CODECS: Registry["Codec"] = Registry("codec")
for _module, _names in {
    "codecs.raw": ("raw", "float32", "float16", "int8"),
    "codecs.ycc": ("ycc420", "ycc420-5", "ycc420-4"),
    "codecs.reduced": ("half", "quarter", "half-ycc420", "quarter-ycc420"),
    "codecs.webp": ("webp-90", "webp-75"),
    "data.file_codec": ("file",),
}.items():
    for _name in _names:
        CODECS.add_lazy(_name, f"remem.{_module}:{_name.upper().replace('-', '_')}")


def parse_codecs(text: str) -> tuple[str, ...]:
    """The names in a setting: `raw`, `raw,ycc420-5` or `ladder`. Raises on unknown ones."""
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if name != LADDER or len(names) > 1:
            try:
                CODECS.require(name)
            except InputError as error:
                raise InputError(f"codec: {error}") from None
    return names


def resolve_ladder(names: Sequence[str], shape: "Shape", *, files: bool) -> tuple[str, ...]:
    """The rungs for samples of this shape, from exact to coarse. `files` says whether samples are files of a folder."""
    if tuple(names) == (LADDER,):
        return _default_ladder(shape)
    for name in names:
        if (takes := CODECS[name].misfit(shape)) is not None:
            raise InputError(f"codec: {name} given for samples of shape {shape}; it takes {takes}")
    if FILE in names and (not files or names[0] != FILE):
        raise InputError(f"codec: {FILE} given; expected it first, and image files as data (folder:PATH)")
    sizes = [CODECS[name].size(shape) for name in names]
    known = [size for size in sizes if size is not None]
    if len(set(names)) < len(names) or any(after >= before for before, after in pairwise(known)):
        raise InputError(f"codec: {','.join(names)} given; expected each rung to be smaller than the one before it")
    return tuple(names)


def _default_ladder(shape: "Shape") -> tuple[str, ...]:
    if len(shape) == 1:
        return VECTOR_RUNGS
    side, raw = min(shape[:2]), CODECS[RAW].size(shape)
    fitting = [name for name, (least, most) in IMAGE_RUNGS.items() if least <= side and (most is None or side <= most)]
    # Grey images have no colour planes, so that ycc420 is raw. Images of other channels are stored as they are.
    smaller = [name for name in fitting[1:] if CODECS[name].misfit(shape) is None and CODECS[name].size(shape) != raw]
    return (RAW, *smaller)
