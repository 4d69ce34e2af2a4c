"""Search: the vectors and postings of a space as arrays, scanned exactly.

Each session stores two blobs for its cards and two for its passages: see `Block`. The arrays of a
space are loaded once. Afterwards only sessions that changed are read again. The vectors in memory
are int8: a scan finds a few more than are wanted, and these are scored again with the stored
vectors. Ranks do not depend on the engine, because no engine takes part in ranking.
"""

from __future__ import annotations

import math
import re
import struct
import unicodedata
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from justmem.errors import StoreDamaged
from justmem.language.words import is_stop, stem
from justmem.ports import Index, Pair, Vectors

TERMS = "en-2"  # change it with the rules of `terms`: stored postings are then made again
HALF = np.dtype("<f2")  # of stored vectors
_TILE = 512  # rows that are converted at a time, so that they stay in the processor's cache
_SIZES = struct.Struct("<4i")
_WORD = re.compile(r"[^\W_]+")
# A term that occurs in more rows than this tells little about any of them.
COMMON = 1000
_LEAST = 1e-6  # the weight of a term that occurs in half of all rows or more
_LONGEST_QUERY = 64  # words
_VAST = 1e4  # a vector's squared length, which is about 1
_DAMAGED = (
    "The vectors or postings of a session cannot be read any more: restore the store from a "
    "backup, or forget that session and remember it again."
)

Ints = NDArray[np.int32]
Keys = NDArray[np.int64]
Hashes = NDArray[np.uint32]
Codes = NDArray[np.int8]
_NO_HASHES = np.zeros(0, np.uint32)
_NO_ROWS = np.zeros(0, np.int32)


# ---------------------------------------------------------------- terms


def words(text: str) -> list[str]:
    """Each once, in lower case, in order."""
    return list(dict.fromkeys(word.lower() for word in _WORD.findall(text)))


def content_words(text: str) -> list[str]:
    return [word for word in words(text) if not is_stop(word)]


@lru_cache(50_000)
def term(word: str) -> int:
    """The hash of a word's stem, without accents. Stored instead of the word."""
    if not word.isascii():
        parts = unicodedata.normalize("NFKD", word)
        word = "".join(part for part in parts if not unicodedata.combining(part))
    return zlib.crc32(stem(word).encode("utf-8", "replace"))


def terms(text: str) -> set[int]:
    return {term(word) for word in content_words(text)}


# ---------------------------------------------------------------- blocks


