"""Events: what runs, policy learning and studies report while they go on. Subscribers are plain callables."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import cache
from typing import Any, ClassVar

from pydantic import TypeAdapter, ValidationError


class Event:
    """Base of all events: frozen dataclasses of JSON values, each with a kind of its own.

    An event is defined beside the code that emits it, which knows none of its subscribers: displays, logs, trackers.
    """

    kind: ClassVar[str]
    _kinds: ClassVar[dict[str, type["Event"]]] = {}

    def __init_subclass__(cls, *, kind: str) -> None:
        if kind in Event._kinds:
            raise ValueError(f"an event of kind '{kind}' exists already")
        cls.kind = kind
        Event._kinds[kind] = cls

    def to_json(self) -> dict[str, Any]:
        """One line of a log, or a message between processes."""
        return {"event": self.kind, **asdict(self)}  # type: ignore[call-overload]

    @staticmethod
    def from_json(tree: Mapping[str, Any]) -> "Event":
        """The inverse of `to_json`; ValueError for anything else."""
        values = dict(tree)
        kind = values.pop("event", None)
        if kind not in Event._kinds:
            raise ValueError(f"no event of kind {kind!r}")
        try:
            event: Event = _adapter(kind).validate_python(values)
        except ValidationError as error:
            raise ValueError(str(error)) from error
        return event


Emit = Callable[[Event], None]


@cache
def _adapter(kind: str) -> TypeAdapter[Any]:
    return TypeAdapter(Event._kinds[kind])


def ignore(event: Event) -> None:
    """A subscriber that does nothing."""


def fan_out(*subscribers: Emit) -> Emit:
    """One stream for several subscribers, called in order."""

    def emit(event: Event) -> None:
        for subscriber in subscribers:
            subscriber(event)

    return emit
