"""Looking for traces of what was forgotten: in every table of a space, and in every file that
belongs to it or lies beside it."""

from __future__ import annotations

import re
import sqlite3
import stat
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from itertools import chain
from pathlib import Path

import numpy as np

from justmem.errors import StoreError
from justmem.ports import Searched
from justmem.stores import drivers
from justmem.stores.drivers import Claim, Lock
from justmem.stores.files import SUFFIX
from justmem.stores.folder import holds_another_space
from justmem.stores.keyring import Keyring
from justmem.traces import Search, Traces

# Where words are kept. A single word that stands in any other table is part of its machinery.
_WORDS = ("space", "sessions", "texts", "incoming", "cards", "quarantine")
_INDEXES = {"card_words": "card_chunks", "passage_words": "passage_chunks"}
_BUFFER = 1 << 20
_SIDE = re.compile(r"-(wal|shm|journal)$")
# gzip, zip, xz, zstd, bzip2, 7z, lz4, rar, compress; age, OpenPGP and OpenSSL.
_PACKED = re.compile(
    rb"\x1f\x8b|PK(\x03\x04|\x05\x06)|\xfd7zXZ\0|\x28\xb5\x2f\xfd|BZh[1-9]|7z\xbc\xaf\x27\x1c"
    rb"|\x04\x22\x4d\x18|Rar!\x1a\x07|\x1f\x9d"
    rb"|age-encryption\.org/|-----BEGIN (PGP MESSAGE|AGE ENCRYPTED)|Salted__"
)
_SQLITE, _ENCODING, _SQLITE_UTF16 = b"SQLite format 3\0", slice(56, 60), (b"\0\0\0\2", b"\0\0\0\3")


def in_tables(db: sqlite3.Connection, traces: Traces) -> tuple[Searched, set[int]]:
    """Everything that SQL can read, the shadow tables of the word indexes too; and the single
    words among the traces that are part of the file's machinery, no one's words."""
    schema = db.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    found: dict[str, set[int]] = {}
    total = 0
    machinery = traces.found("\n".join(sql for _, sql in schema).encode())
    names = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    for name in names:
        hits, size = _in_table(db, name, traces)
        total += size
        if not _holds_words(name):
            machinery |= traces.weak(hits)
            hits -= traces.weak(hits)
        found[name] = hits
    places = [f"table {name}" for name, hits in found.items() if hits - traces.weak(machinery)]
    places += [f"index {name}" for name, chunks in _INDEXES.items() if _is_stale(db, name, chunks)]
    searched = Searched(tables=tuple(names), bytes=total, remains=tuple(places))
    return searched, traces.weak(machinery)


def _holds_words(table: str) -> bool:
    return table in _WORDS or table.startswith((*_INDEXES, *_INDEXES.values()))


def _in_table(db: sqlite3.Connection, table: str, traces: Traces) -> tuple[set[int], int]:
    if table in _INDEXES:  # contentless: its words are in its shadow tables
        return set(), 0
    search, size = Search(traces), 0
    for data in _buffered(db.execute(f'SELECT * FROM "{table}"')):
        search.look(data)
        size += len(data)
    return search.hits, size


def _buffered(rows: Iterable[tuple[object, ...]]) -> Iterator[bytes]:
    buffer: list[bytes] = []
    size = 0
    for row in rows:
        for value in row:
            if isinstance(value, str | bytes):
                buffer.append(value.encode() if isinstance(value, str) else value)
                size += len(buffer[-1])
        if size > _BUFFER:
            yield b"\n".join(buffer)
            buffer, size = [], 0
    yield b"\n".join(buffer)


def _is_stale(db: sqlite3.Connection, index: str, chunks: str) -> bool:
    """Whether the index knows a row that is gone. Keys are never given twice, so what it knows
    of live rows is theirs."""
    live: set[int] = set()
    for (packed,) in db.execute(f"SELECT keys FROM {chunks}"):
        live.update(np.frombuffer(packed, np.int64).tolist())
    db.execute(f"CREATE VIRTUAL TABLE temp.vocabulary USING fts5vocab(main, {index}, instance)")
    try:
        known = {row for (row,) in db.execute("SELECT DISTINCT doc FROM temp.vocabulary")}
    finally:
        db.execute("DROP TABLE temp.vocabulary")
    return not known <= live


