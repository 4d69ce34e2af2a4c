"""Connections to SQLite files: keys, settings, transactions, errors, and the schema of a file.
Plain files are opened with Python's SQLite, encrypted ones with SQLCipher."""

from __future__ import annotations

import importlib
import re
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from justmem.errors import (
    JustMemError,
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreTooNew,
    WrongKey,
)
from justmem.runtime.process import need
from justmem.store import files, schema
from justmem.store.check import RESTORE
from justmem.store.engine import Connection, Row, damaged, values_checked
from justmem.store.files import Keyring
from justmem.store.writes import create

_SQLCIPHER = "sqlcipher3.dbapi2"
_HEX_KEY = re.compile(r"[0-9a-fA-F]{64}")


class SqliteConnection(Connection):
    def __init__(self, db: sqlite3.Connection, space: str) -> None:
        super().__init__(space)
        self.db = db

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


def errors() -> tuple[type[Exception], ...]:
    """The error classes of both libraries."""
    cipher = sys.modules.get(_SQLCIPHER)
    return (sqlite3.Error,) if cipher is None else (sqlite3.Error, cipher.Error)


def code(error: Exception) -> int:
    """SQLite's code, such as `sqlite3.SQLITE_BUSY`; 0 if there is none."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def sqlcipher() -> Any:
    need("encryption")
    return importlib.import_module(_SQLCIPHER)


def connect(path: Path, patience: float, key: SecretStr | None) -> sqlite3.Connection:
    module: Any = sqlite3 if key is None else sqlcipher()
    db: sqlite3.Connection = module.connect(
        path, timeout=patience, isolation_level=None, check_same_thread=False
    )
    try:
        if key is not None:
            db.execute("PRAGMA cipher_log_level = NONE")  # it would write to standard error
            db.execute(f"PRAGMA key = {literal(key)}")
            db.execute("PRAGMA cipher_compatibility = 4")  # a later SQLCipher reads it all the same
            # Otherwise VACUUM or a sort would write plain words to a temporary file.
            db.execute("PRAGMA temp_store = MEMORY")
            _check_key(db, path)
        # FULL: with NORMAL a power failure may take back the last commits, and a session whose
        # `remember` returned must not be lost. It is one more fsync of the log per commit.
        db.execute("PRAGMA synchronous = FULL")
        # Always on, not just while forgetting: a page freed earlier would keep its words.
        db.execute("PRAGMA secure_delete = ON")
        db.execute("PRAGMA cell_size_check = ON")  # detects damaged pages
    except BaseException:
        db.close()
        raise
    return db


def literal(key: SecretStr) -> str:
    """A key of 64 hexadecimal digits is used as it is; SQLCipher derives one from any other."""
    text = key.get_secret_value()
    return f"\"x'{text}'\"" if _HEX_KEY.fullmatch(text) else "'" + text.replace("'", "''") + "'"


def _check_key(db: sqlite3.Connection, path: Path) -> None:
    """WrongKey if the key is wrong, StoreDamaged if the file is. Each page has a checksum made with
    the key. If all of them are wrong, the key is wrong; if some are, the file is damaged."""
    try:
        db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except errors() as error:
        if code(error) != sqlite3.SQLITE_NOTADB:
            raise
        file = files.raw(path)
        broken = len(db.execute("PRAGMA cipher_integrity_check").fetchall())
        if file.kind == "locked" and broken >= file.size // files.PAGE:
            raise WrongKey(f"{path} is encrypted with another key: give the right key.") from None
        raise damaged(str(path), error) from None


@contextmanager
def transaction(db: sqlite3.Connection, *, writes: bool) -> Iterator[None]:
    """All or nothing, and one snapshot. IMMEDIATE: a second writer waits here, before it has read
    anything."""
    db.execute("BEGIN IMMEDIATE" if writes else "BEGIN")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


@contextmanager
def translated(where: str) -> Iterator[None]:
    """Turns SQLite's errors, and those of files, into ours."""
    try:
        with values_checked(where):
            yield
    except errors() as error:
        raise _named(error, where) from error
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StoreError(
            f"The store {where} cannot be opened ({error.strerror}): choose a folder that you may "
            "write to, or correct the permissions of the file and its folder."
        ) from None


