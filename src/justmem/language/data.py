"""The word lists of a language, read from its TOML file."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True, slots=True)
class EnglishWords:
    stop: frozenset[str]
    forms: Mapping[str, str]  # went -> go
    smalltalk: frozenset[str]
    requests: frozenset[str]
    references: frozenset[str]
    preference: frozenset[str]
    relation: frozenset[str]
    question_words: frozenset[str]
    calendar: frozenset[str]
    commands: frozenset[str]
    corrections: tuple[str, ...]
    peoples: frozenset[str]
    common_words: frozenset[str]
    not_names: frozenset[str]
    remark_views: tuple[str, ...]
    other_languages: Mapping[str, frozenset[str]]
    states: Mapping[str, tuple[str, ...]]  # the phrases that a value follows


@cache
def english() -> EnglishWords:
    text = files("justmem.language.en").joinpath("words.toml").read_text("utf-8")
    table = tomllib.loads(text)
    others = {
        name: frozenset(words.split()) for name, words in table.pop("other_languages").items()
    }
    views = tuple(table.pop("remark_views"))
    corrections, commands = (
        [" ".join(each.split()) for each in table.pop(name).split(";")]
        for name in ("corrections", "commands")
    )
    states = {
        name: tuple(filter(None, map(str.strip, phrases.split(";"))))
        for name, phrases in table.pop("states").items()
    }
    forms = {
        form: base.strip()
        for base, _, others in (entry.partition(":") for entry in table.pop("forms").split(";"))
        for form in others.split()
    }
    lists = {name: frozenset(words.split()) for name, words in table.items()}
    return EnglishWords(
        **lists,
        forms=forms,
        remark_views=views,
        other_languages=others,
        states=states,
        corrections=tuple(corrections),
        commands=frozenset(commands),
    )
