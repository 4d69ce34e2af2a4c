"""Python values as PostgreSQL takes them in binary: one type for one kind of value, always.

A driver that picks the smallest integer type by value makes a new prepared statement for every
mix of sizes; here an integer is a bigint, and statements are prepared once.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from justmem.ports import Vectors

_BOOL, _BYTES, _INT, _TEXT, _FLOAT = 16, 17, 20, 25, 701
_ARRAYS = {np.dtype(np.int64): (1016, 20, ">i8"), np.dtype(np.float64): (1022, 701, ">f8")}
_TEXTS = 1009
_INFERRED = 0  # the statement's cast names the type: pgvector's types have no fixed number

_ESCAPE = "\x10"  # "data link escape": marks what PostgreSQL's text cannot hold


class Matrix:
    """Vectors, one a row, as a `vector[]`. Where there are none, `count` nulls."""

    def __init__(self, rows: Vectors, count: int) -> None:
        self.rows = rows
        self.count = count


def encoded(value: Any, vector_type: int) -> tuple[bytes | None, int]:
    """The bytes and the type's number. pgvector's own number differs from database to database."""
    match value:
        case None:
            return None, _INFERRED
        case bool():
            return (b"\x01" if value else b"\x00"), _BOOL
        case int():
            return struct.pack(">q", value), _INT
        case float():
            return struct.pack(">d", value), _FLOAT
        case str():
            return text(value), _TEXT
        case bytes():
            return value, _BYTES
        case Matrix():
            return _vectors(value, vector_type), _INFERRED
        case np.ndarray() if value.dtype == np.float32:
            return vector(value), _INFERRED
        case np.ndarray():
            return _numbers(value)
        case list() | tuple():
            return _texts(value), _TEXTS
    raise TypeError(f"no PostgreSQL type for {type(value)}")


def text(value: str) -> bytes:
    """PostgreSQL has no text with a zero character; it comes back as it was by `plain`."""
    if "\0" in value or _ESCAPE in value:
        value = value.replace(_ESCAPE, _ESCAPE + "1").replace("\0", _ESCAPE + "0")
    return value.encode()


def plain(value: str) -> str:
    if _ESCAPE not in value:
        return value
    return value.replace(_ESCAPE + "0", "\0").replace(_ESCAPE + "1", _ESCAPE)


def vector(row: Vectors) -> bytes:
    return struct.pack(">HH", len(row), 0) + row.astype(">f4").tobytes()


def vectors_of(rows: Sequence[bytes]) -> Vectors:
    """Back from the binary form, which leads with the dimension."""
    if not rows:
        return np.zeros((0, 0), np.float32)
    packed = np.frombuffer(b"".join(rows), np.uint8).reshape(len(rows), -1)[:, 4:]
    return np.ascontiguousarray(packed).view(">f4").astype(np.float32)


def _array(element: int, count: int) -> bytes:
    return struct.pack(">5i", 1 if count else 0, 0, element, count, 1)[: 20 if count else 12]


def _numbers(values: NDArray[Any]) -> tuple[bytes, int]:
    array, element, dtype = _ARRAYS[values.dtype]
    fields = np.empty(len(values), np.dtype([("size", ">i4"), ("value", dtype)]))
    fields["size"], fields["value"] = np.dtype(dtype).itemsize, values
    return _array(element, len(values)) + fields.tobytes(), array


def _texts(values: Sequence[str]) -> bytes:
    if not values:
        return _array(_TEXT, 0)
    whole = "".join(values)
    if "\0" in whole or _ESCAPE in whole:
        raw = [text(value) for value in values]
    else:
        raw = [value.encode() for value in values]
    parts: list[bytes] = [b""] * (2 * len(raw))
    parts[0::2] = [len(each).to_bytes(4, "big") for each in raw]
    parts[1::2] = raw
    return _array(_TEXT, len(raw)) + b"".join(parts)


def _vectors(matrix: Matrix, vector_type: int) -> bytes:
    if not len(matrix.rows):
        head = _array(vector_type, matrix.count)
        return head[:4] + b"\0\0\0\1" + head[8:] + b"\xff" * 4 * matrix.count
    count, dim = matrix.rows.shape
    fields = np.empty(
        count,
        np.dtype([("size", ">i4"), ("dim", ">u2"), ("unused", ">u2"), ("row", ">f4", (dim,))]),
    )
    fields["size"], fields["dim"], fields["unused"] = 4 + 4 * dim, dim, 0
    fields["row"] = matrix.rows
    return _array(vector_type, count) + fields.tobytes()
