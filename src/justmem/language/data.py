"""The word lists of a language, read from its TOML file."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True, slots=True)
class EnglishWords:
    smalltalk: frozenset[str]
    requests: frozenset[str]
    leaning: frozenset[str]
    preference: frozenset[str]
    relation: frozenset[str]
    english: frozenset[str]
    asking: frozenset[str]
    remark_views: tuple[str, ...]
    other_languages: Mapping[str, frozenset[str]]


@cache
def english() -> EnglishWords:
    text = files("justmem.language.en").joinpath("words.toml").read_text("utf-8")
    table = tomllib.loads(text)
    others = {
        name: frozenset(words.split()) for name, words in table.pop("other_languages").items()
    }
    views = tuple(table.pop("remark_views"))
    lists = {name: frozenset(words.split()) for name, words in table.items()}
    return EnglishWords(**lists, remark_views=views, other_languages=others)
