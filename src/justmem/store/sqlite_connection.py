"""Connections to SQLite files: their settings, their transactions, and their errors as ours."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from justmem.errors import (
    InvalidSession,
    JustMemError,
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreFull,
)
from justmem.ports import Author
from justmem.store import drivers
from justmem.store.drivers import Lock
from justmem.store.engine import Row

# What reading back what we wrote ourselves can only raise if it is not what we wrote.
_UNREADABLE = (ValueError, TypeError, IndexError, KeyError, AttributeError)


class SqliteConnection:
    def __init__(self, db: sqlite3.Connection, space: str) -> None:
        self.db = db
        self.space = space
        self.author: Author | None = None

    def rows(self, sql: str, *values: Any) -> list[Row]:
        return self.db.execute(sql, values).fetchall()

    def each(self, sql: str, *values: Any) -> Iterator[Row]:
        return iter(self.db.execute(sql, values))

    def run(self, sql: str, *values: Any) -> int:
        return self.db.execute(sql, values).rowcount

    def run_many(self, sql: str, rows: Sequence[Sequence[Any]], tail: str = "") -> None:
        if rows:
            self.db.executemany(f"{sql} ({', '.join('?' * len(rows[0]))}) {tail}", rows)

    def seconds(self) -> float:
        ((seconds,),) = self.rows("SELECT (julianday('now') - 2440587.5) * 86400.0")
        return float(seconds)


def connect(path: Path, patience: float, lock: Lock | None = None) -> sqlite3.Connection:
    return _tuned(drivers.connect(path, patience, lock))


def _tuned(db: sqlite3.Connection) -> sqlite3.Connection:
    # FULL: with NORMAL a power failure may take back the last commits, and a session whose
    # `remember` returned must not be lost. It is one more fsync of the log per commit.
    db.execute("PRAGMA synchronous = FULL")
    # Always on, not just while forgetting: a page freed earlier would keep its words.
    db.execute("PRAGMA secure_delete = ON")
    db.execute("PRAGMA cache_size = -8000")  # KiB; a recall reads hundreds of pages
    db.execute("PRAGMA cell_size_check = ON")  # a damaged page is told from a sound one
    return db


@contextmanager
def writing(db: sqlite3.Connection) -> Iterator[None]:
    """All or nothing. IMMEDIATE: a second writer waits here, before it has read anything."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


@contextmanager
def reading(db: sqlite3.Connection) -> Iterator[None]:
    """One moment of the store for all that is read within."""
    db.execute("BEGIN")
    try:
        yield
    finally:
        if db.in_transaction:
            db.execute("COMMIT")


@contextmanager
def translated(where: str) -> Iterator[None]:
    """SQLite's errors as ours."""
    try:
        yield
    except drivers.errors() as error:
        raise _named(error, where) from error
    except UnicodeEncodeError:
        raise InvalidSession(
            "The session holds text that is not valid Unicode (a lone surrogate): "
            "decode it with errors='replace' and remember it again."
        ) from None
    except _UNREADABLE as error:
        raise _damaged(where, error) from error


def _named(error: Exception, where: str) -> JustMemError:
    match drivers.code(error):
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return StoreBusy(f"Another process is writing to {where}: try again in a moment.")
        case sqlite3.SQLITE_FULL:
            return StoreFull(
                f"There is no room left for {where}: free some space on its disk and try again."
            )
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return _damaged(where, error)
        case sqlite3.SQLITE_ERROR:  # in SQL that works with every file we made
            return _damaged(where, error)
        case None if "decode to UTF-8" in str(error):
            return _damaged(where, error)
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
            return StoreError(
                f"The store {where} cannot be opened for writing ({error}): "
                "correct the permissions of the file and its folder."
            )
    return StoreError(f"SQLite cannot work with {where} ({error}): check the disk and the file.")


def _damaged(where: str, error: Exception) -> StoreDamaged:
    return StoreDamaged(
        f"{where} is not a readable store ({error}): restore it from a backup, or export what can "
        "still be read and import it into a new space."
    )
