"""The schema in PostgreSQL: migrations, and row-level security that keeps spaces apart."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import psycopg

from justmem.errors import StoreError, StoreTooNew
from justmem.store import schema
from justmem.store.postgres_errors import OLDEST_SERVER

Raw = psycopg.Connection[Any]
_LOCK = 0x4A4D454D  # one migration at a time
_OWN = "space = current_setting('justmem.space', true)"
_OR_ALL = f"{_OWN} OR current_setting('justmem.everyone', true) = 'on'"
_LISTED = ("spaces", "queue")  # what a worker may see of everyone
# Marks of writes that must not be done twice, kept for an hour.
_MARKS = """
CREATE TABLE marks (
    space TEXT NOT NULL,
    id TEXT NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (space, id)
);
"""
# The planner's statistics keep samples of what a column holds, where no one would look for words
# to be forgotten. None are kept for these.
_PRIVATE = {
    "spaces": ("terms",),
    "sessions": ("id", "reason", "labels"),
    "turns": ("session", "speaker", "text", "key"),
    "cards": ("session", "subject", "fact", "event_date"),
    "quarantine": ("session", "subject", "fact", "reason"),
    "blocks": ("session", "postings", "vectors"),
    "queue": ("session",),
    "log": ("entry",),
    "corrections": ("session", "correction"),
}


def prepare(connection: Raw, shown: str) -> None:
    """Migrates the database. One process does it; the others wait. `shown`: its address."""
    version = connection.info.server_version // 10_000
    if version < OLDEST_SERVER:
        raise StoreError(
            f"PostgreSQL at {shown} is version {version}: "
            f"JustMem needs {OLDEST_SERVER} or later. Upgrade the server."
        )
    known = _version(connection, shown)
    if known > len(schema.MIGRATIONS):
        raise StoreTooNew(
            f"The store at {shown} was written by a newer JustMem (version {known} of "
            f"its format, this one knows {len(schema.MIGRATIONS)}): upgrade JustMem to open it."
        )
    if known < len(schema.MIGRATIONS):
        connection.execute(f"SELECT pg_advisory_lock({_LOCK})")
        with connection.transaction():
            _migrate(connection, _version(connection, shown))


def _version(connection: Raw, shown: str) -> int:
    asked = (
        "SELECT to_regclass('justmem.format') IS NULL AND "
        "to_regclass('justmem.migrations') IS NULL, "
        "to_regclass('justmem.versions') IS NULL"
    )
    found = connection.execute(asked).fetchone()
    assert found is not None
    if not found[0]:
        raise StoreError(schema.explain_old(f"The schema justmem at {shown}"))
    if found[1]:
        return 0
    row = connection.execute("SELECT max(version) FROM justmem.versions").fetchone()
    return int(row[0] or 0) if row else 0


def _migrate(connection: Raw, version: int) -> None:
    if version == 0:
        connection.execute("CREATE SCHEMA IF NOT EXISTS justmem")
        connection.execute("CREATE TABLE justmem.versions (version INTEGER NOT NULL)")
    connection.execute("SET LOCAL search_path = justmem")
    for number, migration in enumerate(schema.MIGRATIONS[version:], version + 1):
        script = migration + _MARKS if number == 1 else migration
        for statement in schema.statements(script, blob="BYTEA", compact=""):
            connection.execute(statement)
        for table in re.findall(r"CREATE TABLE (\w+)", script):
            for statement in _secured(table):
                connection.execute(statement)
        connection.execute("INSERT INTO versions VALUES (%s)", [number])


def _secured(table: str) -> Iterator[str]:
    """FORCE: the owner too sees nothing but the space that it names."""
    yield f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY"
    yield f"CREATE POLICY own ON {table} USING ({_OR_ALL if table in _LISTED else _OWN})"
    for column in _PRIVATE.get(table, ()):
        yield f"ALTER TABLE {table} ALTER COLUMN {column} SET STATISTICS 0"
    if table == "blocks":  # vectors do not compress
        yield "ALTER TABLE blocks ALTER COLUMN vectors SET STORAGE EXTERNAL"
