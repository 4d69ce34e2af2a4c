"""Exact search over all vectors of a space, held as one matrix while the store is open.

The file stays the truth: each search compares two counters, loads what was added since, and
starts over when anything was removed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from justmem.errors import StoreDamaged
from justmem.ports import Index, Vectors

_PILE = 64  # rows
_PILED = 8  # times as many piles as rows wanted, at least
_VAST = 1e4  # a vector's squared length, which is about 1

_CHUNKS = {
    "cards": "FROM card_chunks WHERE first > ? AND vectors IS NOT NULL",
    "passages": "FROM passage_chunks WHERE first > ? AND vectors IS NOT NULL",
}


class Moment(NamedTuple):
    """A state of the store: `removals` rises when something was taken away or replaced."""

    generation: int
    removals: int


def moment(db: sqlite3.Connection) -> Moment:
    return Moment(*db.execute("SELECT generation, removals FROM space").fetchone())


@dataclass(frozen=True, slots=True)
class Matrix:
    """Rows in rising order of their keys. Later additions never touch these arrays' rows."""

    keys: NDArray[np.int64]
    days: NDArray[np.int32]
    vectors: Vectors
    last_day: int

    def nearest(
        self, queries: Vectors, count: int, until: int | None
    ) -> list[list[tuple[int, float]]]:
        """(key, cosine) for each query, best first."""
        count = min(count, len(self.keys))
        if not count:
            return [[] for _ in queries]
        # This way round, three queries cost the time of two; the other way round, of three.
        scores = np.ascontiguousarray((self.vectors @ np.asarray(queries, np.float32).T).T)
        if until is not None and until < self.last_day:
            scores[:, self.days > until] = -np.inf
        return [self._best(row, count) for row in scores]

    def _best(self, scores: Vectors, count: int) -> list[tuple[int, float]]:
        top = np.flatnonzero(scores >= _threshold(scores, count))
        top = top[np.isfinite(scores[top])]
        top = top[np.lexsort((self.keys[top], -scores[top]))][:count]
        return list(zip(self.keys[top].tolist(), scores[top].tolist(), strict=True))

    def rows(self, keys: Sequence[int]) -> Vectors:
        """Zeros for a key that is no longer there."""
        wanted = np.asarray(keys, np.int64)
        found = np.zeros((len(wanted), self.vectors.shape[1]), np.float32)
        if len(self.keys):
            places = np.searchsorted(self.keys, wanted).clip(max=len(self.keys) - 1)
            known = self.keys[places] == wanted
            found[known] = self.vectors[places[known]]
        return found


def _threshold(scores: Vectors, count: int) -> float:
    """What `count` of these reach, and hardly more. Many are dealt into piles first: that the best
    of so many piles reach it is enough, and piles are far fewer to put in order."""
    if len(scores) >= _PILED * count * _PILE:
        scores = scores[: len(scores) // _PILE * _PILE].reshape(_PILE, -1).max(axis=0)
    return float(np.partition(scores, len(scores) - count)[len(scores) - count])


_EMPTY = Matrix(np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros((0, 0), np.float32), 0)


class MatrixCache:
    def __init__(self, index: Index) -> None:
        self._chunks = _CHUNKS[index]
        self._lock = Lock()
        self._seen: Moment | None = None
        self._matrix = _EMPTY
        self._room = _EMPTY  # the arrays behind the matrix, with rows to spare

    def at(self, db: sqlite3.Connection, now: Moment) -> Matrix:
        """The matrix as it is now, or newer where another thread has moved on already."""
        with self._lock:
            seen = self._seen
            if seen is None or seen.removals < now.removals:
                self._matrix = self._room = _EMPTY
                self._seen = None
            elif seen.generation >= now.generation:
                return self._matrix
            self._extend(db)
            self._seen = now
            return self._matrix

    def _extend(self, db: sqlite3.Connection) -> None:
        count, last_day = len(self._matrix.keys), self._matrix.last_day
        last = (int(self._matrix.keys[-1]) if count else 0,)
        (added,) = db.execute(f"SELECT total(length(keys)) / 8 {self._chunks}", last).fetchone()
        needed = count + int(added)
        for day, keys, vectors in db.execute(
            f"SELECT day, keys, vectors {self._chunks} ORDER BY first", last
        ):
            end = count + len(keys) // 8
            rows = np.frombuffer(vectors, np.float32).reshape(end - count, -1)
            # NaN would hide a card from every search, and a vast number show it in all.
            if not np.vdot(rows, rows) <= _VAST * len(rows):
                raise StoreDamaged("Vectors of this space are damaged: run `justmem reembed`.")
            if needed > len(self._room.keys):
                self._make_room(count, needed, rows.shape[1])
            room = self._room
            room.keys[count:end] = np.frombuffer(keys, np.int64)
            room.days[count:end] = day
            room.vectors[count:end] = rows
            count, last_day = end, max(last_day, day)
        room = self._room
        self._matrix = Matrix(room.keys[:count], room.days[:count], room.vectors[:count], last_day)

    def _make_room(self, count: int, needed: int, dim: int) -> None:
        """Grows by half at least, so that adding sessions one by one copies each row a few times
        at most. Rows to spare take no memory: the system gives pages when they are written."""
        old = self._room
        size = max(needed, len(old.keys) * 3 // 2)
        self._room = Matrix(
            _grown(old.keys[:count], (size,)),
            _grown(old.days[:count], (size,)),
            _grown(old.vectors[:count], (size, dim)),
            0,
        )


def _grown(old: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    new = np.empty(shape, old.dtype)
    if len(old):
        new[: len(old)] = old
    return new
