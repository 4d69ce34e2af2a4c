"""The schema of an SQLite file: made, migrated, and compared with what is there."""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from functools import cache

from justmem.errors import (
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreTooNew,
)
from justmem.store import drivers, schema
from justmem.store.sqlite_connection import SqliteConnection, writing
from justmem.store.writes import create as create_space

APPLICATION = 0x4A4D3032  # "JM02", in the file's header: tells our files from other SQLite files
# "JM02", in the file's header: tells our files from other SQLite files
OLD_APPLICATION = 0x4A4D454D  # of version 0.1.0
# of version 0.1.0


def prepare(db: sqlite3.Connection, where: str, space: str) -> None:
    """Brings the file up to date, whoever opens it first; the others wait."""
    version = _version(db, where)
    if version == 0:
        db.execute(f"PRAGMA page_size = {drivers.PAGE}")
    if version > len(schema.MIGRATIONS):
        raise StoreTooNew(
            f"{where} was written by a newer JustMem (version {version} of its format, this one "
            f"knows {len(schema.MIGRATIONS)}): upgrade JustMem to open it."
        )
    _use_log(db)
    if version < len(schema.MIGRATIONS):
        with writing(db):
            _migrate(db, _version(db, where), space)
    name = name_in(db)
    if name != space:
        raise StoreError(f"{where} holds the space {name!r}, not {space!r}: rename one of them.")


def name_in(db: sqlite3.Connection) -> str:
    (name,) = db.execute("SELECT space FROM spaces").fetchone()
    return str(name)


def is_ours(db: sqlite3.Connection) -> bool:
    return bool(db.execute("PRAGMA application_id").fetchone()[0] == APPLICATION)


def _version(db: sqlite3.Connection, where: str) -> int:
    (application,) = db.execute("PRAGMA application_id").fetchone()
    (version,) = db.execute("PRAGMA user_version").fetchone()
    (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application == OLD_APPLICATION:
        raise StoreError(schema.explain_old(where))
    if application != APPLICATION and (version or tables):
        raise StoreDamaged(
            f"{where} is an SQLite file of another program: move it out of JustMem's folder."
        )
    return int(version)


def _use_log(db: sqlite3.Connection) -> None:
    """Readers go on while one writes. SQLite does not wait when two processes make this switch
    at once, so the waiting is ours."""
    for _ in range(200):
        try:
            db.execute("PRAGMA journal_mode = WAL")
        except drivers.errors() as error:
            if drivers.code(error) != sqlite3.SQLITE_BUSY:
                raise
            time.sleep(0.025)
        else:
            return
    raise StoreBusy("Another process is creating this space: try again in a moment.")


def _migrate(db: sqlite3.Connection, version: int, space: str) -> None:
    for migration in schema.MIGRATIONS[version:]:
        for statement in schema.statements(migration, blob="BLOB", compact="WITHOUT ROWID"):
            db.execute(statement)
    if version == 0:
        create_space(SqliteConnection(db, space))
        db.execute(f"PRAGMA application_id = {APPLICATION}")
    db.execute(f"PRAGMA user_version = {len(schema.MIGRATIONS)}")


def foreign(db: SqliteConnection) -> list[str]:
    """Tables, indexes, triggers and views that JustMem did not make, or not like this."""
    made = _made()
    return [
        f"{'an' if kind == 'index' else 'a'} {kind} {name!r}"
        for (kind, name), sql in _objects(db.db)
        if made.get((kind, name)) != sql
    ]


@cache
def _made() -> dict[tuple[str, str], str]:
    with closing(sqlite3.connect(":memory:")) as db:
        _migrate(db, 0, "x")
        return dict(_objects(db))


def _objects(db: sqlite3.Connection) -> Iterator[tuple[tuple[str, str], str]]:
    """By kind and name."""
    for kind, name, sql in db.execute(
        "SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
    ):
        yield (kind, name), " ".join(re.sub(r"--[^\n]*", "", sql or "").split())
