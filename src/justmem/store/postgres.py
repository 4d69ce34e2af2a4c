"""The PostgreSQL engine: all spaces in one database, kept apart by row-level security.

No extension, partition, trigger or function is needed, so that the schema also runs where tables
are distributed by their first column.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from justmem.errors import InvalidSetting, NoSuchSpace, StoreError, StoreTooNew
from justmem.ports import Searched
from justmem.store import schema, writes
from justmem.store.engine import Connection
from justmem.store.pool import OF_ALL, READ, Database, PostgresConnection, Raw, of_space
from justmem.store.postgres_errors import OLDEST_SERVER
from justmem.store.store import SqlStore
from justmem.store.vacuum import remains, sweep

T = TypeVar("T")
_NO_BACKUP = (
    "A space in PostgreSQL is backed up with its database: use pg_dump. `justmem export` or "
    "`justmem copy` writes one space."
)


class PostgresEngine:
    """See `Engine`. `close`: the database is closed with it."""

    def __init__(self, database: Database, space: str, *, close: bool) -> None:
        self.database = database
        self.space = space
        self.owner = database.owner
        self._close = close
        self.closed = False

    async def read(self, work: Callable[[Connection], T]) -> T:
        begin = f"{READ}; {of_space(self.space)}"
        return await self._transaction(begin, work)

    async def write(self, work: Callable[[Connection], T], *, once: bool = False) -> T:
        """The lock of the space's row keeps other writers waiting, as SQLite's lock of the file
        does. `once` leaves a mark: if the connection is lost while it commits, the mark tells
        whether it happened."""
        mark = secrets.token_hex(16) if once else ""
        done: list[T] = []

        def job(db: Connection) -> T:
            if not db.rows("SELECT 1 FROM spaces WHERE space = ? FOR UPDATE", self.space):
                if done:  # it was erased, and the answer was lost
                    return done[-1]
                raise StoreError(
                    f"The space {self.space!r} was erased by another process: open it again."
                )
            if mark:
                if done and db.rows(
                    "SELECT 1 FROM marks WHERE space = ? AND id = ?", self.space, mark
                ):
                    return done[-1]
                db.run(
                    "DELETE FROM marks WHERE space = ? AND at < ?", self.space, db.seconds() - 3600
                )
                db.run(
                    "INSERT INTO marks (space, id, at) VALUES (?, ?, ?)",
                    *(self.space, mark, db.seconds()),
                )
            done.append(work(db))
            return done[-1]

        return await self._transaction(f"BEGIN; {of_space(self.space)}", job)

    async def _transaction(self, begin: str, work: Callable[[Connection], T]) -> T:
        def job() -> T:
            return self.database.transaction(
                begin, lambda connection: work(PostgresConnection(connection, self.space))
            )

        return await self.database.run(job)

    def is_dead(self, owner: str) -> bool:
        return False  # owners are processes of any machine

    async def size(self) -> int:
        def work(db: Connection) -> int:
            return sum(
                int(row[0])
                for table in schema.TABLES
                for row in db.rows(
                    f"SELECT coalesce(sum(pg_column_size(t.*)), 0) FROM {table} t WHERE space = ?",
                    self.space,
                )
            )

        return await self.read(work)

    async def damage(self) -> Sequence[tuple[str, str]]:
        return []

    async def sweep(self, *, thorough: bool = False) -> None:
        """Deleted rows are out of reach at once. Their bytes go with the server's own vacuum."""
        if thorough:
            await sweep(self.database, rewrite=True)

    async def remains(self, pieces: Collection[bytes]) -> Searched:
        # Outside the pool: it is asked for after `erase` too, when that is closed.
        return await asyncio.to_thread(remains, self.database, self.space, pieces)

    async def erase(self) -> None:
        def work(db: Connection) -> None:
            for table in ("marks", *schema.TABLES[::-1]):
                db.run(f"DELETE FROM {table} WHERE space = ?", self.space)

        await self.write(work)
        await self.close()

    async def backup(self, target: Path) -> None:
        raise InvalidSetting(_NO_BACKUP)

    async def close(self) -> None:
        self.closed = True
        if self._close:
            await self.database.close()


# ---------------------------------------------------------------- opening


async def open_store(url: str, space: str, *, create: bool = True) -> SqlStore:
    """One space with its own connections. They are closed with the store."""
    place = PostgresStorage(url)
    try:
        return await place.open(space, create=create, close=True)
    except BaseException:
        await place.close()
        raise


