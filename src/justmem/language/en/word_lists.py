"""The word lists of English, read from words.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any


@dataclass(frozen=True, slots=True)
class EnglishWords:
    stop: frozenset[str]
    smalltalk: frozenset[str]
    requests: frozenset[str]
    references: frozenset[str]
    preference: frozenset[str]
    relation: frozenset[str]
    question_words: frozenset[str]
    calendar: frozenset[str]
    peoples: frozenset[str]
    commands: tuple[str, ...]
    corrections: tuple[str, ...]
    remark_views: tuple[str, ...]
    forms: Mapping[str, str]  # went -> go
    states: Mapping[str, tuple[str, ...]]  # the phrases that a value follows
    ended_states: Mapping[str, tuple[str, ...]]  # the phrases before a value that ended
    state_questions: Mapping[str, tuple[str, ...]]  # the words that ask for it


@cache
def english() -> EnglishWords:
    table = tomllib.loads(files(__package__).joinpath("words.toml").read_text("utf-8"))
    sets = [form.split() for form in table.pop("forms")]
    forms = {form: base for base, *others in sets for form in others}
    states, ended, asked = (
        {name: tuple(phrases) for name, phrases in table.pop(part).items()}
        for part in ("states", "ended_states", "state_questions")
    )
    lists = {name: _list(words) for name, words in table.items()}
    return EnglishWords(
        **lists, forms=forms, states=states, ended_states=ended, state_questions=asked
    )


def _list(value: str | list[str]) -> Any:
    """Words in one text are a set. Phrases are kept in order."""
    return frozenset(value.split()) if isinstance(value, str) else tuple(value)
