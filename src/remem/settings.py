"""What all sections of settings have in common: frozen, no unknown keys, no truth values where a number belongs."""

from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError


class Settings(BaseModel):
    """A section; its fields say what they take."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _no_truth_for_a_number(cls, value: Any, info: ValidationInfo) -> Any:
        """`epochs=true` would be read as 1."""
        kind = cls.model_fields[str(info.field_name)].annotation
        if isinstance(value, bool) and bool not in (kind, *get_args(kind)):
            raise PydanticCustomError("truth_value", "input should be neither true nor false")
        return value