class PostgresStorage:
    """One pool of connections for all spaces of a database."""

    def __init__(self, url: str, *, size: int = 8) -> None:
        self.url = url
        self._size = size
        self._database: Database | None = None
        self._opening = asyncio.Lock()

    async def database(self) -> Database:
        """With tables that are up to date."""
        async with self._opening:
            if self._database is None:
                database = Database(self.url, size=self._size)
                try:
                    await database.run(lambda: _prepare(database))
                except BaseException:
                    await database.close()
                    raise
                self._database = database
            return self._database

    async def open(self, space: str, *, create: bool = True, close: bool = False) -> SqlStore:
        """`close`: the connections are closed with the store."""
        _check_name(space)
        database = await self.database()
        if not await database.run(lambda: _find(database, space, create=create)):
            raise NoSuchSpace(f"There is no space {space!r} in {database.shown}.")
        return SqlStore(PostgresEngine(database, space, close=close))

    async def spaces(self) -> list[str]:
        """The names of all spaces, in order."""
        database = await self.database()

        def work(connection: Raw) -> list[str]:
            found = PostgresConnection(connection, "").rows("SELECT space FROM spaces")
            return sorted(name for (name,) in found)

        return await database.run(lambda: database.transaction(f"{READ}; {OF_ALL}", work))

    async def close(self) -> None:
        if self._database is not None:
            await self._database.close()


def _find(database: Database, space: str, *, create: bool) -> bool:
    """Whether the space exists or was created."""

    def find(connection: Raw) -> bool:
        db = PostgresConnection(connection, space)
        return bool(db.rows("SELECT 1 FROM spaces WHERE space = ?", space))

    found = database.transaction(f"{READ}; {of_space(space)}", find)
    if not found and create:
        database.transaction(
            f"BEGIN; {of_space(space)}",
            lambda connection: writes.create(PostgresConnection(connection, space)),
        )
    return found or create


def _check_name(space: str) -> None:
    if not space.strip():
        raise InvalidSetting("The name of a space is empty: give it a name such as 'alice'.")
    try:
        space.encode()
    except UnicodeEncodeError:
        raise InvalidSetting("The name of a space is not valid Unicode: choose another.") from None


# ---------------------------------------------------------------- the schema

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


def _prepare(database: Database) -> None:
    """Brings the database up to date, whoever comes first; the others wait."""
    with database.connection() as connection:
        version = connection.info.server_version // 10_000
        if version < OLDEST_SERVER:
            raise StoreError(
                f"PostgreSQL at {database.shown} is version {version}: "
                f"JustMem needs {OLDEST_SERVER} or later. Upgrade the server."
            )
        known = _version(connection, database.shown)
        if known > len(schema.MIGRATIONS):
            raise StoreTooNew(
                f"The store at {database.shown} was written by a newer JustMem (version {known} of "
                f"its format, this one knows {len(schema.MIGRATIONS)}): upgrade JustMem to open it."
            )
        if known < len(schema.MIGRATIONS):
            connection.execute(f"SELECT pg_advisory_lock({_LOCK})")
            with connection.transaction():
                _migrate(connection, _version(connection, database.shown))


def _version(connection: Raw, shown: str) -> int:
    asked = (
        "SELECT to_regclass('justmem.format') IS NULL, to_regclass('justmem.migrations') IS NULL"
    )
    found = connection.execute(asked).fetchone()
    assert found is not None
    if not found[0]:
        raise StoreError(schema.explain_old(f"The schema justmem at {shown}"))
    if found[1]:
        return 0
    row = connection.execute("SELECT max(version) FROM justmem.migrations").fetchone()
    return int(row[0] or 0) if row else 0


def _migrate(connection: Raw, version: int) -> None:
    if version == 0:
        connection.execute("CREATE SCHEMA IF NOT EXISTS justmem")
        connection.execute("CREATE TABLE justmem.migrations (version INTEGER NOT NULL)")
    connection.execute("SET LOCAL search_path = justmem")
    for number, migration in enumerate(schema.MIGRATIONS[version:], version + 1):
        script = migration + _MARKS if number == 1 else migration
        for statement in schema.statements(script, blob="BYTEA", compact=""):
            connection.execute(statement)
        for table in re.findall(r"CREATE TABLE (\w+)", script):
            for statement in _secured(table):
                connection.execute(statement)
        connection.execute("INSERT INTO migrations VALUES (%s)", [number])


def _secured(table: str) -> Iterator[str]:
    """FORCE: the owner too sees nothing but the space that it names."""
    yield f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY"
    yield f"CREATE POLICY own ON {table} USING ({_OR_ALL if table in _LISTED else _OWN})"
    for column in _PRIVATE.get(table, ()):
        yield f"ALTER TABLE {table} ALTER COLUMN {column} SET STATISTICS 0"
    if table == "blocks":  # vectors do not compress
        yield "ALTER TABLE blocks ALTER COLUMN vectors SET STORAGE EXTERNAL"
