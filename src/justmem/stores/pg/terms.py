"""Text -> the stems that both stores find it by, and their postings."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from justmem.stores.pg.porter import stem
from justmem.stores.words import content_words

_WORD = re.compile(r"[^\W_]+")
# Words of grammar make up a third of all text and questions never look for them: they are counted
# in a text's length, and not indexed. Left out here are those whose stem is also that of a word
# one may look for: in (inning), on (one), at (ate), us (use), her (herring), his (hi).
_GRAMMAR = (
    "a and are as be but by for from had have he him i if is it its me my of our she so that the"
    " their them then they this to we were what when where which who with you your"
)
UNINDEXED = frozenset(_GRAMMAR.split())
_MOST_TIMES, _LONGEST = 255, 65_535


class Postings(NamedTuple):
    """Where the words of one session's texts occur: parallel lists, an entry for each word."""

    words: list[str]
    found: list[str]  # arrays of `packed` numbers as PostgreSQL writes them: {1,2}
    length: int  # of all texts together, in words


def fold(text: str) -> list[str]:
    """Its words, without case or accents."""
    if not text.isascii():
        text = "".join(map(_bare, text))
    return _WORD.findall(text.lower())


@lru_cache(20_000)
def _bare(letter: str) -> str:
    """Latin letters lose their accents, as in FTS5; other scripts keep what is part of a letter."""
    if letter.isascii():
        return letter
    first = unicodedata.normalize("NFD", letter)[0]
    if first.isascii():
        return first
    if unicodedata.category(letter) == "Mn":
        return ""
    folded = letter.casefold()  # such as the micro sign, which is a mu
    return folded if len(folded) == 1 else letter


def stems(text: str) -> list[str]:
    return [stem(word) for word in fold(text)]


def packed(key: int, times: int, length: int) -> int:
    """A posting in one number; `search` takes it apart again."""
    return key << 24 | min(times, _MOST_TIMES) << 16 | min(length, _LONGEST)


def postings(keys: Iterable[int], texts: Sequence[str]) -> Postings:
    entries: dict[str, list[int]] = {}
    total = 0
    for key, text in zip(keys, texts, strict=True):
        words = fold(text)
        total += len(words)
        counted = Counter(stem(word) for word in words if word not in UNINDEXED)
        for word, times in counted.items():
            entries.setdefault(word, []).append(packed(key, times, len(words)))
    found = ["{" + ",".join(map(str, each)) + "}" for each in entries.values()]
    return Postings(list(entries), found, total)


def wanted(text: str) -> tuple[list[str], np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """The stems of a question's content words, each with how many of its words share it."""
    counted = Counter(s for word in content_words(text) for s in stems(word))
    return list(counted), np.fromiter(counted.values(), np.int64, len(counted))
