"""The base class of all settings. A field's description is its text in `--help`, in the docs and in error messages."""

from collections.abc import Iterator
from typing import Any, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    field_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import InitErrorDetails, PydanticCustomError


class Settings(BaseModel):
    """A section of settings: frozen, without unknown keys; its fields define types, limits and descriptions."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @field_validator("*", mode="wrap")
    @classmethod
    def _check(cls, value: Any, handler: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
        """Refuses true and false for numbers (`epochs=true` would become 1), and adds descriptions to errors."""
        field = cls.model_fields[str(info.field_name)]
        try:
            if isinstance(value, bool) and bool not in (field.annotation, *get_args(field.annotation)):
                raise PydanticCustomError("truth_value", "input should be neither true nor false" + _in_brackets(field))
            return handler(value)
        except ValidationError as error:
            if not field.description or any(_is_own_line(line) for line in error.errors()):
                raise
            lines = [_with_description(line, field) for line in error.errors()]
            raise ValidationError.from_exception_data(error.title, lines) from error


def field_at(section: type[BaseModel], key: str) -> FieldInfo:
    """The field of a dotted key, such as `train.epochs` of a run's settings."""
    *names, last = key.split(".")
    for name in names:
        inner: Any = section.model_fields[name].annotation
        section = inner
    return section.model_fields[last]


def is_section(field: FieldInfo) -> bool:
    return isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)


def plain_fields(section: type[BaseModel]) -> Iterator[tuple[str, FieldInfo]]:
    """Names and fields of a section without the sections inside it."""
    return ((name, field) for name, field in section.model_fields.items() if not is_section(field))


def _is_own_line(line: Any) -> bool:
    """Whether a validator of remem's own has raised; its message says everything."""
    return "error" in line.get("ctx", {})


def _with_description(line: Any, field: FieldInfo) -> InitErrorDetails:
    kind = PydanticCustomError(line["type"], line["msg"] + _in_brackets(field))
    return {"type": kind, "loc": line["loc"], "input": line["input"]}


def _in_brackets(field: FieldInfo) -> str:
    """`Epochs per phase.` -> ` (epochs per phase)`."""
    text = (field.description or "").rstrip(".")
    lower = text[1:2].islower() or text[1:2] == " "  # but not the first letter of NCA
    return f" ({text[0].lower() if lower else text[0]}{text[1:]})" if text else ""
