"""`raw` and the vector codecs `float32`, `float16` and `int8`."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from remem.codecs.codec import Codes, FixedSize, Shape, as_bytes
from remem.types import Values

LARGEST_HALF = 65504.0  # of float16


@dataclass(frozen=True)
class Raw(FixedSize):
    """Samples as they are: one byte per colour value, four per number of a vector."""

    summary: str
    images: bool = True

    def misfit(self, shape: Shape) -> str | None:
        return None if self.images or len(shape) == 1 else "vectors"

    def size(self, shape: Shape) -> int:
        return int(np.prod(shape, dtype=np.int64)) * (1 if len(shape) == 3 else 4)

    def pack(self, values: Values) -> Codes:
        return as_bytes(values if values.dtype == np.uint8 else values.astype("<f4"))

    def unpack(self, codes: Codes, shape: Shape) -> Values:
        if len(shape) == 3:
            return codes.reshape(len(codes), *shape).copy()
        return np.ascontiguousarray(codes).view("<f4").astype(np.float32)


@dataclass(frozen=True)
class Float16(FixedSize):
    """Two bytes per number. Numbers beyond the range of float16 become the largest ones in it."""

    summary: str

    def misfit(self, shape: Shape) -> str | None:
        return None if len(shape) == 1 else "vectors"

    def size(self, shape: Shape) -> int:
        return 2 * shape[0]

    def pack(self, values: Values) -> Codes:
        return as_bytes(np.clip(values, -LARGEST_HALF, LARGEST_HALF).astype("<f2"))

    def unpack(self, codes: Codes, shape: Shape) -> Values:
        return np.ascontiguousarray(codes).view("<f2").astype(np.float32)


@dataclass(frozen=True)
class Int8(FixedSize):
    """One byte per number from -127 to 127, and the scale of the vector, the largest magnitude / 127, as float32."""

    summary: str

    def misfit(self, shape: Shape) -> str | None:
        return None if len(shape) == 1 else "vectors"

    def size(self, shape: Shape) -> int:
        return shape[0] + 4

    def pack(self, values: Values) -> Codes:
        scale = (np.abs(values).max(axis=1, initial=0.0) / np.float32(127)).astype("<f4")[:, None]
        steps = np.divide(values, scale, out=np.zeros_like(values), where=scale > 0)
        steps = np.clip(np.rint(steps), -127, 127).astype(np.int8)
        return np.concatenate([as_bytes(scale), steps.view(np.uint8)], axis=1)

    def unpack(self, codes: Codes, shape: Shape) -> Values:
        scale: NDArray[np.float32] = np.ascontiguousarray(codes[:, :4]).view("<f4").astype(np.float32)
        return np.ascontiguousarray(codes[:, 4:]).view(np.int8).astype(np.float32) * scale


RAW = Raw("samples as they are: a byte per colour value, float32 vectors")
FLOAT32 = Raw("vectors as they are, 4 bytes per number", images=False)
FLOAT16 = Float16("vectors in half precision, 2 bytes per number")
INT8 = Int8("vectors in one byte per number, and one scale per vector")
