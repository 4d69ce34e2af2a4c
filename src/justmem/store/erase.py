"""Looks for remains of what was forgotten: in every table of a space, and in every file that
belongs to it or lies beside it.

A text is cut into pieces of at most 32 bytes. A piece survives page borders and JSON, and is long
enough that two texts rarely share one by chance.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from justmem.domain import Value
from justmem.errors import StoreBusy, StoreError
from justmem.ports import Searched, StoredSession, Vectors
from justmem.store import codes, reads, schema
from justmem.store.engine import Connection
from justmem.store.files import PAGE, SUFFIX, Keyring, file_name, raw
from justmem.store.sqlite_connection import name_inside

_PIECE = 32  # bytes
_LEAST = 8  # bytes; anything shorter would be found everywhere
_ROWS = 1000  # that are searched at a time
# JSON escapes these, so no piece contains one.
_ESCAPED = re.compile(r'["\\\x00-\x1f\x7f]+')
_SIDE = re.compile(r"-(wal|shm|journal)$")  # of the name of an SQLite file


# ---------------------------------------------------------------- pieces


def text_pieces(text: str) -> set[bytes]:
    """As UTF-8, and as JSON in ASCII."""
    runs = filter(None, (run.strip() for run in _ESCAPED.split(text)))
    return {
        piece
        for run in runs
        for form in (run.encode("utf-8", "replace"), json.dumps(run)[1:-1].encode())
        for piece in _cut(form)
    }


def _cut(run: bytes) -> Iterator[bytes]:
    if len(run) >= _LEAST:
        starts = {*range(0, len(run) - _PIECE + 1, _PIECE), max(0, len(run) - _PIECE)}
        yield from (run[start : start + _PIECE] for start in starts)


def vector_pieces(matrix: Vectors) -> set[bytes]:
    """Of each row, up to four stretches without zeros: they identify a vector. If there is none,
    the whole row."""
    pieces: set[bytes] = set()
    for row in codes.pack(matrix):
        parts = [row[at : at + _PIECE] for at in range(0, len(row) - _PIECE + 1, _PIECE)]
        dense = [part for part in parts if 0 not in part]
        pieces.update(dense[:4] or ([row] if any(row) else []))
    return {piece for piece in pieces if len(piece) >= _LEAST}


# ---------------------------------------------------------------- searching bytes


class Search:
    """Finds which of many pieces occur in some data. A table of hashes of their first eight bytes
    rules out nearly every position."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self.found: set[bytes] = set()
        self._longest = _PIECE
        self._heads: dict[bytes, set[bytes]] = {}
        for piece in pieces:
            self._heads.setdefault(piece[:_LEAST], set()).add(piece)
            self._longest = max(self._longest, len(piece))
        self._table = np.zeros(1 << 20, np.bool_)
        self._table[_hashes(np.frombuffer(b"".join(self._heads), np.uint8))] = True

    def look(self, data: bytes) -> set[bytes]:
        """The pieces that are found for the first time."""
        raw, new = np.frombuffer(data, np.uint8), set[bytes]()
        for shift in range(min(_LEAST, max(0, len(raw) - _LEAST + 1))):
            for place in np.flatnonzero(self._table[_hashes(raw[shift:])]).tolist():
                at = shift + _LEAST * place
                left = self._heads.get(data[at : at + _LEAST])
                if left:
                    hits = {piece for piece in left if data.startswith(piece, at)}
                    left -= hits
                    new |= hits
        self.found |= new
        return new

    def look_in_chunks(self, chunks: Iterable[bytes]) -> int:
        """In consecutive chunks of a file. Returns how many bytes they have."""
        size, tail = 0, b""
        for chunk in chunks:
            size += len(chunk)
            self.look(tail + chunk)
            tail = (tail + chunk)[-self._longest :]
        return size


