"""The terms and vectors of a space as arrays in memory, scanned exactly.

They are loaded once. Afterwards only sessions that changed are read again. Ranks do not depend on
the engine, because no engine takes part in ranking.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from justmem.errors import StoreDamaged
from justmem.ports import Index, Pair, Reach, Vectors
from justmem.ports.vectors import Coded, coded
from justmem.store.blocks import Block, Hashes, Ints, Keys, content_words, term

_TILE = 512  # rows that are converted at a time, so that they stay in the processor's cache
# A term that occurs in more rows than this tells little about any of them.
COMMON = 1000
_LEAST = 1e-6  # the weight of a term that occurs in half of all rows or more
_LONGEST_QUERY = 64  # words

Bytes = NDArray[np.int8]
_NO_HASHES = np.zeros(0, np.uint32)
_NO_ROWS = np.zeros(0, np.int32)


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


class During(NamedTuple):
    """How many more are wanted of what was said between two days."""

    first: int
    last: int
    wanted: int


@dataclass(frozen=True, slots=True)
class Part:
    """The rows of one session: from `start` on. `places` as in its block."""

    session: str
    generation: int
    start: int
    offsets: Ints
    first: int
    places: Ints

    @property
    def keys(self) -> Keys:
        keys: Keys = self.offsets.astype(np.int64) + self.first
        return keys

    def __len__(self) -> int:
        return len(self.offsets)


class Arrays:
    """The cards or the passages of a space. Rows are in rising order of their keys, and those of
    a session lie side by side. Not safe for threads: whoever shares it holds a lock."""

    def __init__(self, kind: Index, *, dense: bool = False) -> None:
        self.kind = kind
        self.dense = dense  # whether the vectors are loaded too
        self.generation = self.removals = -1
        self.parts: dict[str, Part] = {}  # by session, in order of rows
        self._in_order: list[Part] = []
        self._starts: Keys = np.zeros(0, np.int64)
        self._keys: Keys = np.zeros(0, np.int64)
        self._days = _NO_ROWS
        self._coded = _room(0, 0)  # more rows than there are keys; a scale of 0: no vector
        self._sorted: tuple[Hashes, Ints] = (_NO_HASHES, _NO_ROWS)  # by hash
        self._added: tuple[Hashes, Ints] = (_NO_HASHES, _NO_ROWS)

    def __len__(self) -> int:
        return len(self._keys)

    # ------------------------------------------------------------ loading

    def update(self, gone: Iterable[str], changed: Sequence[Block], expected: int = 0) -> None:
        """Drops the sessions in `gone`, and puts `changed` in the place of what was there of them.
        `expected`: rows to make room for."""
        dropped = {*gone, *(block.session for block in changed)} & self.parts.keys()
        if dropped:
            self._keep([part for part in self.parts.values() if part.session not in dropped])
        if changed:
            self._append(sorted(changed, key=lambda block: block.first), expected)
        if np.any(self._keys[1:] < self._keys[:-1]):
            self._keep(sorted(self.parts.values(), key=lambda part: part.first))
        self._in_order = list(self.parts.values())
        self._starts = np.array([part.start for part in self._in_order], np.int64)

    def _keep(self, parts: Sequence[Part]) -> None:
        """Only these, in this order."""
        ranges = [np.arange(part.start, part.start + len(part)) for part in parts]
        old = np.concatenate(ranges or [np.zeros(0, np.int64)]).astype(np.int64)
        moved = np.full(len(self), -1, np.int32)
        moved[old] = np.arange(len(old), dtype=np.int32)
        self._keys, self._days = self._keys[old], self._days[old]
        if self.dense:
            self._coded = self._coded.at(old)
        self._sorted = _renumbered(*self._sorted, moved)
        self._added = _renumbered(*self._added, moved)
        self.parts = {}
        self._number(parts, 0)

    def _number(self, parts: Iterable[Part | Block], start: int) -> None:
        for each in parts:
            # Copies: a view would keep the whole blob in memory.
            offsets, places = each.offsets.copy(), each.places.copy()
            part = Part(each.session, each.generation, start, offsets, each.first, places)
            self.parts[each.session] = part
            start += len(part)

    def _append(self, blocks: Sequence[Block], expected: int) -> None:
        lengths = np.array([len(block) for block in blocks])
        start = len(self)
        if self.dense:
            self._append_vectors(blocks, start + int(lengths.sum()), expected)
        days = np.repeat(np.array([block.day for block in blocks], np.int32), lengths)
        counts = np.concatenate([block.counts for block in blocks])
        rows = np.repeat(np.arange(start, start + len(counts), dtype=np.int32), counts)
        self._keys = np.concatenate([self._keys, *(block.keys for block in blocks)])
        self._days = np.concatenate([self._days, days])
        self._added = (
            np.concatenate([self._added[0], *(block.hashes for block in blocks)]),
            np.concatenate([self._added[1], rows]),
        )
        if len(self._added[0]) > 10_000 + len(self._sorted[0]):
            self.sort()
        self._number(blocks, start)

    def _append_vectors(self, blocks: Sequence[Block], total: int, expected: int) -> None:
        at = len(self)
        given = [block.vectors for block in blocks if block.vectors is not None]
        dim = given[0].dim if given else self._coded.dim
        if any(each.dim != dim for each in given):
            raise StoreDamaged("The vectors of this space are damaged: run `justmem reembed`.")
        if self._coded.dim != dim or len(self._coded.high) < total:
            grown = _room(max(total + total // 4 if at else total, expected), dim)
            if self._coded.dim == dim:
                _put(grown, 0, self._coded.at(slice(at)))
            self._coded = grown
        for block in blocks:
            if block.vectors is not None:
                _put(self._coded, at, block.vectors)
            at += len(block)

    def sort(self) -> None:
        """Added terms are found without it, but slower."""
        if len(self._added[0]) <= 1_000 + len(self._sorted[0]) // 50:
            return
        hashes = np.concatenate([self._sorted[0], self._added[0]])
        rows = np.concatenate([self._sorted[1], self._added[1]])
        order = np.argsort(hashes, kind="stable")
        self._sorted = hashes[order], rows[order]
        self._added = _NO_HASHES, _NO_ROWS

    # ------------------------------------------------------------ words

    def rows_with(self, words: Sequence[str]) -> list[Ints]:
        """For each word, the rows that its term occurs in."""
        wanted = np.array([term(word) for word in words], np.uint32)
        hashes, rows = self._sorted
        first = np.searchsorted(hashes, wanted).tolist()
        end = np.searchsorted(hashes, wanted, "right").tolist()
        found = [rows[low:high] for low, high in zip(first, end, strict=True)]
        more, added = self._added
        if not len(more):
            return found
        return [
            np.concatenate([own, added[more == hash]])
            for own, hash in zip(found, wanted, strict=True)
        ]

    def allowed(self, reach: Reach) -> Rows | None:
        """Which rows a search may return: said on these days, in these sessions. None: all."""
        if reach.since is None and reach.until is None and reach.sessions is None:
            return None
        stay = np.ones(len(self), np.bool_)
        if reach.since is not None:
            stay &= self._days >= reach.since.toordinal()
        if reach.until is not None:
            stay &= self._days <= reach.until.toordinal()
        if reach.sessions is not None:
            wanted = np.array([part.session in reach.sessions for part in self._in_order], np.bool_)
            stay &= np.repeat(wanted, [len(part) for part in self._in_order])
        return stay

    def best(self, text: str, count: int, stay: Rows | None) -> list[Pair]:
        """(key, score), best first. The score of a row is the sum of the weights of the query's
        words that occur in it, where rare words weigh more. How often they occur and how long the
        row is does not count: rows are a sentence or a turn."""
        stand = self.rows_with(content_words(text)[:_LONGEST_QUERY])
        found = [rows for rows in stand if 0 < len(rows) <= COMMON]
        if not found:
            return self._newest([rows for rows in stand if len(rows)], count, stay)
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
        """For each query (key, score), best first; with `during`, more of what was said then."""
        if not len(self) or self._coded.dim != queries.shape[1]:
            return [[] for _ in queries]
        asked, own = coded(queries), self._coded.scales[: len(self)]
        scores = _dots(self._coded.high[: len(self)], asked.high)
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
        """All that come within a margin of the last wanted are scored again with all bits,
        because fewer bits may have them in another order."""
        if not count:
            return []
        last = 0 if count >= len(scores) else len(scores) - count
        rows = np.flatnonzero(scores >= np.partition(scores, last)[last] - margin)
        if len(rows) > 4 * count + 64:  # many alike: which of them come does not matter
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

    def parts_of(self, rows: Iterable[int]) -> list[tuple[Part, int]]:
        """The parts that rows belong to, and their places there."""
        wanted = np.fromiter(rows, np.int64)
        numbers = np.searchsorted(self._starts, wanted, "right") - 1
        places = (wanted - self._starts[numbers]).tolist()
        return [(self._in_order[n], at) for n, at in zip(numbers.tolist(), places, strict=True)]


def _room(rows: int, dim: int) -> Coded:
    return Coded(
        np.zeros((rows, dim), np.int8),
        np.zeros((rows, (dim + 1) // 2), np.uint8),
        np.zeros(rows, np.float32),
    )


def _put(room: Coded, at: int, given: Coded) -> None:
    rows = slice(at, at + len(given.high))
    room.high[rows], room.low[rows], room.scales[rows] = given


def _renumbered(hashes: Hashes, rows: Ints, moved: Ints) -> tuple[Hashes, Ints]:
    new = moved[rows]
    return hashes[new >= 0], new[new >= 0]


def union(near: Iterable[Pair], more: Iterable[Pair]) -> list[Pair]:
    """Each key once, best first. The last digits of a score depend on the rows that were multiplied
    together, so a key may have two scores."""
    return sorted({**dict(more), **dict(near)}.items(), key=lambda pair: (-pair[1], pair[0]))
