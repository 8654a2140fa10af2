"""The codecs by name, and ladders of them from exact to coarse."""

from collections.abc import Sequence
from itertools import pairwise

from remem.codecs.codec import Codec, Shape
from remem.codecs.raw import Float16, Int8, Raw
from remem.codecs.reduced import Reduced
from remem.codecs.webp import WebP
from remem.codecs.ycc import Ycc420
from remem.errors import InputError
from remem.registry import Registry

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

CODECS: Registry[Codec] = Registry("codec")
_RAW = Raw("samples as they are: a byte per colour value, float32 vectors")
CODECS.add(RAW, _RAW)
CODECS.add("ycc420", Ycc420("brightness, and colour at half the resolution; 8 bits: half of raw", 8))
CODECS.add("ycc420-5", Ycc420("as ycc420, in 5 bits: 3.2 times less than raw (grey images: 1.6 times)", 5))
CODECS.add("ycc420-4", Ycc420("as ycc420, in 4 bits: 4 times less than raw (grey images: twice)", 4))
CODECS.add("half", Reduced("half the resolution, enlarged when read: 4 times less than raw", 2, _RAW, 4))
CODECS.add("quarter", Reduced("a quarter of the resolution, enlarged when read: 16 times less", 4, _RAW, 16))
_YCC = Ycc420("")
CODECS.add("half-ycc420", Reduced("half the resolution, stored as ycc420: 8 times less than raw", 2, _YCC, 4))
CODECS.add("quarter-ycc420", Reduced("a quarter of the resolution, stored as ycc420: 32 times less", 4, _YCC, 16))
CODECS.add("webp-90", WebP("WebP files of quality 90; from 32 px up", 90))
CODECS.add("webp-75", WebP("WebP files of quality 75; from 32 px up", 75))
CODECS.add("float32", Raw("vectors as they are, 4 bytes per number", images=False))
CODECS.add("float16", Float16("vectors in half precision, 2 bytes per number"))
CODECS.add("int8", Int8("vectors in one byte per number, and one scale per vector"))
CODECS.add_lazy(FILE, "remem.data.file_codec:CODEC")


def parse_codecs(text: str) -> tuple[str, ...]:
    """The names in a setting: `raw`, `raw,ycc420-5` or `ladder`. Raises on unknown ones."""
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if name != LADDER or len(names) > 1:
            try:
                CODECS[name]
            except InputError as error:
                raise InputError(f"codec: {error}") from None
    return names


def resolve_ladder(names: Sequence[str], shape: Shape, *, files: bool) -> tuple[str, ...]:
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


def _default_ladder(shape: Shape) -> tuple[str, ...]:
    if len(shape) == 1:
        return VECTOR_RUNGS
    side, raw = min(shape[:2]), CODECS[RAW].size(shape)
    fitting = [name for name, (least, most) in IMAGE_RUNGS.items() if least <= side and (most is None or side <= most)]
    # Grey images have no colour planes, so that ycc420 is raw. Images of other channels are stored as they are.
    smaller = [name for name in fitting[1:] if CODECS[name].misfit(shape) is None and CODECS[name].size(shape) != raw]
    return (RAW, *smaller)
