"""Lexical search: which words of a query to look up, and the best rows by BM25.

User text never reaches FTS5's query syntax: it is cut into words, and each is quoted.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable

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

# Reading a word's rows and scoring them takes a microsecond or so each. A query reads this many
# at most, rarest words first: the words that tell rows apart are always among them, and a name
# that stands on every second card costs nothing.
POSTINGS = 1000
_LONGEST_QUERY = 64  # words
_REMEMBERED = 20_000  # words whose frequency is kept at most

_TABLES = {"cards": "card_words", "passages": "passage_words"}
_DAY = {
    index: f"(SELECT day FROM {chunks} WHERE first <= w.rowid ORDER BY first DESC LIMIT 1)"
    for index, chunks in (("cards", "card_chunks"), ("passages", "passage_chunks"))
}


def words(text: str) -> list[str]:
    return list(dict.fromkeys(word.lower() for word in _WORD.findall(text)))


def content_words(text: str) -> list[str]:
    return [word for word in words(text) if word not in _STOP][:_LONGEST_QUERY]


def any_of(words: Iterable[str]) -> str:
    return " OR ".join(f'"{word}"' for word in words)


def all_of(words: Iterable[str]) -> str:
    return " AND ".join(f'"{word}"' for word in words)


class WordIndex:
    """One FTS5 table. Remembers how common a word is while the store stays as it is; one that
    is too common stays so as long as rows are only added."""

    def __init__(self, index: Index) -> None:
        self._table = _TABLES[index]
        self._day = _DAY[index]
        self._seen = Moment(-1, -1)
        self._counts: dict[str, int] = {}

    def best(
        self, db: sqlite3.Connection, now: Moment, text: str, count: int, until: int | None
    ) -> list[tuple[int, float]]:
        """(key, BM25) best first."""
        counts = self._counted(db, now, content_words(text))
        chosen, total = [], 0
        for word in sorted(counts, key=lambda word: (counts[word], word)):
            total += counts[word]
            if total > POSTINGS:
                break
            chosen.append(word)
        if chosen:
            # Sorting here takes two thirds of the time that sorting by FTS5's own `rank` takes.
            bm25 = f"bm25({self._table})"
            rows = self._rows(db, bm25, "score, w.rowid", any_of(chosen), count, until)
            return [(key, -score) for key, score in rows]
        # Nothing but words that are everywhere: BM25 would tell little, so the newest rows it is.
        newest = "w.rowid DESC"
        return self._rows(db, "0.0", newest, any_of(counts), count, until) if counts else []

    def _rows(
        self,
        db: sqlite3.Connection,
        score: str,
        order: str,
        query: str,
        count: int,
        until: int | None,
    ) -> list[tuple[int, float]]:
        later = f"AND {self._day} <= ?" if until is not None else ""
        return db.execute(
            f"SELECT w.rowid, {score} AS score FROM {self._table} w "
            f"WHERE {self._table} MATCH ? {later} ORDER BY {order} LIMIT ?",
            (query, count) if until is None else (query, until, count),
        ).fetchall()

    def _counted(self, db: sqlite3.Connection, now: Moment, words: list[str]) -> dict[str, int]:
        """The words that occur, with the number of their rows (up to one more than POSTINGS)."""
        if now != self._seen:
            common = {word: n for word, n in self._counts.items() if n > POSTINGS}
            self._counts = common if now.removals == self._seen.removals else {}
            self._seen = now
        if len(self._counts) > _REMEMBERED:
            self._counts = {}
        counts = self._counts
        for word in words:
            if word not in counts:
                counts[word] = self._count(db, word)
        return {word: counts[word] for word in words if counts[word]}

    def _count(self, db: sqlite3.Connection, word: str) -> int:
        query = f"SELECT 1 FROM {self._table} WHERE {self._table} MATCH ? LIMIT {POSTINGS + 1}"
        (count,) = db.execute(f"SELECT count(*) FROM ({query})", (any_of([word]),)).fetchone()
        return int(count)
