"""A model's reply -> the JSON values in it, however damaged.

Truncated or partly wrong JSON keeps its whole members; a half-written last one is dropped,
because half a fact can be a wrong fact.
"""

from __future__ import annotations

import json
import re
from typing import Any

from pydantic_core import from_json

_FENCE = re.compile(r"^\s*```[a-zA-Z]*\s*\n(.*?)(?:\n\s*```\s*)?$", re.DOTALL)
_DECODER = json.JSONDecoder(strict=False)  # raw line breaks inside strings are common
# Besides what is no JSON: numbers of thousands of digits, and nesting made to do harm.
_UNREADABLE = (ValueError, RecursionError)
_PATIENCE = 500  # failed starts after which the rest is given up


def parse(text: str) -> tuple[Any, bool]:
    """The value and whether it was whole. (None, False) if there is no JSON in the text."""
    if fenced := _FENCE.match(text):
        text = fenced[1]
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
        return _members(text), False


def _members(text: str) -> list[Any]:
    """Every object or card-like string that can still be read in broken JSON."""
    found: list[Any] = []
    at = failures = 0
    while (at := _next(text, at)) >= 0 and failures < _PATIENCE:
        try:
            value, at = _DECODER.raw_decode(text, at)
        except _UNREADABLE:
            at += 1
            failures += 1
            continue
        if isinstance(value, dict) or (isinstance(value, str) and value.count("|") >= 5):
            found.append(value)
    return found


def _next(text: str, at: int) -> int:
    places = [i for i in (text.find("{", at), text.find('"', at)) if i >= 0]
    return min(places, default=-1)