# ---------------------------------------------------------------- files


def in_files(
    path: Path,
    traces: Traces,
    claim: Claim | None,
    lock: Lock | None = None,
    keys: Keyring | None = None,
) -> Searched:
    """The file of the space, its side files, and whatever else lies in the folder: copies, keys,
    files of a server. Other spaces are other people's memory and are left alone: files whose name
    is the one that the space inside would have. `claim`, `lock`: of the space, while it is open."""
    searched = Searched()
    for names in _files(path.parent):
        own = next((file for file in names if _main(file) == path.name), None)
        if own is None and any(_is_of_another_space(file, keys) for file in names):
            continue
        file = own or names[0]
        try:
            if own is not None:
                searched += _in_bytes(own, drivers.chunks(own, claim), traces)
            else:
                searched += _in_stranger(file, traces, claim, lock)
        except FileNotFoundError:
            continue  # gone since
        except OSError as error:
            raise StoreError(
                f"{file} cannot be searched ({error.strerror}): correct its permissions, or move "
                "it away if it is not JustMem's."
            ) from None
    return searched


def _files(folder: Path) -> list[list[Path]]:
    """The files of a folder. Those that are one file under several names come together."""
    found: dict[tuple[int, int], list[Path]] = {}
    for file in sorted(folder.iterdir()) if folder.is_dir() else ():
        with suppress(FileNotFoundError):
            status = file.stat()
            if stat.S_ISREG(status.st_mode):
                found.setdefault((status.st_dev, status.st_ino), []).append(file)
    return list(found.values())


def _main(file: Path) -> str:
    """The name of the database that a file would be a side file of, or its own name."""
    return _SIDE.sub("", file.name)


def _is_of_another_space(file: Path, keys: Keyring | None) -> bool:
    main = file.with_name(_main(file))
    return main.suffix == SUFFIX and holds_another_space(main, keys)


def _in_bytes(file: Path, chunks: Iterable[bytes], traces: Traces) -> Searched:
    hits, size = traces.found_in_chunks(chunks)
    return Searched(files=(str(file),), bytes=size, remains=(str(file),) if hits else ())


def _in_stranger(file: Path, traces: Traces, claim: Claim | None, lock: Lock | None) -> Searched:
    """A file that is neither the space's nor another space's."""
    with closing(drivers.chunks(file, None)) as chunks:
        head = next(chunks, b"")
        first = head[: drivers.PAGE]
        if not _is_unreadable(first):
            return _in_bytes(file, chain([head], chunks), traces)
    # The salt is made with the file, so a file with the same one is a copy.
    if claim is not None and lock is not None and first[: drivers.SALT] == claim.salt:
        with (
            suppress(*drivers.errors()),
            closing(drivers.connect(file, 1.0, lock, still=True)) as db,
        ):
            found, _ = in_tables(db, traces)
            remains = (str(file),) if found.remains else ()
            return Searched(files=(str(file),), bytes=found.bytes, remains=remains)
    return Searched(unsearched=(str(file),))


def _is_unreadable(first: bytes) -> bool:
    """Whether words in the file would not be found as they stand: it is compressed, encrypted or
    written in UTF-16."""
    if first.startswith(_SQLITE):
        return first[_ENCODING] in _SQLITE_UTF16
    return bool(_PACKED.match(first)) or drivers.is_noise(first) or _is_utf16(first)


def _is_utf16(first: bytes) -> bool:
    if first.startswith((b"\xff\xfe", b"\xfe\xff")):
        return True
    one, other = (half.count(0) / max(1, len(half)) for half in (first[::2], first[1::2]))
    return max(one, other) > 0.5 and min(one, other) < 0.1
