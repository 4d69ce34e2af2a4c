"""Traces of words: what to look for, in any bytes, to know whether a text is still there.

A text is cut into pieces that survive wherever it may have been written: as JSON, in pages, in
lower case, as a stem. All pieces are looked for at once, in one pass over the bytes: how long that
takes does not depend on how much was forgotten.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

PIECE = 32  # bytes: shorter than any page, longer than what two texts share by chance
LEAST = 8  # bytes: anything shorter would be found everywhere
_WINDOW = 1 << 17  # bytes looked at at a time
_ODD, _OTHER = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
# JSON writes these in another way, so no piece may hold one.
_SEAM = re.compile(r'["\\\x00-\x1f\x7f]+')
_WORD = re.compile(r"[^\W_]+")
WRITTEN = ("<f2", "<f4")  # types of vectors

Vectors = NDArray[np.float32]


class Trace(NamedTuple):
    needle: bytes
    text: int  # the number of the text it is a piece of; -1 for a vector
    weak: bool = False  # a single word: it may stand in a place that has nothing to do with it


class Traces:
    """Traces of `texts` and of vectors. Numbers of traces mean something within one object."""

    def __init__(self, traces: Iterable[Trace]) -> None:
        self.all = list(dict.fromkeys(traces))
        self.longest = max((len(trace.needle) for trace in self.all), default=0)
        self.starts = [_Starts(self.all, wide=wide) for wide in (False, True)]

    @classmethod
    def of(cls, texts: Iterable[str], vectors: Iterable[Vectors] = ()) -> Traces:
        said = (trace for number, text in enumerate(texts) for trace in _pieces(number, text))
        return cls([*said, *(trace for matrix in vectors for trace in _vector_pieces(matrix))])

    def __len__(self) -> int:
        return len(self.all)

    def without(self, numbers: Iterable[int]) -> Traces:
        gone = set(numbers)
        return Traces(trace for n, trace in enumerate(self.all) if n not in gone) if gone else self

    def strong(self) -> Traces:
        return Traces(trace for trace in self.all if not trace.weak)

    def weak(self, numbers: Iterable[int]) -> set[int]:
        return {number for number in numbers if self.all[number].weak}

    # ------------------------------------------------------------ looking

    def found(self, data: bytes) -> set[int]:
        """Numbers of the traces that occur."""
        return Search(self).look(data)

    def found_in_text(self, text: str) -> set[int]:
        return Search(self).look_in_text(text)

    def found_in_chunks(self, chunks: Iterable[bytes]) -> tuple[set[int], int]:
        """In what follows one another, as pieces of a file; and how many bytes that was."""
        search, size, tail = Search(self), 0, b""
        for chunk in chunks:
            size += len(chunk)
            search.look(tail + chunk)
            tail = (tail + chunk)[-self.longest :] if self.longest else b""
        return search.hits, size


class Search:
    """Looking through much, for whatever occurs anywhere in it: what was found once is looked for
    no more, so that common words cost nothing."""

    def __init__(self, traces: Traces) -> None:
        self.hits: set[int] = set()
        self._traces = traces
        self._starts = [starts.copy() for starts in traces.starts]

    def look(self, data: bytes) -> set[int]:
        """Numbers of the traces that are found for the first time."""
        new: set[int] = set()
        for at in range(0, len(data), _WINDOW):
            new |= self._look(data[at : at + _WINDOW + self._traces.longest])
        self.hits |= new
        return new

    def look_in_text(self, text: str) -> set[int]:
        """As it stands, and as an index of words would have it."""
        folded = text.casefold()
        new = self.look(text.encode("utf-8", "replace"))
        return new if folded == text else new | self.look(folded.encode("utf-8", "replace"))

    def _look(self, data: bytes) -> set[int]:
        new: set[int] = set()
        raw = np.frombuffer(data, np.uint8)
        for shift in range(min(LEAST, max(0, len(raw) - LEAST + 1))):
            count = (len(raw) - shift) // LEAST
            eights = raw[shift : shift + LEAST * count].view("<u8")
            for starts in self._starts:
                for place, key in starts.likely(eights):
                    for number in tuple(starts.numbers.get(key, ())):
                        if data.startswith(self._traces.all[number].needle, shift + LEAST * place):
                            new.add(number)
                            starts.drop(key, number)
        return new


class _Starts:
    """How needles begin: with these eight bytes, or, where they are long, with these sixteen. A
    table tells at a glance that almost all places are none of them."""

    def __init__(self, traces: Sequence[Trace], *, wide: bool) -> None:
        self.numbers: dict[int, list[int]] = {}
        self._wide = wide
        for number, trace in enumerate(traces):
            if (len(trace.needle) >= 2 * LEAST) == wide:
                head = np.frombuffer(trace.needle[: 2 * LEAST if wide else LEAST], "<u8")
                self.numbers.setdefault(int(self._keys(head)[0]), []).append(number)
        # Large enough that few places are taken for one by chance, small enough for a cache.
        self._shift = np.uint64(64 - min(22, max(12, (1024 * len(self.numbers)).bit_length())))
        slots = self._slots(np.array(list(self.numbers), np.uint64))
        used, times = np.unique(slots, return_counts=True)
        self._shared = set(used[times > 1].tolist())  # by several keys
        self._table = np.zeros(1 << (64 - int(self._shift)), np.bool_)
        self._table[slots] = True
        self._own = True

    def copy(self) -> _Starts:
        made = copy(self)
        made.numbers = {key: list(numbers) for key, numbers in self.numbers.items()}
        made._own = False
        return made

    def _keys(self, eights: NDArray[np.uint64]) -> NDArray[np.uint64]:
        if not self._wide:
            return eights
        mixed: NDArray[np.uint64] = eights[:-1] * _ODD ^ eights[1:] * _OTHER
        return mixed

    def _slots(self, keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
        slots: NDArray[np.uint64] = (keys * _ODD) >> self._shift
        return slots

    def likely(self, eights: NDArray[np.uint64]) -> Iterable[tuple[int, int]]:
        """Places where a needle may begin, with their keys."""
        if not self.numbers:
            return ()
        keys = self._keys(eights)
        places = np.flatnonzero(self._table[self._slots(keys)])
        return zip(places.tolist(), keys[places].tolist(), strict=True)

    def drop(self, key: int, number: int) -> None:
        self.numbers[key].remove(number)
        if self.numbers[key]:
            return
        del self.numbers[key]
        if not self._own:
            self._table, self._own = self._table.copy(), True
        slot = int(self._slots(np.array([key], np.uint64))[0])
        if slot not in self._shared:
            self._table[slot] = False


# ---------------------------------------------------------------- pieces


def _pieces(number: int, text: str) -> Iterator[Trace]:
    for run in filter(None, (run.strip() for run in _SEAM.split(text))):
        for written in {run, json.dumps(run)[1:-1]}:
            for piece in _windows(written.encode("utf-8", "replace")):
                yield Trace(piece, number, bool(re.fullmatch(rb"\w+", piece)) and len(piece) < 16)
    for word in set(_WORD.findall(text)):
        # The end of a word may be gone in an index of stems.
        for form in {word, word.casefold()[: max(LEAST, len(word) - 3)]}:
            if len(form.encode("utf-8", "replace")) >= LEAST:
                yield Trace(form.encode("utf-8", "replace"), number, True)


def _windows(run: bytes) -> Iterator[bytes]:
    """Side by side, the last one up to the end."""
    if len(run) < LEAST:
        return
    for start in range(0, max(1, len(run) - PIECE + 1), PIECE):
        yield run[start : start + PIECE]
    if len(run) > PIECE and len(run) % PIECE:
        yield run[-PIECE:]


def _vector_pieces(matrix: Vectors) -> Iterator[Trace]:
    """As a store keeps vectors, and as they are. A stretch without zeros tells a vector from any
    other; where there is none, all of it."""
    for kind in WRITTEN:
        for row in np.ascontiguousarray(matrix, kind):
            if not row.any():
                continue
            width = PIECE // row.itemsize
            starts = range(0, len(row) - width + 1, width)
            dense = [row[at : at + width].tobytes() for at in starts if row[at : at + width].all()]
            pieces: Sequence[bytes] = dense[:4] if dense else [row.tobytes()]
            yield from (Trace(piece, -1) for piece in pieces if len(piece) >= LEAST)


def written(matrix: Vectors) -> bytes:
    """Vectors in every form that is looked for."""
    return b"".join(matrix.astype(kind).tobytes() for kind in WRITTEN)
