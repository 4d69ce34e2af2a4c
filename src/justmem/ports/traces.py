"""Traces of words: what to look for, in any bytes, to know whether a text is still there.

A text is cut into pieces that survive wherever it may have been written: as JSON, in pages, in
lower case, as a stem. All pieces are looked for in one pass over the bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from justmem.ports.vectors import Vectors, coded

PIECE = 32  # bytes: shorter than any page, longer than what two texts share by chance
LEAST = 8  # bytes: anything shorter would be found everywhere
_WINDOW = 1 << 17  # bytes looked at at a time
_ODD = np.uint64(0x9E3779B97F4A7C15)
_BITS = 20  # of the table of heads
# JSON writes these in another way, so no piece may hold one.
_SEAM = re.compile(r'["\\\x00-\x1f\x7f]+')
_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class Searched:
    """Where traces were looked for, and the places where some were found."""

    files: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    bytes: int = 0
    remains: tuple[str, ...] = ()
    unsearched: tuple[str, ...] = ()  # files whose content cannot be read

    def __add__(self, other: Searched) -> Searched:
        return Searched(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


class Trace(NamedTuple):
    needle: bytes
    text: int  # the number of the text it is a piece of; -1 for a vector
    weak: bool = False  # a single word: it may stand in a place that has nothing to do with it


class Traces:
    """Traces of `texts` and of vectors. Numbers of traces mean something within one object."""

    def __init__(self, traces: Iterable[Trace]) -> None:
        self.all = list(dict.fromkeys(traces))
        self.longest = max((len(trace.needle) for trace in self.all), default=0)

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

    @cached_property
    def heads(self) -> dict[bytes, list[int]]:
        """Numbers of traces by their first sixteen bytes, or eight where they are shorter."""
        found: dict[bytes, list[int]] = {}
        for number, trace in enumerate(self.all):
            size = 2 * LEAST if len(trace.needle) >= 2 * LEAST else LEAST
            found.setdefault(trace.needle[:size], []).append(number)
        return found

    @cached_property
    def table(self) -> NDArray[np.bool_]:
        return _table(self.heads)

    def found(self, data: bytes) -> set[int]:
        """Numbers of the traces that occur."""
        return Search(self).look(data)

    def found_in_chunks(self, chunks: Iterable[bytes]) -> tuple[set[int], int]:
        """In what follows one another, as pieces of a file; and how many bytes that was."""
        search, size, tail = Search(self), 0, b""
        for chunk in chunks:
            size += len(chunk)
            search.look(tail + chunk)
            tail = (tail + chunk)[-self.longest :] if self.longest else b""
        return search.hits, size


class Search:
    """Looks through much data for whatever occurs anywhere in it. A trace that was found is not
    looked for again, so that common words cost nothing."""

    def __init__(self, traces: Traces) -> None:
        self.hits: set[int] = set()
        self._traces = traces
        self._table = traces.table

    def look(self, data: bytes) -> set[int]:
        """Numbers of the traces that are found for the first time."""
        before = len(self.hits)
        new: set[int] = set()
        for at in range(0, len(data), _WINDOW):
            new |= self._look(data[at : at + _WINDOW + self._traces.longest])
            self.hits |= new
            if len(self.hits) > before:
                before = len(self.hits)
                left = {
                    h for h, numbers in self._traces.heads.items() if not self.hits >= {*numbers}
                }
                self._table = _table(left)
        return new

    def look_in_text(self, text: str) -> set[int]:
        """As it stands, and as an index of words would have it."""
        folded = text.casefold()
        new = self.look(text.encode("utf-8", "replace"))
        return new if folded == text else new | self.look(folded.encode("utf-8", "replace"))

    def _look(self, data: bytes) -> set[int]:
        """The table tells at a glance that almost no place is the start of a trace."""
        new: set[int] = set()
        heads, traces = self._traces.heads, self._traces.all
        raw = np.frombuffer(data, np.uint8)
        for shift in range(min(LEAST, max(0, len(raw) - LEAST + 1))):
            count = (len(raw) - shift) // LEAST
            slots = _slots(raw[shift : shift + LEAST * count].view("<u8"))
            for place in np.flatnonzero(self._table[slots]).tolist():
                at = shift + LEAST * place
                for size in (LEAST, 2 * LEAST):
                    for number in heads.get(data[at : at + size], ()):
                        if number not in self.hits and data.startswith(traces[number].needle, at):
                            new.add(number)
        return new


def _slots(eights: NDArray[np.uint64]) -> NDArray[np.uint64]:
    slots: NDArray[np.uint64] = (eights * _ODD) >> np.uint64(64 - _BITS)
    return slots


def _table(heads: Iterable[bytes]) -> NDArray[np.bool_]:
    table = np.zeros(1 << _BITS, np.bool_)
    table[_slots(np.frombuffer(b"".join(head[:LEAST] for head in heads), "<u8"))] = True
    return table


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
    """A stretch without zeros tells a vector from any other; where there is none, all of it."""
    for form in _forms(matrix):
        for row in form:
            if not row.any():
                continue
            width = PIECE // row.itemsize
            starts = range(0, len(row) - width + 1, width)
            dense = [row[at : at + width].tobytes() for at in starts if row[at : at + width].all()]
            pieces: Sequence[bytes] = dense[:4] if dense else [row.tobytes()]
            yield from (Trace(piece, -1) for piece in pieces if len(piece) >= LEAST)


def _forms(matrix: Vectors) -> tuple[NDArray[np.int8], NDArray[np.uint8], Vectors]:
    """As a store keeps vectors, in two parts, and as they are."""
    made = coded(matrix)
    return made.high, made.low, np.ascontiguousarray(matrix, "<f4")


def vector_bytes(matrix: Vectors) -> bytes:
    """Vectors in every form that is looked for."""
    return b"".join(form.tobytes() for form in _forms(matrix))
