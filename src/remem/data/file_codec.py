"""`file`: images of a folder kept as the very files that they came as, and decoded on every read."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from remem.codecs.codec import Shape
from remem.data.images import decode
from remem.types import Values


@dataclass(frozen=True)
class FileCodec:
    """Codes are files of any size and format, so they cannot be made from pixels."""

    summary: str
    from_file: bool = True

    def misfit(self, shape: Shape) -> str | None:
        fits = len(shape) == 3 and shape[0] == shape[1] and shape[2] == 3
        return None if fits else "square colour images"

    def size(self, shape: Shape) -> None:
        return None

    def encode(self, values: Values) -> list[bytes]:
        raise ValueError("pixels have no file; the codec `file` stores the files of a folder")

    def decode(self, codes: Sequence[bytes], shape: Shape) -> Values:
        values = np.empty((len(codes), *shape), np.uint8)
        for place, code in enumerate(codes):
            values[place] = decode(Path("a stored file"), shape[0], code)
        return values


FILE = FileCodec("image folders: the very files that samples came as, decoded on every read")
