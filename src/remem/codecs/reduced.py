"""`half`, `quarter` and their ycc420 forms: images kept at a lower resolution and enlarged when they are read."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from remem.codecs.codec import Codes, FixedSize, Shape, is_image
from remem.codecs.raw import RAW
from remem.codecs.ycc import YCC420
from remem.types import Values


@dataclass(frozen=True)
class Reduced(FixedSize):
    """Means of squares of `factor` by `factor` pixels, stored by another codec; enlarged by bilinear interpolation."""

    summary: str
    factor: int
    inner: FixedSize
    least: int  # the smallest side that it takes, in pixels

    def misfit(self, shape: Shape) -> str | None:
        fits = is_image(shape) and min(shape[:2]) >= self.least
        return None if fits else f"images of at least {self.least} x {self.least} pixels"

    def size(self, shape: Shape) -> int:
        return self.inner.size(self._small(shape))

    def pack(self, values: Values) -> Codes:
        return self.inner.pack(shrunk(values, self.factor))

    def unpack(self, codes: Codes, shape: Shape) -> Values:
        return enlarged(self.inner.unpack(codes, self._small(shape)), self.factor, shape)

    def _small(self, shape: Shape) -> Shape:
        return -(-shape[0] // self.factor), -(-shape[1] // self.factor), shape[2]


def shrunk(images: Values, factor: int) -> Values:
    """Means of squares, rounded; missing pixels of the last row and column repeat the edge."""
    count, height, width, channels = images.shape
    below, beside = -height % factor, -width % factor
    if below or beside:
        images = np.pad(images, ((0, 0), (0, below), (0, beside), (0, 0)), mode="edge")
    squares = images.reshape(count, (height + below) // factor, factor, (width + beside) // factor, factor, channels)
    total = squares.sum(axis=(2, 4), dtype=np.int32)
    means: Values = ((total + factor**2 // 2) // factor**2).astype(np.uint8)
    return means


def enlarged(images: Values, factor: int, shape: Shape) -> Values:
    """Bilinear interpolation between the centres of the small pixels, in whole numbers, rounded."""
    tall = _stretched(images.astype(np.int32), factor, shape[0], axis=1)
    wide = _stretched(tall, factor, shape[1], axis=2)
    unit = (2 * factor) ** 2
    return ((wide + unit // 2) // unit).astype(np.uint8)


def _stretched(values: NDArray[np.int32], factor: int, length: int, axis: int) -> NDArray[np.int32]:
    """`length` values along an axis, each 2 * factor times too large."""
    # The centre of large pixel p lies at (2 p + 1 - factor) / (2 factor) between the centres of the small ones.
    place = 2 * np.arange(length) + 1 - factor
    low, weight = place // (2 * factor), place % (2 * factor)
    last = values.shape[axis] - 1
    first, second = (values.take(np.clip(low + step, 0, last), axis=axis) for step in (0, 1))
    weights = weight.reshape([-1 if dimension == axis else 1 for dimension in range(values.ndim)]).astype(np.int32)
    return first * (2 * factor - weights) + second * weights


HALF = Reduced("half the resolution, enlarged when read: 4 times less than raw", 2, RAW, 4)
QUARTER = Reduced("a quarter of the resolution, enlarged when read: 16 times less", 4, RAW, 16)
HALF_YCC420 = Reduced("half the resolution, stored as ycc420: 8 times less than raw", 2, YCC420, 4)
QUARTER_YCC420 = Reduced("a quarter of the resolution, stored as ycc420: 32 times less", 4, YCC420, 16)
