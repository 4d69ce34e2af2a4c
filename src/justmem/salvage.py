"""A model's reply -> the JSON values in it, however damaged.

Truncated or partly wrong JSON keeps its whole members; a half-written last one is dropped,
because half a fact can be a wrong fact.
"""

from __future__ import annotations

import json
import re
from typing import Any

from pydantic_core import from_json

_MEMBER = re.compile(r'[{"]')  # how an object or a card begins
_DECODER = json.JSONDecoder(strict=False)  # raw line breaks inside strings are common
# Besides what is no JSON: numbers of thousands of digits, and nesting made to do harm.
_UNREADABLE = (ValueError, RecursionError)
_PATIENCE = 500  # failed starts after which the rest is given up


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
        return _members(text), False


def _members(text: str) -> list[Any]:
    """Every object or card-like string that can still be read in broken JSON."""
    found: list[Any] = []
    at = failures = 0
    while failures < _PATIENCE and (begins := _MEMBER.search(text, at)):
        try:
            value, at = _DECODER.raw_decode(text, begins.start())
        except _UNREADABLE:
            at = begins.end()
            failures += 1
            continue
        if isinstance(value, dict) or (isinstance(value, str) and value.count("|") >= 5):
            found.append(value)
    return found
