"""Many file names in one block of bytes: some 40 bytes a file, where a tuple of strings takes more than 100."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np

from remem.types import IntArray


@dataclass(frozen=True)
class Names:
    """A sequence of names; each ends where the next begins."""

    text: bytes
    ends: IntArray  # (n,) in `text`

    @classmethod
    def of(cls, names: Iterable[str]) -> Self:
        text, ends = bytearray(), []
        for name in names:
            text += _bytes(name)
            ends.append(len(text))
        return cls(bytes(text), np.array(ends, np.int64))

    @classmethod
    def joined(cls, parts: Iterable["Names"]) -> Self:
        """One after another; parts that are made one by one never lie in memory as strings together."""
        text, ends = bytearray(), [np.empty(0, np.int64)]
        for part in parts:
            ends.append(part.ends + len(text))
            text += part.text
        return cls(bytes(text), np.concatenate(ends))

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, place: int) -> str:
        start = int(self.ends[place - 1]) if place else 0
        return self.text[start : int(self.ends[place])].decode("utf-8", "surrogateescape")

    def __iter__(self) -> Iterator[str]:
        return (self[place] for place in range(len(self)))

    def take(self, places: IntArray) -> "Names":
        return Names.of(self[place] for place in places.tolist())


def _bytes(name: str) -> bytes:
    """Names that are not UTF-8 come from the system with surrogates, and go back so."""
    return name.encode("utf-8", "surrogateescape")
