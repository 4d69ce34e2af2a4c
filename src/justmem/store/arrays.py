"""The index of a space as arrays in memory, scanned exactly.

They are loaded once. Afterwards only new rows are read. Ranks are the same on every engine, because
no engine takes part in ranking.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import date
from functools import lru_cache, reduce
from itertools import islice
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from justmem.ports import Index, Pair, Place, SearchLimits, View
from justmem.store import codes, terms
from justmem.store.engine import Connection

# A term that occurs in more rows than this tells little about any of them.
COMMON = 1000
_LEAST = 1e-6  # the weight of a term that occurs in half of all rows or more
_LONGEST_QUERY = 64  # words
_SPARE = 16  # more rows than wanted, because the upper bits may rank some of them too low
_AT_ONCE = 4096  # rows that are joined at a time
_SHIFT, _ROW = np.uint64(32), np.uint64(0xFFFFFFFF)

Ints = NDArray[np.int64]
Rows = NDArray[np.uint64]  # numbers of rows
N = TypeVar("N", bound=np.generic)
Flags = NDArray[np.bool_]  # one for each row


@lru_cache(1024)
def _day(text: str) -> int:
    return date.fromisoformat(text[:10]).toordinal()


class Arrays:
    """The cards or the passages of a space. Rows are sorted by key. Not thread-safe: callers hold a
    lock."""

    def __init__(self, index: Index, *, dense: bool) -> None:
        self.index = index
        self.dense = dense  # whether the vectors are loaded too
        self._next_key = self._removals = 0
        self._keys: Ints = np.zeros(0, np.int64)
        self._days: Ints = np.zeros(0, np.int64)
        self._codes = codes.Upper(np.zeros((0, 0), np.int8), np.zeros(0, np.float32))
        # For each row and each of its terms `term << 32 | row`, sorted.
        self._terms = np.zeros(0, np.uint64)

    # ------------------------------------------------------------ loading

    def update(self, db: Connection, next_key: int, removals: int, dim: int) -> None:
        """Reads what changed since the last time. Does nothing if another thread has read a later
        state."""
        if removals > self._removals:
            there = [key for (key,) in db.select("key", self.index)]
            self._keep(np.isin(self._keys, np.array(there, np.int64)))
            self._removals = removals
        if next_key > self._next_key:
            self._append(db, dim if self.dense else 0)
            self._next_key = next_key

    def _keep(self, stay: Flags) -> None:
        if stay.all():
            return
        self._keys, self._days = self._keys[stay], self._days[stay]
        self._codes = codes.Upper(self._codes.numbers[stay], self._codes.scales[stay])
        moved = np.cumsum(stay, dtype=np.uint64) - np.uint64(1)
        rows = self._terms & _ROW
        left = stay[rows]
        self._terms = (self._terms[left] & ~_ROW) | moved[rows[left]]

    def _append(self, db: Connection, dim: int) -> None:
        """Reads some rows at a time, so that their bytes are not all in memory at once."""
        start, new = len(self._keys), f"AND key >= {self._next_key}"
        ((more,),) = db.select("count(*)", self.index, new)
        if not more:
            return
        self._keys, self._days = _longer(self._keys, more), _longer(self._days, more)
        numbers, scales = self._codes
        if numbers.shape[1] != dim:
            numbers = np.zeros((start, dim), np.int8)
        self._codes = codes.Upper(_longer(numbers, more), _longer(scales, more))
        hashes: list[Rows] = []
        vector = f"substr(vector, 1, {codes.upper_size(dim)})" if dim else "NULL"
        sql = f"SELECT key, said_at, terms, {vector} FROM {self.index} WHERE space = ? {new}"
        found = db.each(f"{sql} ORDER BY key", db.space)
        while some := list(islice(found, _AT_ONCE)):
            end = start + len(some)
            keys, said, packed, vectors = zip(*some, strict=True)
            self._keys[start:end] = keys
            self._days[start:end] = [_day(each) for each in said]
            if dim:
                self._codes.numbers[start:end], self._codes.scales[start:end] = codes.upper_bits(
                    vectors, dim
                )
            sizes, joined = terms.unpack(packed)
            own = np.frombuffer(joined, "<u4").astype(np.uint64) << _SHIFT
            hashes.append(own | np.repeat(np.arange(start, end, dtype=np.uint64), sizes))
            start = end
        added = np.concatenate(hashes)
        added.sort()
        if len(self._terms):
            added = np.insert(self._terms, np.searchsorted(self._terms, added), added)
        self._terms = added

    # ------------------------------------------------------------ terms

    def _rows_with(self, wanted: Sequence[int]) -> list[Rows]:
        """For each term, the rows that it occurs in."""
        lowest = np.array(wanted, np.uint64) << _SHIFT
        first = np.searchsorted(self._terms, lowest).tolist()
        end = np.searchsorted(self._terms, lowest | _ROW, "right").tolist()
        return [self._terms[low:high] & _ROW for low, high in zip(first, end, strict=True)]

    def with_any(self, places: Iterable[Place], stay: Flags | None = None) -> list[int]:
        """Keys of the rows of any of these turns, in order. Two turns may share a term by chance,
        so a few rows may be of others."""
        wanted = [terms.place(*place) for place in places]
        rows = np.unique(np.concatenate([np.zeros(0, np.uint64), *self._rows_with(wanted)]))
        found: list[int] = self._keys[rows if stay is None else rows[stay[rows]]].tolist()
        return found

    def with_all(self, words: Sequence[str]) -> list[int]:
        """Keys of the rows that all these words occur in, in order."""
        if not words:
            return []
        rows: Rows = reduce(np.intersect1d, self._rows_with([terms.term(word) for word in words]))
        found: list[int] = self._keys[rows].tolist()
        return found

    def allowed(self, db: Connection, limits: SearchLimits) -> Flags | None:
        """Which rows a search may return, by day and session. None: all."""
        if limits.since is None and limits.until is None and limits.sessions is None:
            return None
        stay = self._between(limits.since or date.min, limits.until or date.max)
        if limits.sessions is not None:
            own = db.among("key", self.index, "session", limits.sessions)
            stay &= np.isin(self._keys, np.array([key for (key,) in own], np.int64))
        return stay

    def _between(self, first: date, last: date) -> Flags:
        found: Flags = (self._days >= first.toordinal()) & (self._days <= last.toordinal())
        return found

    def best(self, text: str, count: int, stay: Flags | None) -> list[Pair]:
        """(key, score), best first. The score of a row is the sum of the weights of the query's
        words that occur in it. Rare words weigh more. Frequency within a row and its length do not
        count, because a row is a sentence or a turn."""
        if not count:
            return []
        wanted = [terms.term(word) for word in terms.content_words(text)[:_LONGEST_QUERY]]
        by_word = self._rows_with(wanted)
        found = [rows for rows in by_word if 0 < len(rows) <= COMMON]
        if not found:
            return self._newest([rows for rows in by_word if len(rows)], count, stay)
        sizes = [len(rows) for rows in found]
        rows, places = np.unique(np.concatenate(found), return_inverse=True)
        scores = np.bincount(places, np.repeat([self._weight(size) for size in sizes], sizes))
        scores = np.round(scores, 9)  # the last digits of a sum depend on its order
        if stay is not None:
            rows, scores = rows[stay[rows]], scores[stay[rows]]
        # Of equal rows the one that was said first comes first.
        top = np.lexsort((self._keys[rows], self._days[rows], -scores))[:count]
        return list(zip(self._keys[rows[top]].tolist(), scores[top].tolist(), strict=True))

    def _weight(self, rows: int) -> float:
        return max(math.log((len(self._keys) - rows + 0.5) / (rows + 0.5)), _LEAST)

    def _newest(self, common: Sequence[Rows], count: int, stay: Flags | None) -> list[Pair]:
        """All words of the query are too common to rank by: the newest rows, with score 0."""
        if not common:
            return []
        rows = np.unique(np.concatenate(common))
        if stay is not None:
            rows = rows[stay[rows]]
        return [(key, 0.0) for key in self._keys[rows[::-1][:count]].tolist()]

    # ------------------------------------------------------------ vectors

    def near(
        self, views: Sequence[View], count: int, limits: SearchLimits, stay: Flags | None
    ) -> list[list[list[int]]]:
        """For each view, keys of the rows that may be the nearest, by the upper bits alone: among
        all rows, and among those said during `limits.during`."""
        numbers, scales = self._codes
        dim = numbers.shape[1]
        if not (count and dim and views and all(view.vector.size == dim for view in views)):
            return [[] for _ in views]
        packed = codes.pack(np.stack([view.vector for view in views]))
        scores = codes.dots(numbers, codes.upper_bits(packed, dim).numbers)
        scores *= scales
        scores[:, scales == 0 if stay is None else ~stay | (scales == 0)] = -np.inf
        found = [[self._top(row, count)] for row in scores]
        if limits.during:
            scores[:, ~self._between(*limits.during)] = -np.inf
            for own, row in zip(found, scores, strict=True):
                own.append(self._top(row, limits.more))
        return found

    def _top(self, scores: codes.Scores, count: int) -> list[int]:
        count = min(count + _SPARE, len(scores))
        rows = np.argpartition(scores, len(scores) - count)[len(scores) - count :]
        found: list[int] = self._keys[rows[np.isfinite(scores[rows])]].tolist()
        return found


def _longer(array: NDArray[N], more: int) -> NDArray[N]:
    """With more rows of zeros."""
    return np.concatenate([array, np.zeros((more, *array.shape[1:]), array.dtype)])
