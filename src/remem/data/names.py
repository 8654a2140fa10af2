"""A compact sequence of file names: about 40 bytes per name, where a tuple of strings takes more than 100."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np

from remem.types import IntArray


@dataclass(frozen=True)
class Names:
    """An immutable sequence of names, stored in one block of bytes."""

    text: bytes
    ends: IntArray  # (n,) end of each name in `text`

    @classmethod
    def of(cls, names: Iterable[str]) -> Self:
        text, ends = bytearray(), []
        for name in names:
            text += _bytes(name)
            ends.append(len(text))
        return cls(bytes(text), np.array(ends, np.int64))

    @classmethod
    def joined(cls, parts: Iterable["Names"]) -> Self:
        """Concatenates parts; a generator of parts never has all names in memory as strings."""
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
    """The system returns names that are not UTF-8 with surrogates; this encodes them back unchanged."""
    return name.encode("utf-8", "surrogateescape")
