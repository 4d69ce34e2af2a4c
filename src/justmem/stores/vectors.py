"""Exact search over all vectors of a space, held as one matrix while the store is open.

The file stays the truth: each search compares two counters, loads what was added since, and
starts over when anything was removed. The matrix lies in blocks of rows, so that it grows without
being copied, and so that a block is still in the processor's cache for the next query. Whoever
searches again gets it by columns, a few blocks at a time: that scans a quarter faster, and whoever
searches once should not pay for it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from justmem.errors import StoreDamaged
from justmem.ports import Index, Pair, Vectors, together

_BLOCK = 4096  # rows
_LEAST = 64
_TURNS = 8  # searches after which every full block lies by columns
_TILE = 64  # rows that are turned at once
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


class During(NamedTuple):
    """How many more are wanted of what was said between two days."""

    first: int
    last: int
    wanted: int


def moment(db: sqlite3.Connection) -> Moment:
    return Moment(*db.execute("SELECT generation, removals FROM space").fetchone())


@dataclass(frozen=True, slots=True)
class Matrix:
    """Rows in rising order of their keys. Later additions never touch these arrays' rows."""

    keys: NDArray[np.int64]
    days: NDArray[np.int32]
    blocks: tuple[Vectors, ...]  # all but the last have _BLOCK rows
    last_day: int

    def nearest(
        self, queries: Vectors, count: int, until: int | None, during: During | None = None
    ) -> list[list[Pair]]:
        """(key, cosine) for each query, best first."""
        count = min(count, len(self.keys))
        if not count:
            return [[] for _ in queries]
        scores = np.empty((len(queries), len(self.keys)), np.float32)
        for block, place in zip(self.blocks, range(0, len(self.keys), _BLOCK), strict=True):
            for query, row in zip(np.asarray(queries, np.float32), scores, strict=True):
                np.dot(block, query, out=row[place : place + len(block)])
        if until is not None and until < self.last_day:
            scores[:, self.days > until] = -np.inf
        near = [self._best(row, count) for row in scores]
        if during is None:
            return near
        scores[:, (self.days < during.first) | (self.days > during.last)] = -np.inf
        more = [self._best(row, min(during.wanted, len(row))) for row in scores]
        return [together(*each) for each in zip(near, more, strict=True)]

    def _best(self, scores: Vectors, count: int) -> list[Pair]:
        top = np.flatnonzero(scores >= _threshold(scores, count))
        top = top[np.isfinite(scores[top])]
        top = top[np.lexsort((self.keys[top], -scores[top]))][:count]
        return list(zip(self.keys[top].tolist(), scores[top].tolist(), strict=True))

    def rows(self, keys: Sequence[int]) -> Vectors:
        """Zeros for a key that is no longer there."""
        found = np.zeros((len(keys), self.blocks[0].shape[1] if self.blocks else 0), np.float32)
        places = np.searchsorted(self.keys, keys).tolist()
        for row, key, place in zip(found, keys, places, strict=True):
            if place < len(self.keys) and self.keys[place] == key:
                row[:] = self.blocks[place // _BLOCK][place % _BLOCK]
        return found


def _threshold(scores: Vectors, count: int) -> float:
    """What `count` of these reach, and hardly more. Many are dealt into piles first: that the best
    of so many piles reach it is enough, and piles are far fewer to put in order."""
    if len(scores) >= _PILED * count * _PILE:
        scores = scores[: len(scores) // _PILE * _PILE].reshape(_PILE, -1).max(axis=0)
    return float(np.partition(scores, len(scores) - count)[len(scores) - count])


_EMPTY = Matrix(np.zeros(0, np.int64), np.zeros(0, np.int32), (), 0)


class _Rows:
    """Rows to which more are added, without moving those that are there."""

    def __init__(self) -> None:
        self._full: list[Vectors] = []
        self._last: Vectors = np.zeros((0, 0), np.float32)
        self._filled = 0  # rows of the last block

    @property
    def blocks(self) -> tuple[Vectors, ...]:
        return (*self._full, self._last[: self._filled]) if self._filled else ()

    def add(self, rows: Vectors) -> None:
        while len(rows):
            if self._filled == len(self._last):
                self._make_room(rows.shape[1])
            taken = rows[: len(self._last) - self._filled]
            self._last[self._filled : self._filled + len(taken)] = taken
            self._filled += len(taken)
            rows = rows[len(taken) :]

    def _make_room(self, dim: int) -> None:
        """The first block doubles until it is one, as most spaces are small."""
        if self._filled == _BLOCK:
            self._full.append(self._last)
            self._last, self._filled = np.empty((_BLOCK, dim), np.float32), 0
        else:
            grown = np.empty((max(_LEAST, 2 * self._filled), dim), np.float32)
            if self._filled:
                grown[: self._filled] = self._last
            self._last = grown

    def turn(self) -> bool:
        """Lays some more of the full blocks by columns. Whoever holds the old ones keeps them."""
        lying = [n for n, block in enumerate(self._full) if block.flags.c_contiguous]
        for number in lying[: -(-len(self._full) // _TURNS)]:
            self._full[number] = _by_columns(self._full[number])
        return bool(lying)


def _by_columns(block: Vectors) -> Vectors:
    turned = np.empty(block.shape, np.float32, order="F")
    for start in range(0, len(block), _TILE):  # as much as the cache holds of both
        turned[start : start + _TILE] = block[start : start + _TILE]
    return turned


class MatrixCache:
    def __init__(self, index: Index) -> None:
        self._chunks = _CHUNKS[index]
        self._lock = Lock()
        self._seen: Moment | None = None
        self._matrix = _EMPTY
        self._rows = _Rows()
        self._searched = False

    def at(self, db: sqlite3.Connection, now: Moment) -> Matrix:
        """The matrix as it is now, or newer where another thread has moved on already."""
        with self._lock:
            seen = self._seen
            if seen is None or seen.removals < now.removals:
                self._matrix, self._rows = _EMPTY, _Rows()
            elif seen.generation >= now.generation:
                return self._matrix
            self._seen = None  # should reading fail, the next search begins anew
            self._extend(db)
            self._seen = now
            return self._matrix

    def nearest(
        self,
        db: sqlite3.Connection,
        now: Moment,
        queries: Vectors,
        count: int,
        until: int | None,
        during: During | None = None,
    ) -> list[list[Pair]]:
        found = self.at(db, now).nearest(queries, count, until, during)
        with self._lock:
            if self._searched and self._rows.turn():
                self._matrix = replace(self._matrix, blocks=self._rows.blocks)
            self._searched = True
        return found

    def _extend(self, db: sqlite3.Connection) -> None:
        old = self._matrix
        last = int(old.keys[-1]) if len(old.keys) else 0
        packed, days, counts = [], [], []
        for day, keys, vectors in db.execute(
            f"SELECT day, keys, vectors {self._chunks} ORDER BY first", (last,)
        ):
            rows = np.frombuffer(vectors, np.float32).reshape(len(keys) // 8, -1)
            # NaN would hide a card from every search, and a vast number show it in all.
            if not np.vdot(rows, rows) <= _VAST * len(rows):
                raise StoreDamaged("Vectors of this space are damaged: run `justmem reembed`.")
            self._rows.add(rows)
            packed.append(keys)
            days.append(day)
            counts.append(len(rows))
        self._matrix = Matrix(
            np.concatenate([old.keys, np.frombuffer(b"".join(packed), np.int64)]),
            np.concatenate([old.days, np.repeat(np.array(days, np.int32), counts)]),
            self._rows.blocks,
            max([old.last_day, *days]),
        )
