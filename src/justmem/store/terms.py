"""The terms of a text: what a search by words compares.

A term is the hash of a word's stem, and is stored instead of the word. Each row of the index also
has a term for each of its turns, so that it is found by them too.
"""

from __future__ import annotations

import re
import unicodedata
import zlib
from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np

from justmem.language.words import is_stop, stem

_WORD = re.compile(r"[^\W_]+")


def words(text: str) -> list[str]:
    """Each word once, in lower case, in order."""
    return list(dict.fromkeys(word.lower() for word in _WORD.findall(text)))


def content_words(text: str) -> list[str]:
    return [word for word in words(text) if not is_stop(word)]


@lru_cache(50_000)
def term(word: str) -> int:
    """The hash of the word's stem, without accents."""
    if not word.isascii():
        parts = unicodedata.normalize("NFKD", word)
        word = "".join(part for part in parts if not unicodedata.combining(part))
    return zlib.crc32(stem(word).encode("utf-8", "replace"))


def place(session: str, turn: int) -> int:
    """The term of a turn. No word holds the character `#`."""
    return zlib.crc32(f"{session}#{turn}".encode())


def pack(text: str, session: str, turns: Iterable[int]) -> bytes:
    """The terms of a row."""
    found = {term(word) for word in content_words(text)}
    found.update(place(session, turn) for turn in turns)
    return np.array(sorted(found), "<u4").tobytes()


def unpack(packed: Sequence[bytes]) -> tuple[list[int], bytes]:
    """How many terms each row has, and the terms of all rows."""
    return [len(each) // 4 for each in packed], b"".join(packed)