def _named(error: Exception, where: str) -> JustMemError:
    match code(error):
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return StoreBusy(f"Another process is writing to {where}: try again in a moment.")
        case sqlite3.SQLITE_FULL:
            return StoreFull(
                f"There is no room left for {where}: free some space on its disk and try again."
            )
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
            return StoreError(
                f"The store {where} cannot be opened for writing ({error}): "
                "correct the permissions of the file and its folder."
            )
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB | sqlite3.SQLITE_ERROR:
            return damaged(where, error)  # our SQL works with every sound file
        case 0 if "decode to UTF-8" in str(error):
            return damaged(where, error)
    return StoreError(f"SQLite cannot work with {where} ({error}): check the disk and the file.")


# ---------------------------------------------------------------- the schema

APPLICATION = 0x4A4D3034  # "JM04", in the file's header: tells our files from other SQLite files
OLD_APPLICATIONS = (0x4A4D454D, 0x4A4D3032, 0x4A4D3033)


def prepare(db: sqlite3.Connection, where: str, space: str) -> None:
    """Migrates the file. One process does it; the others wait."""
    if _version(db, where) < len(schema.MIGRATIONS):
        with transaction(db, writes=True):
            _migrate(db, _version(db, where), space)
    name = name_in(db)
    if name != space:
        raise StoreError(f"{where} holds the space {name!r}, not {space!r}: rename one of them.")


def name_in(db: sqlite3.Connection) -> str:
    (name,) = db.execute("SELECT space FROM spaces").fetchone()
    return str(name)


def name_inside(path: Path, keys: Keyring | None) -> str | None:
    """The name of the space in a file. None for files of other programs, and without the key."""
    with suppress(FileNotFoundError), translated(str(path)):
        file = files.raw(path)
        encrypted = file.kind in ("locked", "damaged")
        if encrypted and keys is None:
            return None
        key = files.key_of(path, file, keys) if encrypted else None
        with closing(connect(path, 1.0, key)) as db:
            return name_in(db)
    return None


def _version(db: sqlite3.Connection, where: str) -> int:
    (application,) = db.execute("PRAGMA application_id").fetchone()
    (version,) = db.execute("PRAGMA user_version").fetchone()
    (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application in OLD_APPLICATIONS:
        raise StoreError(schema.explain_old(where))
    if application != APPLICATION and (version or tables):
        raise StoreDamaged(
            f"{where} is an SQLite file of another program: move it out of JustMem's folder."
        )
    if version > len(schema.MIGRATIONS):
        raise StoreTooNew(schema.explain_new(where, version))
    return int(version)


def _migrate(db: sqlite3.Connection, version: int, space: str) -> None:
    for migration in schema.MIGRATIONS[version:]:
        for statement in schema.statements(migration, blob="BLOB"):
            db.execute(statement)
    if version == 0:
        create(SqliteConnection(db, space))
        db.execute(f"PRAGMA application_id = {APPLICATION}")
    db.execute(f"PRAGMA user_version = {len(schema.MIGRATIONS)}")


_DROP = "see what it is, and remove it with DROP in SQLite"
_OBJECTS = """
    SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'
"""


def foreign(db: Connection) -> list[tuple[str, str]]:
    """Tables, indexes, triggers and views that JustMem did not make, or not like this, and what to
    do about each."""
    own = {name for _, name, _ in _made()}
    return [
        (f"{'an' if kind == 'index' else 'a'} {kind} {name!r}", RESTORE if name in own else _DROP)
        for kind, name, sql in db.rows(_OBJECTS)
        if (kind, name, sql) not in _made()
    ]


@cache
def _made() -> set[Row]:
    with closing(sqlite3.connect(":memory:")) as db:
        _migrate(db, 0, "x")
        return set(db.execute(_OBJECTS))
