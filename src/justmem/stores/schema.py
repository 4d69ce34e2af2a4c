"""The shape of a space's file, and the numbered, append-only steps that led to it."""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from importlib import resources
from pathlib import Path

from justmem.errors import StoreBusy, StoreDamaged, StoreError, StoreTooNew
from justmem.stores import drivers
from justmem.stores.connections import writing

APPLICATION = 0x4A4D454D  # "JMEM", in the file's header: tells our files from other SQLite files
PAGE = 4096
_SHADOW = re.compile("(card|passage)_words_(data|idx|content|docsize|config)")


@cache
def migrations() -> tuple[str, ...]:
    """The SQL of each step; step n takes a file from version n - 1 to n."""
    folder = resources.files("justmem.stores") / "migrations"
    names = sorted(file.name for file in folder.iterdir() if file.name.endswith(".sql"))
    return tuple((folder / name).read_text("utf-8") for name in names)


def prepare(db: sqlite3.Connection, path: Path, space: str) -> None:
    """Brings the file up to date, whoever opens it first; the others wait."""
    version = _version(db, path)
    if version == 0:
        db.execute(f"PRAGMA page_size = {PAGE}")
    if version <= len(migrations()):
        _use_log(db)
    if version < len(migrations()):
        with writing(db):
            _migrate(db, _version(db, path), space)
    elif version > len(migrations()):
        raise StoreTooNew(
            f"{path} was written by a newer JustMem (version {version} of its format, this one "
            f"knows {len(migrations())}): upgrade JustMem to open it."
        )
    check_space(db, path, space)


def check_space(db: sqlite3.Connection, path: Path, space: str) -> None:
    (name,) = db.execute("SELECT name FROM space").fetchone()
    if name != space:
        raise StoreError(f"{path} holds the space {name!r}, not {space!r}: rename one of them.")


def is_ours(db: sqlite3.Connection) -> bool:
    return bool(db.execute("PRAGMA application_id").fetchone()[0] == APPLICATION)


def foreign(db: sqlite3.Connection) -> list[str]:
    """Tables, indexes, triggers and views that JustMem did not make, or not like this."""
    made = _made()
    return [
        f"{'an' if kind == 'index' else 'a'} {kind} {name!r}"
        for (kind, name), sql in _objects(db)
        if made.get((kind, name)) != sql
    ]


@cache
def _made() -> dict[tuple[str, str], str]:
    with closing(sqlite3.connect(":memory:")) as db:
        for script in migrations():
            db.executescript(script)
        return dict(_objects(db))


def _objects(db: sqlite3.Connection) -> Iterator[tuple[tuple[str, str], str]]:
    """By kind and name, without comments. How FTS5 makes its own tables depends on its version."""
    for kind, name, sql in db.execute(
        "SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
    ):
        words = "" if _SHADOW.fullmatch(name) else re.sub(r"--[^\n]*", "", sql or "")
        yield (kind, name), " ".join(words.split())


def _version(db: sqlite3.Connection, path: Path) -> int:
    (version,) = db.execute("PRAGMA user_version").fetchone()
    (tables,) = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if not is_ours(db) and (version or tables):
        raise StoreDamaged(
            f"{path} is an SQLite file of another program: move it out of JustMem's folder."
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
    for script in migrations()[version:]:
        for statement in _statements(script):
            db.execute(statement)
    if version == 0:
        db.execute("INSERT INTO space (only_row, name) VALUES (1, ?)", (space,))
        db.execute(f"PRAGMA application_id = {APPLICATION}")
    db.execute(f"PRAGMA user_version = {len(migrations())}")


def _statements(script: str) -> Iterator[str]:
    """One by one: executescript would commit in between."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
