"""A model's reply -> the JSON values in it, however damaged -> a typed value.

Truncated JSON keeps its whole members. A half-written last one is dropped, because half a fact can
be a wrong fact.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ValidationError, WrapValidator
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import from_json

from justmem.runtime.validation import clean

_DECODER = json.JSONDecoder(strict=False)  # raw line breaks inside strings are common
# Besides what is no JSON: numbers of thousands of digits, and nesting made to do harm.
_UNREADABLE = (ValueError, RecursionError)


def parse(text: str) -> tuple[Any, bool]:
    """The value and whether it was whole. (None, False) if there is no JSON in the text."""
    text = text.strip()
    if text.startswith("```"):  # a reply that was cut off may still have its closing fence
        text = text.removesuffix("```")
    starts = [i for i in (text.find("{"), text.find("[")) if i >= 0]
    if not starts:
        return None, False
    text = text[min(starts) :]
    try:
        value, end = _DECODER.raw_decode(text)
        return value, not text[end:].strip("` \n\t")
    except _UNREADABLE:
        pass
    try:
        return from_json(text, allow_partial=True), False
    except ValueError:
        return None, False


# ---------------------------------------------------------------- typed replies

_LARGE = 10**18  # larger numbers are no text: spelling out an endless one takes long


class _Untitled(GenerateJsonSchema):
    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


class ModelReply(BaseModel):
    """What a model is asked for. Unknown fields of a reply are ignored."""

    @classmethod
    @cache
    def json_schema(cls) -> dict[str, Any]:
        """For structured output: every field is required, nothing else is allowed."""
        made = cls.model_json_schema(mode="serialization", schema_generator=_Untitled)
        return {
            "type": "object",
            "properties": {
                name: {key: value for key, value in field.items() if key != "default"}
                for name, field in made["properties"].items()
            },
            "required": list(made["properties"]),
            "additionalProperties": False,
        }


def otherwise(default: Any) -> WrapValidator:
    """The default instead of an error, if a field cannot be read."""

    def read(value: Any, handler: Any) -> Any:
        try:
            return handler(value)
        except ValidationError:
            return default

    return WrapValidator(read)


def _plain(value: Any) -> Any:
    """Numbers as text; text that can be stored."""
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _LARGE:
        return str(value)
    return clean(value) if isinstance(value, str) else value


def _line(value: Any) -> Any:
    plain = _plain(value)
    return " ".join(plain.split()) if isinstance(plain, str) else plain


PlainText = Annotated[str, BeforeValidator(_plain)]
Line = Annotated[str, BeforeValidator(_line)]
Lines = tuple[Annotated[Line, otherwise("")], ...]  # what is no text becomes an empty one
