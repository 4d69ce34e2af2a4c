"""The shape of the database, and the numbered, append-only steps that led to it."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import resources
from typing import Any

import psycopg

from justmem.errors import InvalidSetting, StoreError, StoreTooNew
from justmem.stores.pg.database import Connection, Database
from justmem.stores.pg.faults import OLDEST_PGVECTOR, OLDEST_SERVER

PARTITIONS = 16
_FIRST = (
    "spaces", "sessions", "texts", "incoming", "cards", "passages", "card_words",
    "passage_words", "quarantine", "forgotten", "spending", "marks", "queue",
)  # fmt: skip
_ADDED: dict[int, tuple[str, ...]] = {2: ("audit",)}  # by the step that made them
TABLES = (*_FIRST, *(table for tables in _ADDED.values() for table in tables))
_UNUSED = ("promoted_cards", "promoted_passages")  # of earlier versions
_LISTED = ("spaces", "queue")  # names and numbers: what a worker and `spaces` may see of everyone
_LOCK = 0x4A4D454D  # "JMEM": one migration at a time
_LOCK_TIMEOUT = "SET lock_timeout = '3s'"
_TRIES = 40

# In a subquery each, so that a statement asks for the setting once and not for every row.
_OWN = "space = (SELECT nullif(current_setting('justmem.space', true), '')::bigint)"
_OR_ALL = f"{_OWN} OR (SELECT current_setting('justmem.all', true) = 'on')"
# Vectors of up to 2,000 dimensions stay in their row: a search that had to look each one up in
# a side table would take three times as long.
_INLINE = "toast_tuple_target = 8160"
_STORAGE = {"cards": _INLINE, "passages": _INLINE, "spaces": "fillfactor = 70"}


# The planner's statistics keep samples of what a column holds, where no one would look for words to
# be forgotten. None are kept for these.
_PRIVATE = {
    "spaces": ("name",),
    "sessions": ("id", "reason"),
    "texts": ("turns",),
    "incoming": ("reason", "turns"),
    "cards": ("subject", "fact", "folded", "vector"),
    "passages": ("vector",),
    "card_words": ("word", "found"),
    "passage_words": ("word", "found"),
    "quarantine": ("subject", "fact", "reason"),
}


class Names:
    """The tables that hold a space. Its own partition is addressed directly: the server then keeps
    one plan for a statement, where it would plan anew for the divided table each time."""

    def __init__(self, space: int, part: str) -> None:
        self.space = space
        self.part = part
        self.spaces, self.sessions, self.texts = self("spaces"), self("sessions"), self("texts")
        self.incoming, self.queue, self.marks = self("incoming"), self("queue"), self("marks")
        self.cards, self.passages = self("cards"), self("passages")
        self.card_words, self.passage_words = self("card_words"), self("passage_words")
        self.quarantine, self.forgotten = self("quarantine"), self("forgotten")
        self.spending, self.audit = self("spending"), self("audit")

    def __call__(self, table: str) -> str:
        return f"justmem.{table}{self.part}"


def number(space: str) -> int:
    """What stands for a space in every key: 64 bits of a hash of its name. Two names in a hundred
    million share one with a chance of 1 in 4,000; the second is then refused, never mixed up."""
    if not space.strip():
        raise InvalidSetting("The name of a space is empty: give it a name such as 'alice'.")
    try:
        digest = hashlib.blake2b(space.encode(), digest_size=8).digest()
    except UnicodeEncodeError:
        raise InvalidSetting("The name of a space is not valid Unicode: choose another.") from None
    return int.from_bytes(digest, "big", signed=True)


@cache
def migrations() -> tuple[str, ...]:
    folder = resources.files("justmem.stores.pg") / "migrations"
    names = sorted(file.name for file in folder.iterdir() if file.name.endswith(".sql"))
    return tuple((folder / name).read_text("utf-8") for name in names)


async def prepare(database: Database) -> None:
    """Brings the database up to date, whoever comes first; the others wait."""
    async with database.connection() as connection:
        _check_server(connection, database)
        version = await _version(connection)
        if version < len(migrations()):
            await _check_pgvector(connection, database, create=True)
            await _migrate(connection)
        elif version > len(migrations()):
            raise StoreTooNew(
                f"The store at {database.shown} was written by a newer JustMem (version {version} "
                f"of its format, this one knows {len(migrations())}): upgrade JustMem to open it."
            )
        else:
            await _check_pgvector(connection, database, create=False)


def _check_server(connection: Connection, database: Database) -> None:
    version = connection.info.server_version // 10_000
    if version < OLDEST_SERVER:
        raise StoreError(
            f"PostgreSQL at {database.shown} is version {version}: "
            f"JustMem needs {OLDEST_SERVER} or later. Upgrade the server."
        )


async def _check_pgvector(connection: Connection, database: Database, *, create: bool) -> None:
    found = await _one(
        connection,
        "SELECT e.extversion, n.nspname, to_regtype('vector') IS NOT NULL FROM pg_extension e "
        "JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'vector'",
    )
    if found is None and create:
        try:
            await connection.execute("CREATE EXTENSION vector")
        except psycopg.Error as error:
            raise StoreError(
                f"The database {database.shown} lacks the extension pgvector, and this role cannot "
                f"add it ({error.diag.message_primary}): install pgvector on the server, and let "
                "its administrator run CREATE EXTENSION vector in this database."
            ) from error
        return await _check_pgvector(connection, database, create=False)
    if found is None:
        raise StoreError(f"The extension pgvector is gone from {database.shown}: restore it.")
    version, schema, visible = found
    if tuple(map(int, re.findall(r"\d+", version)[:2])) < OLDEST_PGVECTOR:
        raise StoreError(
            f"pgvector at {database.shown} is version {version}: JustMem needs 0.7 or later. "
            "Upgrade it and run ALTER EXTENSION vector UPDATE."
        )
    if not visible:
        raise StoreError(
            f"pgvector at {database.shown} is in the schema {schema!r}, where this role does not "
            f"look: run ALTER ROLE ... SET search_path = public, {schema}."
        )
    return None


async def check_language(connection: Connection, language: str) -> None:
    if language == "porter":
        return
    found = await (
        await connection.execute(
            "SELECT dictname FROM pg_ts_dict WHERE dictname LIKE '%%\\_stem' "
            "AND dictnamespace = 'pg_catalog'::regnamespace"
        )
    ).fetchall()
    known = sorted(name.removesuffix("_stem") for (name,) in found)
    if language not in known:
        raise InvalidSetting(
            f"The server has no stemmer for the language {language!r}: choose one of "
            f"{', '.join(known)}, or leave it away for English as in SQLite."
        )


async def _version(connection: Connection) -> int:
    there = await _one(connection, "SELECT to_regclass('justmem.format') IS NOT NULL")
    if there is None or not there[0]:
        return 0
    found = await _one(connection, "SELECT version FROM justmem.format")
    return int(found[0]) if found else 0


async def _one(connection: Connection, sql: str) -> tuple[Any, ...] | None:
    return await (await connection.execute(sql)).fetchone()


# ---------------------------------------------------------------- migrating


async def _migrate(connection: Connection) -> None:
    """Each step waits at most a few seconds for its locks and then lets the others pass, so that
    no one ever queues behind a migration for long."""
    await connection.execute(f"SELECT pg_advisory_lock({_LOCK})")
    try:
        await connection.execute(_LOCK_TIMEOUT)
        for step in range(await _version(connection), len(migrations())):
            await _patiently(connection, step)
    finally:
        if not connection.closed:
            await connection.execute(f"SELECT pg_advisory_unlock({_LOCK})")


async def _patiently(connection: Connection, step: int) -> None:
    for left in range(_TRIES - 1, -1, -1):
        try:
            return await _step(connection, step)
        except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
            if not left:
                raise
        await asyncio.sleep(0.25)
    return None


async def _step(connection: Connection, step: int) -> None:
    script = migrations()[step]
    if script.startswith("-- outside a transaction"):  # such as CREATE INDEX CONCURRENTLY
        for statement in statements(script):
            await connection.execute(statement)
        await connection.execute("UPDATE justmem.format SET version = %s", [step + 1])
        return
    async with connection.transaction():
        if step == 0:
            await connection.execute("CREATE SCHEMA IF NOT EXISTS justmem")
        await connection.execute(script.replace("{divided}", "PARTITION BY HASH (space)"))
        if step == 0:
            await connection.execute("\n".join(_first_partitions()))
        if step + 1 in _ADDED:
            await connection.execute("\n".join(_partitions(_ADDED[step + 1])))
        await connection.execute("UPDATE justmem.format SET version = %s", [step + 1])


def statements(script: str) -> list[str]:
    """Our own scripts: no statement holds a semicolon inside."""
    bare = re.sub(r"--[^\n]*", "", script)
    return [part.strip() for part in bare.split(";") if part.strip()]


def _first_partitions() -> Iterator[str]:
    yield "CREATE TABLE justmem.format (version integer NOT NULL, partitions integer NOT NULL);"
    yield f"INSERT INTO justmem.format VALUES (0, {PARTITIONS});"
    yield from _partitions(_FIRST)
    for table in _UNUSED:
        yield from secured(f"justmem.{table}")
        yield from unsampled(f"justmem.{table}", ("vector",))


def _partitions(tables: Sequence[str]) -> Iterator[str]:
    for table in tables:
        yield from secured(f"justmem.{table}", listed=table in _LISTED)
        yield from unsampled(f"justmem.{table}", _PRIVATE.get(table, ()))
        storage = f" WITH ({_STORAGE[table]})" if table in _STORAGE else ""
        for part in range(PARTITIONS):
            leaf = f"justmem.{table}_{part:02}"
            yield (
                f"CREATE TABLE {leaf} PARTITION OF justmem.{table} "
                f"FOR VALUES WITH (MODULUS {PARTITIONS}, REMAINDER {part}){storage};"
            )
            yield from secured(leaf, listed=table in _LISTED)
            yield from unsampled(leaf, _PRIVATE.get(table, ()))


def secured(table: str, *, listed: bool = False) -> Iterator[str]:
    """FORCE: the owner too sees nothing but the space it names. Partitions need it of their own:
    PostgreSQL does not apply the parent's when they are addressed directly."""
    yield f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;"
    yield f"CREATE POLICY own ON {table} USING ({_OR_ALL if listed else _OWN});"


def unsampled(table: str, columns: Sequence[str]) -> Iterator[str]:
    if columns:
        changes = ", ".join(f"ALTER COLUMN {column} SET STATISTICS 0" for column in columns)
        yield f"ALTER TABLE {table} {changes};"