@dataclass(frozen=True, slots=True)
class Block:
    """What a search needs of one session's cards or passages.

    Row `n` has the key `first + offsets[n]`. `places` has a line (row, turn) for each turn that a
    card rests on; of passages it has a line (turn, start, end) for each row. The term `hashes[i]`
    occurs in the row `rows[i]`. The vectors may be missing."""

    kind: Index
    session: str
    first: int
    day: int
    offsets: Ints
    places: Ints
    hashes: Hashes
    rows: Ints
    vectors: NDArray[np.float16] | None = None
    generation: int = 0

    @classmethod
    def made(
        cls,
        kind: Index,
        session: str,
        first: int,
        day: int,
        texts: Sequence[str],
        places: Sequence[Sequence[int]],
        vectors: Vectors | None,
    ) -> Block:
        found = [(hash, row) for row, text in enumerate(texts) for hash in sorted(terms(text))]
        width = 2 if kind == "cards" else 3
        return cls(
            kind,
            session,
            first,
            day,
            offsets=np.arange(len(texts), dtype=np.int32),
            places=np.array(places, np.int32).reshape(-1, width),
            hashes=np.array([hash for hash, _ in found], np.uint32),
            rows=np.array([row for _, row in found], np.int32),
            vectors=None if vectors is None else vectors.astype(HALF),
        )

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def keys(self) -> Keys:
        keys: Keys = self.offsets.astype(np.int64) + self.first
        return keys

    def only(self, stay: NDArray[np.bool_]) -> Block:
        """Without the other rows. Keys stay as they are."""
        moved = np.cumsum(stay, dtype=np.int32) - 1
        kept = stay[self.rows]
        places = self.places[stay[self.places[:, 0]] if self.kind == "cards" else stay]
        if self.kind == "cards":
            places = np.stack([moved[places[:, 0]], places[:, 1]], axis=1)
        return replace(
            self,
            offsets=self.offsets[stay],
            places=places,
            hashes=self.hashes[kept],
            rows=moved[self.rows[kept]],
            vectors=None if self.vectors is None else self.vectors[stay],
        )

    def bare(self) -> Block:
        """Without postings and vectors. Copies: a view would keep all that was read."""
        offsets, places = self.offsets.copy(), self.places.copy()
        return Block(
            self.kind,
            self.session,
            self.first,
            self.day,
            offsets,
            places,
            _NO_HASHES,
            _NO_ROWS,
            generation=self.generation,
        )

    def packed(self) -> bytes:
        """All but the vectors: four sizes, then the arrays."""
        arrays = (self.offsets, self.places.ravel(), self.hashes, self.rows)
        sizes = np.array([len(array) for array in arrays], "<i4")
        return b"".join(
            [
                sizes.tobytes(),
                *(each.astype(each.dtype.newbyteorder("<")).tobytes() for each in arrays),
            ]
        )

    def packed_vectors(self) -> bytes | None:
        return None if self.vectors is None else np.ascontiguousarray(self.vectors, HALF).tobytes()

    @classmethod
    def unpacked(
        cls,
        kind: Index,
        session: str,
        generation: int,
        first: int,
        day: int,
        postings: bytes,
        vectors: bytes | None = None,
    ) -> Block:
        try:
            a, b, c, d = _SIZES.unpack_from(postings)
            rest: Any = np.frombuffer(postings, "<i4", offset=_SIZES.size)
            if len(rest) != a + b + c + d or c != d or (not a and len(rest)):
                raise ValueError("sizes")
            return cls(
                kind,
                session,
                first,
                day,
                rest[:a],
                rest[a : a + b].reshape(-1, 2 if kind == "cards" else 3),
                rest[a + b : a + b + c].view(np.uint32),
                rest[a + b + c :],
                unpacked_vectors(vectors, a),
                generation,
            )
        except (ValueError, TypeError, struct.error):
            raise StoreDamaged(_DAMAGED) from None


def unpacked_vectors(packed: bytes | None, rows: int) -> NDArray[np.float16] | None:
    if packed is None:
        return None
    try:
        return np.frombuffer(packed, HALF).reshape(rows, -1)
    except ValueError:
        raise StoreDamaged(_DAMAGED) from None


# ---------------------------------------------------------------- scanning


def quantised(vectors: Vectors) -> tuple[Codes, NDArray[np.float32]]:
    """int8 codes, and what to multiply each row of them with."""
    scales = np.abs(vectors).max(axis=1, initial=0.0) / np.float32(127)
    safe = np.where(scales > 0, scales, np.float32(1))
    return np.rint(vectors / safe[:, None]).astype(np.int8), scales.astype(np.float32)


def _numpy_dots(codes: Codes, queries: Codes) -> NDArray[np.float32]:
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


def _numkong_dots() -> Callable[[Codes, Codes], NDArray[np.float32]] | None:
    try:
        import numkong
    except ImportError:
        return None

    def dots(codes: Codes, queries: Codes) -> NDArray[np.float32]:
        found = numkong.dots_packed(codes, numkong.dots_pack(queries))
        return np.ascontiguousarray(np.asarray(found).T, np.float32)

    return dots


_dots: Callable[[Codes, Codes], NDArray[np.float32]] = _numkong_dots() or _numpy_dots


class During(NamedTuple):
    """How many more are wanted of what was said between two days."""

    first: int
    last: int
    wanted: int


