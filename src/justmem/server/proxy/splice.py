"""Add a text to a JSON document without touching any other byte of it."""

from __future__ import annotations

import json
from json.decoder import JSONDecoder
from typing import Any

_BLANK = " \t\n\r"
_DECODER = JSONDecoder()


def members(text: str, start: int = 0) -> dict[str, slice]:
    """Where the values of an object stand."""
    found: dict[str, slice] = {}
    place = _skip(text, _skip(text, start) + 1)  # past the {
    while text[place] != "}":
        name, place = _DECODER.raw_decode(text, place)
        place = _skip(text, _skip(text, place) + 1)  # past the :
        _, end = _DECODER.raw_decode(text, place)
        found[name] = slice(place, end)
        place = _next(text, end)
    return found


def items(text: str, start: int) -> list[slice]:
    """Where the values of an array stand."""
    found: list[slice] = []
    place = _skip(text, start + 1)
    while text[place] != "]":
        _, end = _DECODER.raw_decode(text, place)
        found.append(slice(place, end))
        place = _next(text, end)
    return found


def insert(text: str, place: int, added: str) -> str:
    return text[:place] + added + text[place:]


def append_item(text: str, array: slice, value: Any) -> str:
    """As the last of an array."""
    known = items(text, array.start)
    end = known[-1].stop if known else array.start + 1
    return insert(text, end, ("," if known else "") + json.dumps(value))


def append_text(text: str, name: str, added: str) -> str:
    """To the string `name` of the outermost object; sets it where it is missing or null."""
    known = members(text)
    place = known.get(name)
    if place is None:
        start = _skip(text, 0) + 1
        return insert(text, start, f"{json.dumps(name)}:{json.dumps(added)}" + "," * bool(known))
    if text[place] == "null":
        return text[: place.start] + json.dumps(added) + text[place.stop :]
    return insert(text, place.stop - 1, json.dumps(f"\n\n{added}")[1:-1])


def _skip(text: str, place: int) -> int:
    while text[place] in _BLANK:
        place += 1
    return place


def _next(text: str, place: int) -> int:
    place = _skip(text, place)
    return _skip(text, place + 1) if text[place] == "," else place
