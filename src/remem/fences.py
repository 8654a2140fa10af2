"""Functions for code that is not ours, such as a plug-in method: they can be called, and lead nowhere else.

A bound method has `__self__`, a closure has `__closure__`, and either leads back to the episode and its data. What a
gate calls is kept here, by the gate. Python has no walls inside a process: whoever imports this module's private names
gets through. What is fenced cannot be reached by accident, nor through attributes.
"""

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary


class Gate:
    """A function without attributes."""

    __slots__ = ("__weakref__",)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return _TARGETS[self](*arguments, **named)


_TARGETS: "WeakKeyDictionary[Gate, Callable[..., Any]]" = WeakKeyDictionary()


def fenced(function: Callable[..., Any]) -> Gate:
    """The same function behind a gate."""
    gate = Gate()
    _TARGETS[gate] = function
    return gate
