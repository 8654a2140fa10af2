"""The values that were used most recently, as many as fit a limit in bytes."""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from types import MappingProxyType
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Recent(Generic[Key, Value]):
    """A cache in memory. Beyond the limit, the least recently used values are evicted, at last the new one itself."""

    def __init__(self, limit_bytes: int, size: Callable[[Value], int]) -> None:
        self._limit, self._size = limit_bytes, size
        self._values: OrderedDict[Key, Value] = OrderedDict()
        self.held_bytes = 0

    @property
    def held(self) -> Mapping[Key, Value]:
        """All values that are kept, the least recently used first."""
        return MappingProxyType(self._values)

    def put(self, key: Key, value: Value) -> None:
        self._drop(key)
        self._values[key] = value
        self.held_bytes += self._size(value)
        while self.held_bytes > self._limit:
            self._drop(next(iter(self._values)))

    def find(self, key: Key) -> Value | None:
        if key in self._values:
            self._values.move_to_end(key)
        return self._values.get(key)

    def clear(self) -> None:
        self._values.clear()
        self.held_bytes = 0

    def _drop(self, key: Key) -> None:
        if key in self._values:
            self.held_bytes -= self._size(self._values.pop(key))
