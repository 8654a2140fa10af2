"""Name -> entry: how methods, policies, data sets, backbones and selections are found by the names users type."""

import difflib
from collections.abc import Iterator
from typing import Generic, TypeVar

from remem.errors import InputError

T = TypeVar("T")


class Registry(Generic[T]):
    """A strict table of named entries: a clash raises, a typo gets a suggestion."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._entries: dict[str, T] = {}

    def add(self, name: str, entry: T) -> T:
        if name in self._entries:
            raise ValueError(f"a {self.kind} named '{name}' is registered already")
        self._entries[name] = entry
        return entry

    def __getitem__(self, name: str) -> T:
        if name in self._entries:
            return self._entries[name]
        close = difflib.get_close_matches(name, self._entries, n=1)
        hint = f"did you mean '{close[0]}'?" if close else f"known: {', '.join(self)}"
        raise InputError(f"no {self.kind} named '{name}'; {hint}")

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._entries))

    def __len__(self) -> int:
        return len(self._entries)
