"""What a codec is: samples to bytes and back, and what the bytes cost."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from remem.types import IntArray, Values

LENGTH_BYTES = 4  # billed for each code of variable size: where it ends must be stored, too
Codes = NDArray[np.uint8]  # (n, size)
Arrays = Mapping[str, NDArray[Any]]  # codes of many rows, as they are written to a file
Shape = tuple[int, ...]  # of one sample: (h, w, c) or (d,)


class Codec(Protocol):
    """Encodes uint8 images (n, h, w, c) or float32 vectors (n, d), one code per sample.

    Encoding is deterministic. What learners see is `decode(encode(values))`.
    """

    @property
    def summary(self) -> str: ...

    @property
    def from_file(self) -> bool:
        """Whether codes are the files that samples came from. Such a codec cannot encode values."""

    def misfit(self, shape: Shape) -> str | None:
        """The samples that it takes instead, if it cannot store samples of this shape."""

    def size(self, shape: Shape) -> int | None:
        """Bytes of each code; None if codes differ in size."""

    def encode(self, values: Values) -> list[bytes]: ...

    def decode(self, codes: Sequence[bytes], shape: Shape) -> Values: ...


class FixedSize(ABC):
    """A codec whose codes are equally long, so that a batch of them is one array."""

    from_file = False

    @abstractmethod
    def size(self, shape: Shape) -> int: ...

    @abstractmethod
    def pack(self, values: Values) -> Codes: ...

    @abstractmethod
    def unpack(self, codes: Codes, shape: Shape) -> Values: ...

    def encode(self, values: Values) -> list[bytes]:
        return [code.tobytes() for code in self.pack(values)] if len(values) else []

    def decode(self, codes: Sequence[bytes], shape: Shape) -> Values:
        if not codes:
            return np.empty((0, *shape), np.uint8 if len(shape) == 3 else np.float32)
        table = np.frombuffer(b"".join(codes), np.uint8).reshape(len(codes), self.size(shape))
        return self.unpack(table, shape)


def bill(codec: Codec, codes: Sequence[bytes], shape: Shape) -> IntArray:
    """The bytes that each code costs, side information included."""
    extra = LENGTH_BYTES if codec.size(shape) is None else 0
    return np.array([len(code) + extra for code in codes], np.int64)


def is_image(shape: Shape) -> bool:
    return len(shape) == 3 and shape[2] in (1, 3)


def as_bytes(values: NDArray[Any]) -> Codes:
    """The memory of each row as bytes, (n, size)."""
    flat = np.ascontiguousarray(values).reshape(len(values), -1)
    width: int = flat.shape[1] * flat.itemsize
    return flat.view(np.uint8).reshape(len(values), width)


def code_arrays(codes: Mapping[int, bytes], rows: IntArray, codec: Codec, shape: Shape) -> dict[str, NDArray[Any]]:
    """The codes of these rows, in their order, and their lengths where they differ."""
    found = [codes[row] for row in rows.tolist()]
    arrays: dict[str, NDArray[Any]] = {"data": np.frombuffer(bytearray(b"".join(found)), np.uint8)}
    if codec.size(shape) is None:
        arrays["lengths"] = np.array([len(code) for code in found], np.int32)
    return arrays


def codes_from(arrays: Arrays, rows: IntArray, codec: Codec, shape: Shape) -> dict[int, bytes]:
    """The inverse of `code_arrays`. Raises ValueError or KeyError if the arrays do not fit the rows."""
    size = codec.size(shape)
    lengths = arrays["lengths"].astype(np.int64) if size is None else np.full(len(rows), size, np.int64)
    ends, data = np.cumsum(lengths), arrays["data"].tobytes()
    if len(lengths) != len(rows) or (lengths < 0).any() or (int(ends[-1]) if len(ends) else 0) != len(data):
        raise ValueError(f"codes that do not fit {len(rows)} rows")
    bounds = zip((ends - lengths).tolist(), ends.tolist(), strict=True)
    return {row: data[start:end] for row, (start, end) in zip(rows.tolist(), bounds, strict=True)}
