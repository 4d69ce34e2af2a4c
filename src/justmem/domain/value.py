"""What every noun is."""

from __future__ import annotations

from typing import Any, Self

from pydantic import BaseModel, ConfigDict


class Value(BaseModel):
    """A frozen value that refuses fields it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def trusted(cls, **fields: Any) -> Self:
        """Of fields that we wrote ourselves, all of them, unchecked: what `model_construct` does,
        without looking for those left out. A search makes hundreds."""
        value = cls.__new__(cls)
        for name, held in (
            ("__dict__", fields),
            ("__pydantic_fields_set__", set(fields)),
            ("__pydantic_extra__", None),
            ("__pydantic_private__", None),
        ):
            object.__setattr__(value, name, held)
        return value


def dump(value: BaseModel) -> dict[str, Any]:
    """A value as plain JSON types."""
    return value.model_dump(mode="json")
