"""Vectors as twelve-bit numbers: how they are stored, and how a search scans their upper bits.

The bytes of a vector are its scale, the upper eight bits of all numbers, then the lower four, two
numbers in each byte. A number is `scale * (16 * upper + lower)`. The upper bits tell nearly
everything. A search scans them, and scores the best again with all bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from justmem.errors import StoreDamaged, StoreError
from justmem.ports import Vectors

_SCALE = 4  # bytes
_MOST = 2039  # so that the upper eight of the twelve bits, rounded, stay below 128
_DAMAGED = "The vectors of this space are damaged: run `justmem reembed`."
_TILE = 512  # rows that are converted at a time, so that they stay in the processor's cache

Bytes = NDArray[np.int8]
Scores = NDArray[np.float32]


class Upper(NamedTuple):
    """The upper bits of some vectors. A row without a vector has the scale 0."""

    numbers: Bytes
    scales: Scores


def pack(vectors: Vectors) -> list[bytes]:
    """Vectors that were unpacked are packed in the same way again: copies of them stay equal."""
    if not np.isfinite(vectors).all():
        raise StoreError("A vector contains NaN or infinity: check the embedder.")
    scales = np.abs(vectors).max(axis=1, initial=0.0).astype(np.float32) / np.float32(_MOST)
    # With twelve significant bits, so that the products of `unpack` are exact.
    scales = ((scales.view(np.uint32) + 0x800) & np.uint32(0xFFFFF000)).view(np.float32)
    safe = np.where(scales > 0, scales, np.float32(1))
    numbers = np.rint(vectors / safe[:, None]).clip(-_MOST, _MOST).astype(np.int16)
    upper = (numbers + 8) >> 4
    rest = (numbers - 16 * upper + 8).astype(np.uint8)
    lower = rest[:, 0::2].copy()
    lower[:, : rest.shape[1] // 2] |= rest[:, 1::2] << 4
    parts = scales.astype("<f4")[:, None].view(np.uint8), upper.astype(np.int8).view(np.uint8)
    return [row.tobytes() for row in np.concatenate([*parts, lower], axis=1)]


def unpack(packed: Sequence[bytes | None]) -> Vectors:
    """Zeros for a row without a vector."""
    rows = _rows(packed)
    dim = (2 * (rows.shape[1] - _SCALE) + 1) // 3
    numbers = rows[:, _SCALE : _SCALE + dim].view(np.int8).astype(np.int16) * 16 - 8
    lower = rows[:, _SCALE + dim :]
    numbers[:, 0::2] += lower & 15
    numbers[:, 1::2] += (lower >> 4)[:, : dim // 2]
    return numbers * _scales(rows)[:, None]


def upper_size(dim: int) -> int:
    """How many of a vector's first bytes a scan needs."""
    return _SCALE + dim


def upper_bits(packed: Sequence[bytes | None], dim: int) -> Upper:
    """Of the first `upper_size(dim)` bytes of each vector, or more."""
    rows = _rows(packed)
    return Upper(rows[:, _SCALE : _SCALE + dim].view(np.int8), _scales(rows))


def _rows(packed: Sequence[bytes | None]) -> NDArray[np.uint8]:
    size = max((len(each) for each in packed if each), default=_SCALE)
    joined = b"".join(each or bytes(size) for each in packed)
    if len(joined) != size * len(packed):
        raise StoreDamaged(_DAMAGED)
    return np.frombuffer(joined, np.uint8).reshape(len(packed), size)


def _scales(rows: NDArray[np.uint8]) -> Scores:
    scales = np.ascontiguousarray(rows[:, :_SCALE]).view("<f4").reshape(len(rows))
    if not (scales < 1).all():  # of a unit vector it is less than 1/2039; NaN would hide a card
        raise StoreDamaged(_DAMAGED)
    return scales


# ---------------------------------------------------------------- scanning


def _numpy_dots(rows: Bytes, queries: Bytes) -> Scores:
    """Sums of products of int8 are whole numbers that float32 holds exactly, in any order."""
    wanted = queries.astype(np.float32)
    dots = np.empty((len(queries), len(rows)), np.float32)
    room = np.empty((_TILE, rows.shape[1]), np.float32)
    for at in range(0, len(rows), _TILE):
        tile = room[: len(rows) - at]
        np.copyto(tile, rows[at : at + _TILE])
        for query, out in zip(wanted, dots, strict=True):
            np.dot(tile, query, out=out[at : at + _TILE])
    return dots


def _numkong_dots() -> Callable[[Bytes, Bytes], Scores] | None:
    try:
        import numkong
    except ImportError:
        return None

    def dots(rows: Bytes, queries: Bytes) -> Scores:
        found = numkong.dots_packed(rows, numkong.dots_pack(queries))
        return np.ascontiguousarray(np.asarray(found).T, np.float32)

    return dots


dots: Callable[[Bytes, Bytes], Scores] = _numkong_dots() or _numpy_dots
