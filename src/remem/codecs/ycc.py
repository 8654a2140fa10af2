"""`ycc420` and its coarser forms: brightness at full resolution, colour at half of it, in 8, 5 or 4 bits.

Whole-number arithmetic throughout (BT.601 in 16-bit fixed point, as in JPEG), so that every processor gives the same
bytes. Grey images have no colour planes.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from remem.codecs.codec import Codes, FixedSize, Shape, is_image
from remem.codecs.packing import pack_bits, packed_size, unpack_bits
from remem.types import Values

Levels = NDArray[np.uint8]

HALF = 1 << 15  # one half in 16-bit fixed point
CENTRE = 128  # of both colour planes
TO_BLUE, TO_RED = 116130, 91881  # what a step of Cb adds to blue, and of Cr to red
GREEN_OF_BLUE, GREEN_OF_RED = 22554, 46802  # what they take from green


@dataclass(frozen=True)
class Ycc420(FixedSize):
    """Planes Y, Cb, Cr one after another; each value in `bits` bits, packed."""

    summary: str
    bits: int = 8

    def misfit(self, shape: Shape) -> str | None:
        return None if is_image(shape) else "grey or colour images"

    def size(self, shape: Shape) -> int:
        return packed_size(_values(shape), self.bits)

    def pack(self, values: Values) -> Codes:
        planes, luma = _planes(values), values.shape[1] * values.shape[2]
        parts = [self._coarse[planes[:, :luma]], self._coarse_colour[planes[:, luma:]]]
        return pack_bits(np.concatenate(parts, axis=1), self.bits)

    def unpack(self, codes: Codes, shape: Shape) -> Values:
        numbers, luma = unpack_bits(codes, self.bits, _values(shape)), shape[0] * shape[1]
        return _pixels(self._restored[numbers[:, :luma]], self._restored_colour[numbers[:, luma:]], shape)

    @cached_property
    def _coarse(self) -> Levels:
        """0..255 -> 0..2^bits - 1, rounded."""
        most = 2**self.bits - 1
        return np.asarray(((np.arange(256) * most + 127) // 255), np.uint8)

    @cached_property
    def _restored(self) -> Levels:
        """The inverse of `_coarse`. Black and white stay black and white."""
        most = 2**self.bits - 1
        return np.asarray(((np.arange(most + 1) * 255 + most // 2) // most), np.uint8)

    @cached_property
    def _coarse_colour(self) -> Levels:
        """Steps with a level at 128, so that grey stays grey."""
        step = 2 ** (8 - self.bits)
        return np.asarray(np.minimum((np.arange(256) + step // 2) // step, 2**self.bits - 1), np.uint8)

    @cached_property
    def _restored_colour(self) -> Levels:
        return np.asarray((np.arange(2**self.bits) * 2 ** (8 - self.bits)), np.uint8)


def _values(shape: Shape) -> int:
    height, width, channels = shape
    colour = 2 * -(-height // 2) * -(-width // 2) if channels == 3 else 0
    return height * width + colour


def _planes(images: Values) -> NDArray[np.uint8]:
    """Y at full size, then the means of Cb and of Cr over squares of two by two, (n, values)."""
    count = len(images)
    if images.shape[3] == 1:
        return images.reshape(count, -1)
    red, green, blue = (images[..., channel].astype(np.int32) for channel in range(3))
    luma = (19595 * red + 38470 * green + 7471 * blue + HALF) >> 16
    cb = ((-11059 * red - 21709 * green + 32768 * blue + HALF - 1) >> 16) + CENTRE
    cr = ((32768 * red - 27439 * green - 5329 * blue + HALF - 1) >> 16) + CENTRE
    planes = (luma, _halved(cb), _halved(cr))
    return np.concatenate([plane.reshape(count, -1) for plane in planes], axis=1).astype(np.uint8)


def _halved(plane: NDArray[np.int32]) -> NDArray[np.int32]:
    """Means of squares of two by two, rounded; the last row and column of an odd side count twice."""
    _, height, width = plane.shape
    if height % 2 or width % 2:
        plane = np.pad(plane, ((0, 0), (0, height % 2), (0, width % 2)), mode="edge")
    total = plane[:, ::2, ::2] + plane[:, 1::2, ::2] + plane[:, ::2, 1::2] + plane[:, 1::2, 1::2]
    return (total + 2) >> 2


def _pixels(luma: Levels, colour: Levels, shape: Shape) -> Values:
    """The inverse of `_planes`: every colour value fills its square of two by two pixels."""
    height, width, channels = shape
    count = len(luma)
    if channels == 1:
        return luma.reshape(count, *shape)
    rows, columns = -(-height // 2), -(-width // 2)
    luma = luma.reshape(count, height, width)
    cb, cr = colour.reshape(count, 2, rows, columns).transpose(1, 0, 2, 3)
    if height % 2 or width % 2:
        luma = np.pad(luma, ((0, 0), (0, height % 2), (0, width % 2)), mode="edge")
    offsets = (_RED[cr], -((_GREEN_BLUE[cb] + _GREEN_RED[cr] + HALF) >> 16).astype(np.int16), _BLUE[cb])
    bright = luma.reshape(count, rows, 2, columns, 2).astype(np.int16)
    pixels = np.empty((count, 2 * rows, 2 * columns, 3), np.uint8)
    for channel, offset in enumerate(offsets):
        mixed = bright + offset[:, :, None, :, None]
        np.clip(mixed, 0, 255, out=mixed)
        pixels[..., channel] = mixed.reshape(count, 2 * rows, 2 * columns)
    return np.ascontiguousarray(pixels[:, :height, :width])


_STEPS = np.arange(256) - CENTRE
_RED = ((TO_RED * _STEPS + HALF) >> 16).astype(np.int16)
_BLUE = ((TO_BLUE * _STEPS + HALF) >> 16).astype(np.int16)
_GREEN_BLUE = (GREEN_OF_BLUE * _STEPS).astype(np.int32)
_GREEN_RED = (GREEN_OF_RED * _STEPS).astype(np.int32)

YCC420 = Ycc420("brightness, and colour at half the resolution; 8 bits: half of raw", 8)
YCC420_5 = Ycc420("as ycc420, in 5 bits: 3.2 times less than raw (grey images: 1.6 times)", 5)
YCC420_4 = Ycc420("as ycc420, in 4 bits: 4 times less than raw (grey images: twice)", 4)
