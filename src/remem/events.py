"""Events: what runs, policy learning and studies report while they go on. Subscribers are plain callables."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from functools import cache
from typing import Any, ClassVar, cast

from pydantic import GetCoreSchemaHandler, TypeAdapter, ValidationError
from pydantic_core.core_schema import CoreSchema, is_instance_schema


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

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """A field of type Event takes any event; a field of one kind is checked like any dataclass."""
        return is_instance_schema(Event) if cls is Event else handler(source)

    def to_json(self) -> dict[str, Any]:
        """One line of a log, or a message between processes."""
        values = {item.name: _plain(getattr(self, item.name)) for item in fields(cast(Any, self))}
        return {"event": self.kind, **values}

    @staticmethod
    def from_json(tree: Mapping[str, Any]) -> "Event":
        """The inverse of `to_json`; ValueError for anything else."""
        kind = tree.get("event")
        if not isinstance(kind, str) or kind not in Event._kinds:
            raise ValueError(f"no event of kind {kind!r}")
        values = {name: _decoded(value) for name, value in tree.items() if name != "event"}
        try:
            event: Event = _adapter(kind).validate_python(values)
        except ValidationError as error:
            raise ValueError(str(error)) from error
        return event


def _plain(value: Any) -> Any:
    """Events inside an event keep their kinds; other dataclasses become plain objects."""
    if isinstance(value, Event):
        return value.to_json()
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items()}
    return tuple(map(_plain, value)) if isinstance(value, tuple | list) else value


def _decoded(value: Any) -> Any:
    if isinstance(value, Mapping):
        inner = {name: _decoded(part) for name, part in value.items()}
        return Event.from_json(value) if "event" in value else inner
    return value


Emit = Callable[[Event], None]


@cache
def _adapter(kind: str) -> TypeAdapter[Any]:
    return TypeAdapter(Event._kinds[kind])


@dataclass(frozen=True)
class Notice(Event, kind="notice"):
    """Something that the user should know although the work goes on, such as a damaged file that was not needed."""

    text: str


def ignore(event: Event) -> None:
    """A subscriber that does nothing."""


def fan_out(*subscribers: Emit) -> Emit:
    """One stream for several subscribers, called in order."""

    def emit(event: Event) -> None:
        for subscriber in subscribers:
            subscriber(event)

    return emit
