"""The terms and vectors of a space as arrays in memory, scanned exactly.

They are loaded once. Afterwards only changed sessions are read again. Ranks are the same on every
engine, because no engine takes part in ranking.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from justmem.errors import StoreDamaged
from justmem.ports import Index, Pair, SearchLimits, Vectors
from justmem.ports.vectors import Coded, coded
from justmem.store.session_index import Block, Ints, Keys, content_words, term

_TILE = 512  # rows that are converted at a time, so that they stay in the processor's cache
# A term that occurs in more rows than this tells little about any of them.
COMMON = 1000
_LEAST = 1e-6  # the weight of a term that occurs in half of all rows or more
_LONGEST_QUERY = 64  # words
_AT_ONCE = 256  # blocks joined at a time

Bytes = NDArray[np.int8]


# ---------------------------------------------------------------- scanning


def _numpy_dots(codes: Bytes, queries: Bytes) -> NDArray[np.float32]:
    """Sums of products of int8 are whole numbers that float32 holds exactly, in any order."""
    rows = queries.astype(np.float32)
    dots = np.empty((len(queries), len(codes)), np.float32)
    room = np.empty((_TILE, codes.shape[1]), np.float32)
    for at in range(0, len(codes), _TILE):
        tile = room[: len(codes) - at]
        np.copyto(tile, codes[at : at + _TILE])
        for query, out in zip(rows, dots, strict=True):
            np.dot(tile, query, out=out[at : at + _TILE])
    return dots


def _numkong_dots() -> Callable[[Bytes, Bytes], NDArray[np.float32]] | None:
    try:
        import numkong
    except ImportError:
        return None

    def dots(codes: Bytes, queries: Bytes) -> NDArray[np.float32]:
        found = numkong.dots_packed(codes, numkong.dots_pack(queries))
        return np.ascontiguousarray(np.asarray(found).T, np.float32)

    return dots


_dots: Callable[[Bytes, Bytes], NDArray[np.float32]] = _numkong_dots() or _numpy_dots


Rows = NDArray[np.bool_]  # one flag for each row
Terms = NDArray[np.uint64]
_SHIFT, _ROW = np.uint64(32), np.uint64(0xFFFFFFFF)


class During(NamedTuple):
    """How many more rows to return that were said between two days."""

    first: int
    last: int
    wanted: int


def _joined(parts: Sequence[Coded]) -> Coded:
    """Parts without dimensions have no vectors."""
    dims = {part.dim for part in parts if len(part.scales)} - {0}
    if len(dims) > 1:
        raise StoreDamaged("The vectors of this space are damaged: run `justmem reembed`.")
    dim = max(dims, default=0)
    filled = [part if part.dim == dim else Coded.empty(len(part.scales), dim) for part in parts]
    return Coded(*map(np.concatenate, zip(*filled, strict=True)))


class Arrays:
    """The cards or the passages of a space. Rows are sorted by key. The rows of a session are
    consecutive. Not thread-safe: callers hold a lock."""

    def __init__(self, kind: Index, *, dense: bool = False) -> None:
        self.kind = kind
        self.dense = dense  # whether the vectors are loaded too
        self.generation = self.removals = -1
        self.parts: dict[str, Block] = {}  # by session, in order of rows; without terms and vectors
        self._in_order: list[Block] = []
        self._starts: Keys = np.zeros(0, np.int64)  # the first row of each part
        self._keys: Keys = np.zeros(0, np.int64)
        self._days = np.zeros(0, np.int32)
        self._coded = Coded.empty(0, 0)  # a scale of 0: no vector
        # For each row and each of its terms `hash << 32 | row`, sorted.
        self._terms: Terms = np.zeros(0, np.uint64)

    def __len__(self) -> int:
        return len(self._keys)

    # ------------------------------------------------------------ loading

    def update(self, gone: Iterable[str], changed: Iterable[Block]) -> None:
        """Drops the sessions in `gone`, and adds `changed` or replaces what is loaded of them. At
        first `changed` must be sorted by key, and may be long."""
        if len(self):
            changed = sorted(changed, key=lambda block: block.first)
            dropped = {*gone, *(block.session for block in changed)} & self.parts.keys()
            if dropped:
                self._reorder([part for part in self._in_order if part.session not in dropped])
        self._append(iter(changed))
        if np.any(self._keys[1:] < self._keys[:-1]):
            self._reorder(sorted(self._in_order, key=lambda part: part.first))

    def _reorder(self, parts: Sequence[Block]) -> None:
        """Keeps only the rows of these parts, in this order."""
        starts = dict(zip(self.parts, self._starts.tolist(), strict=True))
        ranges = [np.arange(len(part)) + starts[part.session] for part in parts]
        old: Keys = np.concatenate([np.zeros(0, np.int64), *ranges])
        moved = np.full(len(self), -1, np.int64)
        moved[old] = np.arange(len(old))
        self._keys, self._days = self._keys[old], self._days[old]
        if self.dense:
            self._coded = self._coded.at(old)
        rows = moved[self._terms & _ROW]
        stay = rows >= 0
        self._terms = np.sort((self._terms[stay] & ~_ROW) | rows[stay].astype(np.uint64))
        self._number(parts)

    def _number(self, parts: Sequence[Block]) -> None:
        self._in_order = list(parts)
        self.parts = {part.session: part for part in parts}
        self._starts = np.cumsum([0, *(len(part) for part in parts)])[:-1]

    def _append(self, blocks: Iterator[Block]) -> None:
        """Joins some blocks at a time, so that their bytes are not all in memory at once."""
        keys, days, vectors = [self._keys], [self._days], [self._coded]
        terms: list[Terms] = []
        parts, rows = [*self._in_order], len(self)
        while some := list(islice(blocks, _AT_ONCE)):
            if self.dense:
                vectors.append(_joined([block.coded for block in some]))
            keys.append(np.concatenate([np.arange(len(b)) + b.first for b in some]))
            days += [block.days for block in some]
            counts = np.concatenate([block.counts for block in some])
            hashes = np.concatenate([block.hashes for block in some]).astype(np.uint64)
            numbers = np.arange(rows, rows + len(counts), dtype=np.uint64)
            terms.append(hashes << _SHIFT | np.repeat(numbers, counts))
            parts += [block.bare() for block in some]
            rows += len(counts)
        if not terms:
            return
        self._keys, self._days = np.concatenate(keys), np.concatenate(days)
        if self.dense:
            self._coded = _joined(vectors)
        fresh = np.concatenate(terms)
        fresh.sort()
        if len(self._terms):
            fresh = np.insert(self._terms, np.searchsorted(self._terms, fresh), fresh)
        self._terms = fresh
        self._number(parts)

    # ------------------------------------------------------------ words

    def rows_with(self, words: Sequence[str]) -> list[Ints]:
        """For each word, the rows that its term occurs in."""
        wanted = np.array([term(word) for word in words], np.uint64) << _SHIFT
        first = np.searchsorted(self._terms, wanted).tolist()
        end = np.searchsorted(self._terms, wanted | _ROW, "right").tolist()
        return [
            (self._terms[low:high] & _ROW).astype(np.int32)
            for low, high in zip(first, end, strict=True)
        ]

    def allowed(self, limits: SearchLimits) -> Rows | None:
        """Which rows a search may return, by day and session. None: all."""
        if limits.since is None and limits.until is None and limits.sessions is None:
            return None
        stay = np.ones(len(self), np.bool_)
        if limits.since is not None:
            stay &= self._days >= limits.since.toordinal()
        if limits.until is not None:
            stay &= self._days <= limits.until.toordinal()
        if limits.sessions is not None:
            wanted = np.array(
                [part.session in limits.sessions for part in self._in_order], np.bool_
            )
            stay &= np.repeat(wanted, [len(part) for part in self._in_order])
        return stay

    def best(self, text: str, count: int, stay: Rows | None) -> list[Pair]:
        """(key, score), best first. The score of a row is the sum of the weights of the query's
        words that occur in it. Rare words weigh more. Frequency within a row and its length do not
        count, because a row is a sentence or a turn."""
        by_word = self.rows_with(content_words(text)[:_LONGEST_QUERY])
        found = [rows for rows in by_word if 0 < len(rows) <= COMMON]
        if not found:
            return self._newest([rows for rows in by_word if len(rows)], count, stay)
        sizes = [len(rows) for rows in found]
        rows, places = np.unique(np.concatenate(found), return_inverse=True)
        scores = np.bincount(places, np.repeat([self._weight(size) for size in sizes], sizes))
        scores = np.round(scores, 9)  # the last digits of a sum depend on its order
        if stay is not None:
            kept = stay[rows]
            rows, scores = rows[kept], scores[kept]
        if len(rows) > count:
            enough = scores >= np.partition(scores, len(scores) - count)[len(scores) - count]
            rows, scores = rows[enough], scores[enough]
        # Of equal rows the one that was said first comes first.
        top = np.lexsort((self._keys[rows], self._days[rows], -scores))[:count]
        return list(zip(self._keys[rows[top]].tolist(), scores[top].tolist(), strict=True))

    def _weight(self, rows: int) -> float:
        return max(math.log((len(self) - rows + 0.5) / (rows + 0.5)), _LEAST)

    def _newest(self, common: Sequence[Ints], count: int, stay: Rows | None) -> list[Pair]:
        """All words of the query are too common to rank by: the newest rows, with score 0."""
        if not common:
            return []
        rows = np.unique(np.concatenate(common))
        if stay is not None:
            rows = rows[stay[rows]]
        return [(key, 0.0) for key in self._keys[rows[::-1][:count]].tolist()]

    def with_all(self, words: Sequence[str]) -> list[int]:
        """Keys of the rows that all these words occur in, in order."""
        if not words:
            return []
        rows: Ints = reduce(np.intersect1d, self.rows_with(words))
        keys: list[int] = np.sort(self._keys[rows]).tolist()
        return keys

    # ------------------------------------------------------------ vectors

    def nearest(
        self, queries: Vectors, count: int, stay: Rows | None, during: During | None = None
    ) -> list[list[Pair]]:
        """For each query (key, score), best first. `during` adds rows of that period."""
        if not len(self) or self._coded.dim != queries.shape[1]:
            return [[] for _ in queries]
        asked, own = coded(queries), self._coded.scales
        scores = _dots(self._coded.high, asked.high)
        scores *= own
        scores *= 256 * asked.scales[:, None]
        left_out = own == 0
        if stay is not None:
            left_out |= ~stay
        scores[:, left_out] = -np.inf
        # Rounding to eight bits moves a score by a fifth of these two at most, nearly always.
        margins = 32 * (asked.scales + own.max(initial=0.0))
        near = [self._top(*each, count) for each in zip(scores, queries, margins, strict=True)]
        if during is None:
            return near
        scores[:, (self._days < during.first) | (self._days > during.last)] = -np.inf
        for n, each in enumerate(zip(scores, queries, margins, strict=True)):
            near[n] = union(near[n], self._top(*each, during.wanted))
        return near

    def _top(
        self, scores: NDArray[np.float32], query: Vectors, margin: float, count: int
    ) -> list[Pair]:
        """Scores all rows within a margin of the last wanted one again, with all bits: rounding
        may have changed their order."""
        if not count:
            return []
        last = 0 if count >= len(scores) else len(scores) - count
        rows = np.flatnonzero(scores >= np.partition(scores, last)[last] - margin)
        if len(rows) > 4 * count + 64:  # many equal rows: any of them will do
            rows = rows[np.argsort(-scores[rows], kind="stable")[: 4 * count + 64]]
        rows = rows[np.isfinite(scores[rows])]
        exact, keys = self.vectors(rows) @ query, self._keys[rows]
        top = np.lexsort((keys, -exact))[:count]
        return list(zip(keys[top].tolist(), exact[top].tolist(), strict=True))

    def vectors(self, rows: Ints | Keys) -> Vectors:
        """Zeros for a row without a vector."""
        return self._coded.at(rows).vectors

    # ------------------------------------------------------------ places

    def rows_at(self, keys: Sequence[int]) -> dict[int, int]:
        """The rows of those keys that are there."""
        wanted = np.asarray(keys, np.int64)
        places = np.searchsorted(self._keys, wanted).tolist()
        return {
            key: place
            for key, place in zip(wanted.tolist(), places, strict=True)
            if place < len(self._keys) and self._keys[place] == key
        }

    def parts_of(self, rows: Iterable[int]) -> list[tuple[Block, int]]:
        """The parts that rows belong to, and their places there."""
        wanted = np.fromiter(rows, np.int64)
        numbers = np.searchsorted(self._starts, wanted, "right") - 1
        places = (wanted - self._starts[numbers]).tolist()
        return [(self._in_order[n], at) for n, at in zip(numbers.tolist(), places, strict=True)]


def union(near: Iterable[Pair], more: Iterable[Pair]) -> list[Pair]:
    """Each key once, best first. The last digits of a score depend on the rows that were multiplied
    together, so a key may have two scores."""
    return sorted({**dict(more), **dict(near)}.items(), key=lambda pair: (-pair[1], pair[0]))