class Arrays:
    """The cards or the passages of a space. Rows are in rising order of their keys, and those of
    a session lie side by side. Not safe for threads: whoever shares it holds a lock."""

    def __init__(self, kind: Index) -> None:
        self.kind = kind
        self.generation = self.removals = -1
        self.dense = False  # whether the vectors are loaded too
        self.expected = 0  # rows to make room for
        self._clear()

    def _clear(self) -> None:
        self._blocks: list[Block] = []  # without vectors and postings
        self._starts = np.zeros(1, np.int64)
        self._keys: Keys = np.zeros(0, np.int64)
        self._days = _NO_ROWS
        self._scales = np.zeros(0, np.float32)  # 0: the row has no vector
        self._codes: Codes = np.zeros((0, 0), np.int8)
        self._sorted: tuple[Hashes, Ints] = (_NO_HASHES, _NO_ROWS)  # by hash
        self._added: tuple[Hashes, Ints] = (_NO_HASHES, _NO_ROWS)
        self._of_session: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def sessions(self) -> Iterable[str]:
        return self._of_session.keys()

    def block_of(self, session: str) -> Block | None:
        number = self._of_session.get(session)
        return None if number is None else self._blocks[number]

    # ------------------------------------------------------------ loading

    def update(self, gone: Iterable[str], changed: Sequence[Block]) -> None:
        """Drops the sessions in `gone`; puts `changed` in the place of what was there of them."""
        dropped = {*gone, *(block.session for block in changed)} & self._of_session.keys()
        if dropped:
            self._keep([n for n, block in enumerate(self._blocks) if block.session not in dropped])
        added = [block for block in changed if len(block)]
        if added:
            self._append(sorted(added, key=lambda block: block.first))
        if np.any(self._keys[1:] < self._keys[:-1]):
            self._keep(sorted(range(len(self._blocks)), key=lambda n: self._blocks[n].first))

    def _keep(self, numbers: Sequence[int]) -> None:
        """Of the blocks, only these, in this order."""
        lengths = np.diff(self._starts)
        old = np.concatenate(
            [np.arange(self._starts[n], self._starts[n + 1]) for n in numbers] or [_NO_ROWS]
        ).astype(np.int64)
        moved = np.full(len(self._keys), -1, np.int32)
        moved[old] = np.arange(len(old), dtype=np.int32)
        self._blocks = [self._blocks[n] for n in numbers]
        self._starts = np.concatenate([[0], np.cumsum(lengths[list(numbers)])]).astype(np.int64)
        self._keys, self._days = self._keys[old], self._days[old]
        if self.dense:
            self._scales, self._codes = self._scales[old], self._codes[old]
        self._sorted = _renumbered(*self._sorted, moved)
        self._added = _renumbered(*self._added, moved)
        self._of_session = {block.session: n for n, block in enumerate(self._blocks)}

    def _append(self, blocks: Sequence[Block]) -> None:
        lengths = np.array([len(block) for block in blocks])
        starts = len(self._keys) + np.cumsum(lengths) - lengths
        rows = np.concatenate([block.rows for block in blocks])
        counts = np.array([len(block.rows) for block in blocks])
        if len(rows) and not 0 <= rows.min() <= rows.max() < max(lengths):
            raise StoreDamaged(_DAMAGED)
        if self.dense:
            self._append_codes(blocks, len(self._keys) + int(lengths.sum()))
        offsets = np.concatenate([block.offsets for block in blocks])
        keys = offsets + np.repeat(np.array([b.first for b in blocks], np.int64), lengths)
        days = np.repeat(np.array([block.day for block in blocks], np.int32), lengths)
        self._starts = np.concatenate([self._starts, starts + lengths])
        self._keys = np.concatenate([self._keys, keys])
        self._days = np.concatenate([self._days, days])
        self._added = (
            np.concatenate([self._added[0], *(block.hashes for block in blocks)]),
            np.concatenate([self._added[1], rows + np.repeat(starts, counts).astype(np.int32)]),
        )
        if len(self._added[0]) > 10_000 + len(self._sorted[0]) // 50:
            self._sort()
        for block in blocks:
            self._of_session[block.session] = len(self._blocks)
            self._blocks.append(block.bare())

    def _append_codes(self, blocks: Sequence[Block], total: int) -> None:
        at = len(self._keys)
        given = [block.vectors for block in blocks if block.vectors is not None]
        dim = given[0].shape[1] if given else self._codes.shape[1]
        if any(vectors.shape[1] != dim for vectors in given):
            raise StoreDamaged("The vectors of this space are damaged: run `justmem reembed`.")
        if self._codes.shape[1] != dim or len(self._codes) < total:
            room = max(total + total // 4 if at else total, self.expected)
            grown = np.zeros((room, dim), np.int8)
            if self._codes.shape[1] == dim:
                grown[:at] = self._codes[:at]
            self._codes = grown
        scales = np.zeros(total - at, np.float32)
        place = 0
        for vectors, count in _batches(blocks):
            if vectors is not None:
                _check_lengths(vectors)
                rows = slice(at + place, at + place + count)
                self._codes[rows], scales[place : place + count] = quantised(vectors)
            place += count
        self._scales = np.concatenate([self._scales[:at], scales])

    def _sort(self) -> None:
        hashes = np.concatenate([self._sorted[0], self._added[0]])
        rows = np.concatenate([self._sorted[1], self._added[1]])
        order = np.argsort(hashes, kind="stable")
        self._sorted = hashes[order], rows[order]
        self._added = _NO_HASHES, _NO_ROWS

    # ------------------------------------------------------------ words

    def rows_with(self, hash: int) -> Ints:
        """The rows that a term occurs in."""
        hashes, rows = self._sorted
        wanted = np.uint32(hash)  # of the same type: else the whole array would be converted
        low, high = np.searchsorted(hashes, wanted), np.searchsorted(hashes, wanted, "right")
        if not len(self._added[0]):
            return rows[low:high]
        return np.concatenate([rows[low:high], self._added[1][self._added[0] == wanted]])

    def best(self, text: str, count: int, until: int | None) -> list[Pair]:
        """(key, score), best first. The score of a row is the sum of the weights of the query's
        words that occur in it, where rare words weigh more. How often they occur and how long the
        row is does not count: rows are a sentence or a turn."""
        stand = [self.rows_with(term(word)) for word in content_words(text)[:_LONGEST_QUERY]]
        found = [rows for rows in stand if 0 < len(rows) <= COMMON]
        if not found:
            return self._newest([rows for rows in stand if len(rows)], count, until)
        sizes = [len(rows) for rows in found]
        rows, places = np.unique(np.concatenate(found), return_inverse=True)
        scores = np.bincount(places, np.repeat([self._weight(size) for size in sizes], sizes))
        scores = np.round(scores, 9)  # the last digits of a sum depend on its order
        if until is not None:
            early = self._days[rows] <= until
            rows, scores = rows[early], scores[early]
        if len(rows) > count:
            enough = scores >= np.partition(scores, len(scores) - count)[len(scores) - count]
            rows, scores = rows[enough], scores[enough]
        # Of equal rows the one that was said first comes first.
        top = np.lexsort((self._keys[rows], self._days[rows], -scores))[:count]
        return list(zip(self._keys[rows[top]].tolist(), scores[top].tolist(), strict=True))

    def _weight(self, rows: int) -> float:
        return max(math.log((len(self) - rows + 0.5) / (rows + 0.5)), _LEAST)

    def _newest(self, common: Sequence[Ints], count: int, until: int | None) -> list[Pair]:
        """All words of the query are too common to rank by: the newest rows, with score 0."""
        if not common:
            return []
        rows = np.unique(np.concatenate(common))
        if until is not None:
            rows = rows[self._days[rows] <= until]
        return [(key, 0.0) for key in self._keys[rows[::-1][:count]].tolist()]

    def with_all(self, wanted: Iterable[str]) -> Keys:
        """Keys of the rows that all these words occur in."""
        rows: Ints | None = None
        for word in wanted:
            found = self.rows_with(term(word))
            rows = found if rows is None else np.intersect1d(rows, found)
        keys: Keys = np.sort(self._keys[rows]) if rows is not None else self._keys[:0]
        return keys

    # ------------------------------------------------------------ vectors

    def candidates(
        self, queries: Vectors, count: int, until: int | None, during: During | None
    ) -> list[tuple[Ints, Ints]]:
        """For each query the rows that may be the nearest, a few more than wanted: of all, and of
        those said `during` a time."""
        nothing: list[tuple[Ints, Ints]] = [(_NO_ROWS, _NO_ROWS) for _ in queries]
        if not len(self) or self._codes.shape[1] != queries.shape[1]:
            return nothing
        codes, scales = quantised(np.asarray(queries, np.float32))
        scores = _dots(self._codes[: len(self)], codes)
        scores *= self._scales
        scores *= scales[:, None]
        # Rounding to int8 moves a score by a fifth of these two at most, nearly always.
        margins = 2 * (scales + self._scales.max(initial=0.0))
        left_out = self._scales == 0
        if until is not None:
            left_out |= self._days > until
        scores[:, left_out] = -np.inf
        near = [_top(row, count, margin) for row, margin in zip(scores, margins, strict=True)]
        if during is None:
            return [(rows, _NO_ROWS) for rows in near]
        scores[:, (self._days < during.first) | (self._days > during.last)] = -np.inf
        more = [
            _top(row, during.wanted, margin) for row, margin in zip(scores, margins, strict=True)
        ]
        return list(zip(near, more, strict=True))

    def located(self, rows: Ints) -> Iterator[tuple[Block, Ints, Ints]]:
        """The blocks that rows in rising order belong to: the rows, and their places there."""
        numbers = np.searchsorted(self._starts, rows, "right") - 1
        inside = (rows - self._starts[numbers]).astype(np.int32)
        cuts = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(rows)]
        for low, high in pairwise(cuts):
            if low < high:
                yield self._blocks[numbers[low]], rows[low:high], inside[low:high]

    def keys_at(self, rows: Ints) -> Keys:
        keys: Keys = self._keys[rows]
        return keys

    def rows_at(self, keys: Sequence[int]) -> dict[int, int]:
        """The rows of those keys that are there."""
        wanted = np.asarray(keys, np.int64)
        places = np.searchsorted(self._keys, wanted)
        return {
            key: place
            for key, place in zip(wanted.tolist(), places.tolist(), strict=True)
            if place < len(self._keys) and self._keys[place] == key
        }

    def passage_at(self, row: int) -> tuple[str, list[int]]:
        """The session of a passage, and its (turn, start, end)."""
        number = int(np.searchsorted(self._starts, row, "right")) - 1
        block = self._blocks[number]
        return block.session, block.places[row - int(self._starts[number])].tolist()


