"""Text -> the stems that both stores find it by, and their postings."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from justmem.stores.pg.lexicon import Lexicon
from justmem.stores.words import content_words

Numbers = NDArray[np.int64]
_WORD = re.compile(r"[^\W_]+")
_MOST_TIMES, _LONGEST = 255, 65_535


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


class Postings(NamedTuple):
    """Rows of a words table, in order of words: for each word of a session, the part
    `entries[first - 1 : last]`, a number `key << 24 | times << 16 | length` for each text."""

    words: list[str]
    sessions: Numbers
    first: Numbers
    last: Numbers
    entries: Numbers


class Texts:
    """Texts on their way into a words table, those of a session one after the other."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._keys: list[int] = []
        self._sessions: list[int] = []

    def add(self, session: int, keys: Iterable[int], texts: Sequence[str]) -> None:
        self._texts += texts
        self._keys += keys
        self._sessions += [session] * len(texts)

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def index(self, lexicon: Lexicon) -> tuple[Postings, dict[int, int]]:
        """The rows, and each session's length in words. All texts are counted at once: one look
        into a dictionary for each word, the rest is numpy's."""
        cut = [fold(text) for text in self._texts]
        lengths = np.fromiter(map(len, cut), np.int64, len(cut))
        sessions = np.array(self._sessions, np.int64)
        in_all: dict[int, int] = {}
        for session, length in zip(self._sessions, lengths.tolist(), strict=True):
            in_all[session] = in_all.get(session, 0) + length
        spoken = set().union(*cut) if cut else set()
        roots = {word: lexicon.stem(word) for word in spoken if word not in lexicon.unindexed}
        ordered = sorted(set(roots.values()))
        ranks = {root: rank for rank, root in enumerate(ordered)}
        rank_of = {word: ranks[roots[word]] if word in roots else -1 for word in spoken}
        found = np.fromiter(
            (rank_of[word] for words in cut for word in words), np.int64, int(lengths.sum())
        )
        place = np.repeat(np.arange(len(cut)), lengths)[found >= 0]
        pairs, times = np.unique(found[found >= 0] * len(cut) + place, return_counts=True)
        rank, place = np.divmod(pairs, max(1, len(cut)))
        entries = (
            np.array(self._keys, np.int64)[place] << 24
            | np.minimum(times, _MOST_TIMES) << 16
            | np.minimum(lengths, _LONGEST)[place]
        )
        said_in = sessions[place]
        new = np.ones(len(pairs), bool)
        new[1:] = (rank[1:] != rank[:-1]) | (said_in[1:] != said_in[:-1])
        starts = np.flatnonzero(new)
        last = np.append(starts[1:], len(pairs)) if len(pairs) else starts
        words = [ordered[each] for each in rank[starts].tolist()]
        return Postings(words, said_in[starts], starts + 1, last, entries), in_all


def wanted(text: str, lexicon: Lexicon) -> tuple[list[str], Numbers]:
    """The stems of a question's content words, each with how many of its words share it."""
    counted = Counter(lexicon.stem(folded) for word in content_words(text) for folded in fold(word))
    return list(counted), np.fromiter(counted.values(), np.int64, len(counted))
