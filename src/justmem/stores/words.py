"""Lexical search: where the words of a query stand, and the rows that hold the rarest of them.

User text never reaches FTS5's query syntax: it is cut into words, and each is quoted.
"""

from __future__ import annotations

import math
import re
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass, replace
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from justmem.ports import Index
from justmem.stores.vectors import Moment

_WORD = re.compile(r"[^\W_]+")
_STOP_WORDS = """
    a about after again all also am an and any are as at be because been before being between
    both but by can could d did do does doing don down during each else ever few for from further
    had has have having he her here hers herself him himself his how i if in into is isn it its
    itself just ll m me might more most must my myself no nor not now of off on once only or other
    our ours ourselves out over own please re s same shall she should so some still such t tell
    than that the their theirs them themselves then there these they this those through to too
    under until up upon us ve very was wasn we were what whatever when where which while who whom
    whose why will with would you your yours yourself yourselves
"""
_STOP = frozenset(_STOP_WORDS.split())

# A word that stands in more texts than this tells little, and would cost the most to read: a name
# that stands on every second card costs nothing.
POSTINGS = 1000
LEAST = 1e-6  # what a word weighs that stands in half of all texts or more
_LONGEST_QUERY = 64  # words
_REMEMBERED = 2_000  # words kept at most, with where they stand

_TABLES = {"cards": "card_words", "passages": "passage_words"}
_CHUNKS = {"cards": "card_chunks", "passages": "passage_chunks"}

Keys = NDArray[np.int64]


def words(text: str) -> list[str]:
    return list(dict.fromkeys(word.lower() for word in _WORD.findall(text)))


def content_words(text: str) -> list[str]:
    return [word for word in words(text) if word not in _STOP][:_LONGEST_QUERY]


def any_of(words: Iterable[str]) -> str:
    return " OR ".join(f'"{word}"' for word in words)


def all_of(words: Iterable[str]) -> str:
    return " AND ".join(f'"{word}"' for word in words)


@dataclass(frozen=True, slots=True)
class _Known:
    """What is remembered of an index at one moment."""

    seen: Moment
    rows: int
    first: Keys  # of each session, the first row, rising
    day: Keys  # of each session, when it was said
    found: dict[str, Keys | None]  # where words stand that were asked for; None: too common

    def weight(self, rows: int) -> float:
        return max(math.log((self.rows - rows + 0.5) / (rows + 0.5)), LEAST)

    def days_of(self, keys: Keys) -> Keys:
        days: Keys = self.day[np.searchsorted(self.first, keys, "right") - 1]
        return days


_NO_KEYS = np.zeros(0, np.int64)
_NOTHING = _Known(Moment(-1, -1), 0, _NO_KEYS, _NO_KEYS, {})


class WordIndex:
    """One FTS5 table. Remembers where words stand while the store stays as it is; one that is too
    common stays so as long as rows are only added."""

    def __init__(self, index: Index) -> None:
        self._table = _TABLES[index]
        self._chunks = _CHUNKS[index]
        self._lock = Lock()
        self._known = _NOTHING

    def best(
        self, db: sqlite3.Connection, now: Moment, text: str, count: int, until: int | None
    ) -> list[tuple[int, float]]:
        """(key, score) best first. A row's score is what the query's words that stand in it weigh
        together: rare ones more. How often they do, and how long the row is, tell nothing more:
        rows are a sentence or a turn."""
        known = self._at(db, now)
        stand = {word: self._keys(db, known, now, word) for word in content_words(text)}
        found = [keys for keys in stand.values() if keys is not None and len(keys)]
        if not found:
            common = [word for word, keys in stand.items() if keys is None]
            return self._newest(db, common, count, until) if common else []
        sizes = [len(keys) for keys in found]
        keys, places = np.unique(np.concatenate(found), return_inverse=True)
        scores = np.bincount(places, np.repeat([known.weight(size) for size in sizes], sizes))
        # Sums depend on their order in the last places.
        scores = np.round(scores, 9)
        if until is not None:
            early = known.days_of(keys) <= until
            keys, scores = keys[early], scores[early]
        if len(keys) > count:
            best = scores >= np.partition(scores, len(scores) - count)[len(scores) - count]
            keys, scores = keys[best], scores[best]
        # Of equal rows the one that was said first leads, in whatever order they were remembered.
        top = np.lexsort((keys, known.days_of(keys), -scores))[:count]
        return list(zip(keys[top].tolist(), scores[top].tolist(), strict=True))

    def _newest(
        self, db: sqlite3.Connection, common: list[str], count: int, until: int | None
    ) -> list[tuple[int, float]]:
        """Nothing but words that are everywhere tells rows apart, so the newest it is."""
        day = f"SELECT day FROM {self._chunks} WHERE first <= w.rowid ORDER BY first DESC LIMIT 1"
        later = f"AND ({day}) <= ?" if until is not None else ""
        query = any_of(common)
        return db.execute(
            f"SELECT w.rowid, 0.0 FROM {self._table} w WHERE {self._table} MATCH ? {later} "
            "ORDER BY w.rowid DESC LIMIT ?",
            (query, count) if until is None else (query, until, count),
        ).fetchall()

    def _keys(self, db: sqlite3.Connection, known: _Known, now: Moment, word: str) -> Keys | None:
        """The rows that a word stands in; None if it is too common."""
        if word in known.found:
            return known.found[word]
        # One long text: a thousand rows one by one take several times as long.
        (listed,) = db.execute(
            f"SELECT group_concat(rowid, ' ') FROM (SELECT rowid FROM {self._table} "
            f"WHERE {self._table} MATCH ? LIMIT {POSTINGS + 1})",
            (any_of([word]),),
        ).fetchone()
        keys = np.fromstring(listed or "", np.int64, sep=" ")
        found = keys if len(keys) <= POSTINGS else None
        if known.seen == now:  # and not of a later moment than this connection sees
            known.found[word] = found
        return found

    def _at(self, db: sqlite3.Connection, now: Moment) -> _Known:
        """As it is now, or newer where another thread has moved on already."""
        with self._lock:
            known = self._known
            if known.seen.generation < now.generation:
                if known.seen.removals != now.removals:
                    known = _NOTHING
                self._known = self._extended(db, known, now)
            elif len(known.found) > _REMEMBERED:
                self._known = replace(known, found={})
            return self._known

    def _extended(self, db: sqlite3.Connection, known: _Known, now: Moment) -> _Known:
        added = db.execute(
            f"SELECT first, day, length(keys) / 8 FROM {self._chunks} WHERE first > ? "
            "ORDER BY first",
            (int(known.first[-1]) if len(known.first) else 0,),
        ).fetchall()
        first, day, rows = np.array(added, np.int64).reshape(-1, 3).T
        return _Known(
            seen=now,
            rows=known.rows + int(rows.sum()),
            first=np.concatenate([known.first, first]),
            day=np.concatenate([known.day, day]),
            found={word: None for word, keys in known.found.items() if keys is None},
        )
