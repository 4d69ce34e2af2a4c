"""Text as the evaluation counts, fences and compares it. Independent of the system under test."""

from __future__ import annotations

import json
import re
import secrets
from functools import cache, lru_cache
from typing import Any

import bpe_openai
import snowballstemmer

from justmem.ports import Prompt

_PIECE = 100_000  # characters: the tokenizer refuses a million at once
_ENVELOPE = 24  # tokens that a chat format adds around two messages
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_STEMMER = snowballstemmer.stemmer("english")
# Words that say nothing about where a text comes from.
_COMMON = """
a about after all also am an and any are as at be been before but by can could did do does for from
had has have he her here him his how i if in into is it its just like me more my no not now of on or
our out over said she so some than that the their them then there they this to too up us was we were
what when where which who will with would you your
"""
_STOP = frozenset(_COMMON.split())


@cache
def _encoding() -> Any:
    return bpe_openai.get_encoding("o200k_base")


def count(text: str) -> int:
    """Tokens by o200k_base."""
    encode = _encoding().encode_ordinary
    return sum(len(encode(text[i : i + _PIECE])) for i in range(0, len(text), _PIECE))


def prompt_tokens(prompt: Prompt) -> int:
    """At most what a prompt costs: some providers bill the schema as input."""
    return _ENVELOPE + sum(map(count, (prompt.system, prompt.user, json.dumps(prompt.schema))))


def new_mark() -> str:
    """The number in the tags of one prompt. The fenced text cannot know it, so it cannot close
    its fence."""
    return f"{secrets.randbelow(10**9):09d}"


def fence(tag: str, text: str, mark: str) -> str:
    return f"<{tag}-{mark}>\n{text}\n</{tag}-{mark}>"


def words(text: str) -> list[str]:
    return _WORD.findall(text)


def keywords(text: str) -> list[str]:
    """The words that are no stop words, as written."""
    return [word for word in words(text) if word.lower() not in _STOP]


def content(text: str) -> list[str]:
    """The stems of the words that are no stop words."""
    words = (word.lower().replace("’", "'") for word in _WORD.findall(text))
    return [_stem(word) for word in words if word not in _STOP]


@lru_cache(maxsize=50_000)
def _stem(word: str) -> str:
    return str(_STEMMER.stemWord(word.removesuffix("'s")))
