"""The rows of an SQLite file, page by page, without SQLite: for a file that it will not read.

Only leaf pages are looked at, each by itself, so that a damaged page costs its own rows and no
others. Nothing that was forgotten comes back: freed pages are blank (`secure_delete`), and bytes
between the rows of a page are not looked at.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from justmem.stores.files import side_files

_TABLE_LEAF, _INDEX_LEAF, _INDEX_INTERIOR = 0x0D, 0x0A, 0x02
_FIRST_HEADER = 100  # the file's own header, before the first page's
_WAL_HEADER, _FRAME_HEADER = 32, 24
_WAL_MAGIC = (0x377F0682, 0x377F0683)
_INTEGERS = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}  # serial type -> bytes
_USUAL_PAGE = 4096
_LONGEST = 2**30  # bytes of a row: more is a damaged length


class Row(NamedTuple):
    """`key` is None in an index, which is also what a table without row numbers is."""

    key: int | None
    values: Sequence[Any]


class Broken(Exception):
    """A page or a row that cannot be read."""


class Pages:
    """`unreadable` counts what had to be passed over."""

    def __init__(self, path: Path) -> None:
        self._data = path.read_bytes()
        self._size = _page_size(self._data)
        self._log = _logged(side_files(path)[0], self._size)
        self._reserved = self._data[20] if len(self._data) > 20 and self._data[20] < 64 else 0
        self.unreadable = 0

    def rows(self) -> Iterator[Row]:
        """Of all tables and indexes, as they come."""
        count = max([-(-len(self._data) // self._size), *self._log])
        for number in range(1, count + 1):
            page = self._page(number)
            start = _FIRST_HEADER if number == 1 else 0
            if len(page) < self._size or page[start] not in (
                _TABLE_LEAF,
                _INDEX_LEAF,
                _INDEX_INTERIOR,
            ):
                continue
            yield from self._rows(page, start)

    def _page(self, number: int) -> bytes:
        if number in self._log:
            return self._log[number]
        return self._data[(number - 1) * self._size : number * self._size]

    def _rows(self, page: bytes, start: int) -> Iterator[Row]:
        kind = page[start]
        (cells,) = struct.unpack_from(">H", page, start + 3)
        pointers = start + (12 if kind == _INDEX_INTERIOR else 8)
        for cell in range(min(cells, (len(page) - pointers) // 2)):
            (at,) = struct.unpack_from(">H", page, pointers + 2 * cell)
            try:
                yield self._row(page, at + (4 if kind == _INDEX_INTERIOR else 0), kind)
            except (Broken, IndexError, ValueError, struct.error):
                self.unreadable += 1

    def _row(self, page: bytes, at: int, kind: int) -> Row:
        length, at = _varint(page, at)
        key: int | None = None
        if kind == _TABLE_LEAF:
            key, at = _varint(page, at)
        if not 0 < length < _LONGEST:
            raise Broken
        return Row(key, _values(self._payload(page, at, length, kind)))

    def _payload(self, page: bytes, at: int, length: int, kind: int) -> bytes:
        """What does not fit the page goes on in a chain of others."""
        usable = self._size - self._reserved
        most = usable - 35 if kind == _TABLE_LEAF else (usable - 12) * 64 // 255 - 23
        if length <= most:
            return page[at : at + length]
        least = (usable - 12) * 32 // 255 - 23
        local = least + (length - least) % (usable - 4)
        local = local if local <= most else least
        parts, left = [page[at : at + local]], length - local
        (follows,) = struct.unpack_from(">I", page, at + local)
        while left > 0:
            more = self._page(follows) if follows else b""
            if len(more) < self._size:
                raise Broken
            (follows,) = struct.unpack_from(">I", more)
            parts.append(more[4 : 4 + min(left, usable - 4)])
            left -= usable - 4
        return b"".join(parts)


def _page_size(data: bytes) -> int:
    given = int.from_bytes(data[16:18])
    size = 65_536 if given == 1 else given
    sound = data[:6] == b"SQLite" and 512 <= size <= 65_536 and size & (size - 1) == 0
    return size if sound else _USUAL_PAGE


def _logged(path: Path, size: int) -> dict[int, bytes]:
    """The pages that the log holds newer, as far as its transactions are complete."""
    data = path.read_bytes() if path.exists() else b""
    if len(data) < _WAL_HEADER or int.from_bytes(data[:4]) not in _WAL_MAGIC:
        return {}
    salts = data[16:24]
    complete: dict[int, bytes] = {}
    pending: dict[int, bytes] = {}
    for at in range(_WAL_HEADER, len(data) - _FRAME_HEADER - size + 1, _FRAME_HEADER + size):
        number, commits = struct.unpack_from(">II", data, at)
        if data[at + 8 : at + 16] != salts:
            break
        pending[number] = data[at + _FRAME_HEADER : at + _FRAME_HEADER + size]
        if commits:
            complete |= pending
            pending = {}
    return complete


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place in range(8):
        byte = data[at + place]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + place + 1
    value = value << 8 | data[at + 8]
    return value - (1 << 64) if value >> 63 else value, at + 9


def _values(record: bytes) -> list[Any]:
    header, at = _varint(record, 0)
    if not 1 <= header <= len(record):
        raise Broken
    values: list[Any] = []
    body = header
    while at < header:
        kind, at = _varint(record, at)
        value, body = _value(record, kind, body)
        values.append(value)
    if body != len(record):
        raise Broken
    return values


def _value(record: bytes, kind: int, at: int) -> tuple[Any, int]:
    if kind in (0, 8, 9):
        return {0: None, 8: 0, 9: 1}[kind], at
    if kind == 7:
        return struct.unpack_from(">d", record, at)[0], at + 8
    if kind in _INTEGERS:
        end = at + _INTEGERS[kind]
        if end > len(record):
            raise Broken
        return int.from_bytes(record[at:end], signed=True), end
    if kind < 12:
        raise Broken
    end = at + (kind - 12) // 2
    if end > len(record):
        raise Broken
    taken = record[at:end]
    return (taken.decode() if kind % 2 else taken), end
