"""Looking for traces of what was forgotten: in every table of a space, and in every file that
belongs to it or lies beside it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from justmem.errors import StoreError
from justmem.ports import Searched
from justmem.stores import drivers
from justmem.stores.drivers import Claim
from justmem.stores.files import SUFFIX
from justmem.traces import Search, Traces

# Where words are kept. A single word that stands in any other table is part of its machinery.
_WORDS = ("space", "sessions", "texts", "incoming", "cards", "quarantine")
_INDEXES = {"card_words": "card_chunks", "passage_words": "passage_chunks"}
_BUFFER = 1 << 20


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


def in_files(path: Path, traces: Traces, claim: Claim | None) -> Searched:
    """The file of the space, its side files, and whatever else lies in the folder: copies, keys,
    files of a server. Other spaces are other people's memory and are left alone. `claim`: to the
    space, while it is open."""
    searched = Searched()
    for file in sorted(path.parent.iterdir()) if path.parent.is_dir() else ():
        if not file.is_file() or _is_of_another_space(file, path):
            continue
        try:
            hits, size = traces.found_in_chunks(drivers.chunks(file, claim))
        except OSError as error:
            raise StoreError(
                f"{file} cannot be searched ({error.strerror}): correct its permissions, or move "
                "it away if it is not JustMem's."
            ) from None
        remains = (str(file),) if hits else ()
        searched += Searched(files=(str(file),), bytes=size, remains=remains)
    return searched


def _is_of_another_space(file: Path, path: Path) -> bool:
    own = file.name.startswith(path.name)
    return not own and (file.suffix == SUFFIX or SUFFIX + "-" in file.name)
