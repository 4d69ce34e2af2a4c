"""The PostgreSQL engine: all spaces in one database, kept apart by row-level security.

No extension, partition, trigger or function is needed, so that the schema also runs where tables
are distributed by their first column.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TypeVar

from justmem.errors import InvalidSetting, NoSuchSpace, StoreError
from justmem.ports import Searched
from justmem.store import schema, writes
from justmem.store.engine import Connection
from justmem.store.pool import OF_ALL, READ, Database, PostgresConnection, of_space
from justmem.store.postgres_schema import Raw
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
        self.database = Database(url, size=size)

    async def open(self, space: str, *, create: bool = True, close: bool = False) -> SqlStore:
        """`close`: the connections are closed with the store."""
        _check_name(space)
        database = self.database
        if not await database.run(lambda: _find(database, space, create=create)):
            raise NoSuchSpace(f"There is no space {space!r} in {database.shown}.")
        return SqlStore(PostgresEngine(database, space, close=close))

    async def spaces(self) -> list[str]:
        """The names of all spaces, in order."""
        database = self.database

        def work(connection: Raw) -> list[str]:
            found = PostgresConnection(connection, "").rows("SELECT space FROM spaces")
            return sorted(name for (name,) in found)

        return await database.run(lambda: database.transaction(f"{READ}; {OF_ALL}", work))

    async def close(self) -> None:
        await self.database.close()


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
