"""Strict registries that map the names users type to entries: methods, policies, data sets, backbones, selections."""

import difflib
from collections.abc import Iterator
from importlib import import_module
from typing import Generic, TypeVar, cast

from remem.errors import InputError

T = TypeVar("T")


class Registry(Generic[T]):
    """Named entries; a duplicate name raises and a typo gets a suggestion.

    An entry can be added as an import path ("module:name"). Its module is imported the first time the entry is used.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._entries: dict[str, T] = {}
        self._paths: dict[str, str] = {}  # not imported yet

    def add(self, name: str, entry: T) -> T:
        self._refuse_duplicate(name)
        self._entries[name] = entry
        return entry

    def add_lazy(self, name: str, path: str) -> None:
        """Registers the object at `path`, written "module:name", without importing its module."""
        module, _, attribute = path.partition(":")
        if not module or not attribute:
            raise ValueError(f"{self.kind} '{name}': '{path}' is not an import path; expected 'module:name'")
        self._refuse_duplicate(name)
        self._paths[name] = path

    def remove(self, name: str) -> None:
        """Unregisters an entry; plugins and tests use this to clean up."""
        self._entries.pop(name, None)
        self._paths.pop(name, None)

    def __getitem__(self, name: str) -> T:
        if (path := self._paths.get(name)) is not None:
            module, _, attribute = path.partition(":")
            self._entries[name] = cast(T, getattr(import_module(module), attribute))
            self._paths.pop(name, None)  # another thread may have been faster
        self.require(name)
        return self._entries[name]

    def require(self, name: str) -> None:
        """Raises if there is no such entry; imports nothing."""
        if name in self:
            return
        close = difflib.get_close_matches(name, self, n=1)
        hint = f"did you mean '{close[0]}'?" if close else f"known: {', '.join(self)}"
        raise InputError(f"no {self.kind} named '{name}'; {hint}")

    def items(self) -> Iterator[tuple[str, T]]:
        """Names and entries, sorted by name; imports all of them."""
        return ((name, self[name]) for name in self)

    def __contains__(self, name: object) -> bool:
        return name in self._entries or name in self._paths

    def __iter__(self) -> Iterator[str]:
        return iter(sorted([*self._entries, *self._paths]))

    def __len__(self) -> int:
        return len(self._entries) + len(self._paths)

    def _refuse_duplicate(self, name: str) -> None:
        if name in self:
            raise ValueError(f"a {self.kind} named '{name}' is registered already")