def _renumbered(hashes: Hashes, rows: Ints, moved: Ints) -> tuple[Hashes, Ints]:
    new = moved[rows]
    return hashes[new >= 0], new[new >= 0]


def _batches(blocks: Sequence[Block]) -> Iterable[tuple[Vectors | None, int]]:
    """Vectors of neighbouring blocks, some at a time; None for blocks without."""
    held: list[Any] = []
    count = 0
    for block in blocks:
        if held and (block.vectors is None or count > 8 * _TILE):
            yield np.concatenate(held).astype(np.float32), count
            held, count = [], 0
        if block.vectors is None:
            yield None, len(block)
        else:
            held.append(block.vectors)
            count += len(block)
    if held:
        yield np.concatenate(held).astype(np.float32), count


def _check_lengths(vectors: Vectors) -> None:
    """NaN would hide a card from every search, and a huge number would show it in all."""
    if not np.vdot(vectors, vectors) <= _VAST * len(vectors):
        raise StoreDamaged("Vectors of this space are damaged: run `justmem reembed`.")


def _top(scores: NDArray[np.float32], count: int, margin: float) -> Ints:
    """The best, and all that come within a margin of the last of them: int8 may have the nearest
    in another order."""
    if not count:
        return _NO_ROWS
    last = 0 if count >= len(scores) else len(scores) - count
    least = np.partition(scores, last)[last]
    found: Ints = np.flatnonzero(scores >= least - margin).astype(np.int32)
    if len(found) > 4 * count + 64:  # many alike: which of them come does not matter
        found = found[np.argsort(-scores[found], kind="stable")[: 4 * count + 64]]
    return found[np.isfinite(scores[found])]


def ranked(keys: Keys, scores: NDArray[np.float32], count: int) -> list[Pair]:
    top = np.lexsort((keys, -scores))[:count]
    return list(zip(keys[top].tolist(), scores[top].tolist(), strict=True))


def union(near: Iterable[Pair], more: Iterable[Pair]) -> list[Pair]:
    """Each once, best first."""
    return sorted({*near, *more}, key=lambda pair: (-pair[1], pair[0]))
