"""What every noun is."""

from __future__ import annotations

from typing import Any, Self

from pydantic import BaseModel, ConfigDict

# The slots of a model, which frozen ones refuse to fill by name.
_put_fields, _put_given, _put_extra, _put_private = (
    BaseModel.__dict__[slot].__set__
    for slot in (
        "__dict__",
        "__pydantic_fields_set__",
        "__pydantic_extra__",
        "__pydantic_private__",
    )
)


class Value(BaseModel):
    """A frozen value that refuses fields it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def trusted(cls, **fields: Any) -> Self:
        """Of fields that we wrote ourselves, all of them, unchecked: what `model_construct` does,
        without looking for those left out. A search makes hundreds."""
        value = cls.__new__(cls)
        _put_fields(value, fields)
        _put_given(value, set(fields))
        _put_extra(value, None)
        _put_private(value, None)
        return value


def dump(value: BaseModel) -> dict[str, Any]:
    """A value as plain JSON types."""
    return value.model_dump(mode="json")