def _hashes(raw: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Of every eight bytes."""
    eights = raw[: len(raw) // _LEAST * _LEAST].view("<u8")
    hashes: NDArray[np.uint64] = (eights * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(44)
    return hashes


# ---------------------------------------------------------------- what stays


def held_elsewhere(db: Connection, pieces: Iterable[bytes]) -> dict[bytes, str]:
    """The pieces that also occur in something that stays, and where."""
    search = Search(pieces)
    names = "\n".join([db.space, reads.embedder(db)[0], *schema.MIGRATIONS])
    held = dict.fromkeys(search.look(names.encode()), "the name of the space or of a table")
    for (entry,) in db.select("entry", "log"):
        held |= dict.fromkeys(search.look(entry.encode()), "an id in the change log")
    ids = [record.id for record in reads.sessions(db)]
    for whole in reads.each_whole_session(db, ids):
        found = search.look(_bytes_of(whole))
        held |= dict.fromkeys(found, f"session {whole.session.id}")
    return held


def _bytes_of(whole: StoredSession) -> bytes:
    """The words of a session, both as UTF-8 and as JSON in ASCII, and its vectors."""
    made = whole.derived
    values: list[Value] = [whole.session, *made.cards, *made.quarantined, *made.corrections]
    text = "\n".join([*(each.model_dump_json() for each in values), made.reason])
    vectors = (row for own in (made.card_vectors, made.passage_vectors) for row in codes.pack(own))
    escaped = b"" if text.isascii() else json.dumps(text).encode()
    words = text.encode("utf-8", "replace")
    return b"\n".join([words, escaped, *vectors])


# ---------------------------------------------------------------- tables

Tables = Iterable[tuple[str, Iterator[Sequence[Any]]]]  # names and rows


def in_tables(tables: Tables, pieces: Iterable[bytes]) -> Searched:
    wanted, searched = list(pieces), Searched()
    for name, rows in tables:
        search, size = Search(wanted), 0
        while some := [value for row in islice(rows, _ROWS) for value in row]:
            data = b"\n".join(
                value.encode() if isinstance(value, str) else value
                for value in some
                if isinstance(value, str | bytes)
            )
            search.look(data)
            size += len(data)
        remains = (f"table {name}",) if search.found else ()
        searched += Searched(tables=(name,), bytes=size, remains=remains)
    return searched


# ---------------------------------------------------------------- files


def in_files(path: Path, pieces: Iterable[bytes], keys: Keyring | None) -> Searched:
    """The file of the space, its log, and whatever else lies in the folder: copies, keys, files of
    a server. Other spaces are other people's memory and are left alone: files whose name is the
    one that the space inside would have."""
    searched, wanted = Searched(), list(pieces)
    for file in sorted(path.parent.iterdir()) if path.parent.is_dir() else ():
        main = file.with_name(_SIDE.sub("", file.name))
        own = main.name == path.name
        if not own and (file.is_symlink() or _is_another_space(main, keys)):
            continue
        with suppress(FileNotFoundError):  # gone since
            if file.is_file() and not file.name.endswith("-shm"):  # it holds page numbers
                searched += _in_file(file, wanted, own=own)
    return searched


def _is_another_space(file: Path, keys: Keyring | None) -> bool:
    """Whether the file is named after the space inside. A copy has another name."""
    try:
        name = name_inside(file, keys) if file.suffix == SUFFIX else None
    except StoreBusy:
        return True  # its key is being changed
    except StoreError:
        return False
    return name is not None and file_name(name) == file.name


def _in_file(file: Path, pieces: Sequence[bytes], *, own: bool) -> Searched:
    search, opened, name = Search(pieces), raw(file), str(file)
    size = search.look_in_chunks(opened.chunks())
    if search.found:
        return Searched(files=(name,), bytes=size, remains=(name,))
    if own or _is_readable(next(opened.chunks(PAGE), b"")):
        return Searched(files=(name,), bytes=size)
    return Searched(unsearched=(name,))  # compressed, encrypted, UTF-16, or unknown


def _is_readable(first: bytes) -> bool:
    """Whether the words of the file are in it as UTF-8: text, SQLite, or a log of SQLite."""
    if first.startswith(b"SQLite format 3\0"):
        return first[56:60] == b"\0\0\0\1"  # its encoding
    if first.startswith((b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")):
        return True
    try:
        return "\0" not in codecs.utf_8_decode(first, "strict", False)[0]  # it may end in a letter
    except UnicodeDecodeError:
        return False
