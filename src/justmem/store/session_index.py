"""The search index of one session: terms and vectors, as two blobs for its cards and two for its
passages."""

from __future__ import annotations

import re
import struct
import unicodedata
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from justmem.errors import StoreDamaged, StoreError
from justmem.language.words import is_stop, stem
from justmem.ports import Index, Vectors
from justmem.ports.vectors import Coded, coded

TERMS = "en-2"  # change it with the rules of `terms`: stored postings are then made again
_SIZES = struct.Struct("<3i")  # rows, numbers in `places`, hashes
_WORD = re.compile(r"[^\W_]+")
_DAMAGED = (
    "The vectors or postings of a session are damaged: restore the store from a "
    "backup, or forget that session and remember it again."
)

Ints = NDArray[np.int32]
Keys = NDArray[np.int64]
Hashes = NDArray[np.uint32]


# ---------------------------------------------------------------- terms


def words(text: str) -> list[str]:
    """Each word once, in lower case, in order."""
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


def terms(text: str) -> list[int]:
    return sorted({term(word) for word in content_words(text)})


# ---------------------------------------------------------------- blocks


@dataclass(frozen=True, slots=True)
class Block:
    """What a search needs of one session's cards or passages.

    Row `n` has the key `first + n` and the next `counts[n]` of the term `hashes`.
    `places` has a line (row, turn) for each turn that a card rests on; of passages it has a line
    (turn, start, end) for each row. `days`: when each row was said. The vectors may be missing."""

    kind: Index
    session: str
    first: int
    places: Ints
    days: Ints
    counts: Ints
    hashes: Hashes
    vectors: Coded | None = None
    generation: int = 0

    @classmethod
    def made(
        cls,
        kind: Index,
        session: str,
        first: int,
        texts: Sequence[str],
        places: Sequence[Sequence[int]],
        said_at: Iterable[datetime],
        vectors: Vectors | None,
    ) -> Block:
        if vectors is not None and not np.isfinite(vectors).all():
            raise StoreError("A vector contains NaN or infinity: check the embedder.")
        found = [terms(text) for text in texts]
        return cls(
            kind,
            session,
            first,
            places=np.array(places, np.int32).reshape(-1, 2 if kind == "cards" else 3),
            days=np.array([at.toordinal() for at in said_at], np.int32),
            counts=np.array([len(each) for each in found], np.int32),
            hashes=np.array([hash for each in found for hash in each], np.uint32),
            vectors=None if vectors is None else coded(vectors),
        )

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def coded(self) -> Coded:
        return Coded.empty(len(self), 0) if self.vectors is None else self.vectors

    def bare(self) -> Block:
        """Without terms, days and vectors. Copies, because a view would keep the blob in memory."""
        none = self.days[:0].copy()
        return replace(
            self, places=self.places.copy(), days=none, hashes=none.view(np.uint32), vectors=None
        )

    def packed(self) -> bytes:
        """All but the vectors: sizes, then the arrays. Counts are at most 65,535, because a passage
        is that short."""
        return b"".join(
            [
                _SIZES.pack(len(self), self.places.size, len(self.hashes)),
                self.places.astype("<i4").tobytes(),
                self.days.astype("<i4").tobytes(),
                self.hashes.astype("<u4").tobytes(),
                self.counts.astype("<u2").tobytes(),
            ]
        )

    def packed_vectors(self) -> bytes | None:
        if self.vectors is None:
            return None
        high, low, scales = map(np.ascontiguousarray, self.vectors)
        return scales.astype("<f4").tobytes() + high.tobytes() + low.tobytes()

    @classmethod
    def unpacked(
        cls,
        kind: Index,
        session: str,
        generation: int,
        first: int,
        postings: bytes,
        vectors: bytes | None = None,
    ) -> Block:
        try:
            rows, places, hashes = _SIZES.unpack_from(postings)
            whole: Any = np.frombuffer(postings, "<i4", places + rows + hashes, _SIZES.size)
            counts = np.frombuffer(postings, "<u2", offset=_SIZES.size + whole.nbytes)
            if len(counts) != rows or counts.sum() != hashes or not rows:
                raise ValueError("sizes")
            return cls(
                kind,
                session,
                first,
                whole[:places].reshape(-1, 2 if kind == "cards" else 3),
                whole[places : places + rows],
                counts.astype(np.int32),
                whole[places + rows :].view(np.uint32),
                unpacked_vectors(vectors, rows),
                generation,
            )
        except (ValueError, TypeError, struct.error):
            raise StoreDamaged(_DAMAGED) from None


def unpacked_vectors(packed: bytes | None, rows: int) -> Coded | None:
    if packed is None:
        return None
    each = len(packed) // rows - 4  # bytes of a row: two for three numbers of both parts
    dim = (2 * each + 1) // 3 if each else 0
    try:
        scales = np.frombuffer(packed, "<f4", rows)
        high = np.frombuffer(packed, np.int8, rows * dim, 4 * rows).reshape(rows, dim)
        low = np.frombuffer(packed, np.uint8, offset=rows * (4 + dim)).reshape(rows, (dim + 1) // 2)
    except ValueError:
        raise StoreDamaged(_DAMAGED) from None
    if not (scales < 1).all():  # of a unit vector it is less than 1/2039; NaN would hide a card
        raise StoreDamaged("Vectors of this space are damaged: run `justmem reembed`.")
    return Coded(high, low, scales)
