"""The PostgreSQL engine: all spaces in one database, kept apart by row-level security; the queue of
all spaces; and vacuum, which removes the bytes of deleted rows.

No extension, partition, trigger or function is needed, so that the schema also runs where tables
are distributed by their first column.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Collection, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple, TypeVar

import psycopg
from psycopg.errors import Diagnostic

from justmem.errors import InvalidSetting, NoSuchSpace, StoreBusy, StoreError
from justmem.ports import Searched
from justmem.store import erase, schema, writes
from justmem.store.engine import Connection, Row, check_name, erased
from justmem.store.postgres_connection import (
    OF_ALL,
    READ,
    Database,
    PostgresConnection,
    Raw,
    of_space,
)
from justmem.store.store import LEASE, SqlStore

T = TypeVar("T")
_MOST_ATTEMPTS = 10  # of workers at a session; then it waits for `justmem retry`
_DUE = f"due <= extract(epoch FROM clock_timestamp()) AND attempts < {_MOST_ATTEMPTS}"
_SKIP = "FOR UPDATE SKIP LOCKED"
_LOOKED_AT = 50  # sessions that a worker chooses from


class PostgresStore(SqlStore):
    """`close`: the database is closed with it."""

    def __init__(self, database: Database, space: str, *, close: bool) -> None:
        super().__init__(space, database.owner)
        self.database = database
        self._close = close

    async def _transaction(self, work: Callable[[Connection], T], *, writes: bool) -> T:
        """The lock of the space's row keeps other writers waiting, as SQLite's lock of the file
        does."""
        database, space = self.database, self.space

        def job(connection: Raw) -> T:
            db = PostgresConnection(connection, space)
            if writes and not db.select("1", "spaces", "FOR UPDATE"):
                raise erased(space)
            return work(db)

        begin = f"{'BEGIN' if writes else READ}; {of_space(space)}"
        return await database.run(lambda: database.transaction(begin, job))

    async def _size(self) -> int:
        sizes = [(f"sum(pg_column_size({table}.*))", table) for table in schema.TABLES]
        found = await self._read(lambda db: [db.select(*each)[0][0] for each in sizes])
        return sum(int(size or 0) for size in found)

    async def _sweep(self, *, thorough: bool = False) -> None:
        """Deleted rows are out of reach at once. Their bytes go with the server's own vacuum."""
        if thorough:
            await self.database.run(lambda: _vacuum(self.database, rewrite=True))

    async def _search_bytes(self, pieces: Collection[bytes]) -> Searched:
        # Outside the pool, which may be closed: the space may be erased.
        return await asyncio.to_thread(_remains, self.database, self.space, pieces)

    async def backup(self, target: Path) -> None:
        raise InvalidSetting(
            "A space in PostgreSQL is backed up with its database: use pg_dump. `justmem export` "
            "or `justmem copy` writes one space."
        )

    async def close(self) -> None:
        await super().close()
        if self._close:
            await self.database.close()


# ---------------------------------------------------------------- all spaces


async def open_store(url: str, space: str, *, create: bool = True) -> PostgresStore:
    """One space with its own connections. They are closed with the store."""
    place = PostgresStorage(url)
    try:
        return await place.open(space, create=create, close=True)
    except BaseException:
        await place.close()
        raise


class Job(NamedTuple):
    """A session that this worker has claimed."""

    space: str
    session: str


class PostgresStorage(Database):
    """All spaces of a database."""

    async def open(self, space: str, *, create: bool = True, close: bool = False) -> PostgresStore:
        """`close`: the connections are closed with the store."""
        check_name(space)

        def find(connection: Raw) -> bool:
            return bool(PostgresConnection(connection, space).select("1", "spaces"))

        def make(connection: Raw) -> None:
            writes.create(PostgresConnection(connection, space))

        if not await self.run(lambda: self.transaction(f"{READ}; {of_space(space)}", find)):
            if not create:
                raise NoSuchSpace(f"There is no space {space!r} in {self.shown}.")
            await self.run(lambda: self.transaction(f"BEGIN; {of_space(space)}", make))
        return PostgresStore(self, space, close=close)

    async def spaces(self) -> list[str]:
        """The names of all spaces, in order."""

        def work(connection: Raw) -> list[str]:
            return sorted(name for (name,) in connection.execute("SELECT space FROM spaces"))

        return await self.run(lambda: self.transaction(f"{READ}; {OF_ALL}", work))

    async def sweep(self, *, rewrite: bool) -> None:
        """VACUUM for all tables. It makes the room of deleted rows free. `rewrite` copies the
        tables without them instead, so that no byte stays; others wait meanwhile."""
        await self.run(lambda: _vacuum(self, rewrite=rewrite))

    async def take(self, *, busy: Sequence[str] = (), full: Sequence[str] = ()) -> Job | None:
        """Claims the session that has waited longest. Later come those of `busy` spaces, and last
        those that were tried before: one may have ended the worker that had it. Nothing is taken of
        `full` spaces."""

        def waiting(connection: Raw) -> list[Row]:
            return PostgresConnection(connection, "").rows(
                f"SELECT space, id FROM sessions WHERE {_DUE} AND NOT space = ANY(?) "
                f"ORDER BY attempts > 0, space = ANY(?), due LIMIT {_LOOKED_AT}",
                *(list(full), list(busy)),
            )

        def job() -> Job | None:
            jobs = (Job(*row) for row in self.transaction(f"{READ}; {OF_ALL}", waiting))
            return next((each for each in jobs if self._is_taken(each)), None)

        return await self.run(job)

    def _is_taken(self, job: Job) -> bool:
        """False if another worker was quicker."""

        def work(connection: Raw) -> bool:
            db = PostgresConnection(connection, job.space)
            free = db.select("attempts", "sessions", f"AND {_DUE} {_SKIP}", id=job.session)
            for (attempts,) in free:
                due = db.seconds() + LEASE
                changes = {"owner": self.owner, "attempts": attempts + 1, "due": due}
                db.update("sessions", changes, id=job.session)
            return bool(free)

        return self.transaction(f"BEGIN; {of_space(job.space)}", work)


# ---------------------------------------------------------------- vacuum

_TRIES, _PAUSE = 30, 0.2  # while someone's transaction still sees the deleted rows
_LOCK_TIMEOUT = "20s"
_DISTRIBUTED = "SELECT 1 FROM pg_extension WHERE extname = 'citus'"
_SAMPLES = """
    SELECT coalesce(most_common_vals::text, '') || ' ' || coalesce(histogram_bounds::text, '')
        || ' ' || coalesce(most_common_elems::text, '') FROM pg_stats WHERE schemaname = 'justmem'
"""


def _vacuum(database: Database, *, rewrite: bool) -> None:
    said: list[tuple[str, str, str]] = []  # severity, message and detail

    def note(told: Diagnostic) -> None:
        texts = told.severity_nonlocalized, told.message_primary, told.message_detail
        said.append((texts[0] or "", texts[1] or "", texts[2] or ""))

    with database.connection() as connection:
        connection.add_notice_handler(note)
        connection.execute(f"SET lock_timeout = '{_LOCK_TIMEOUT}'")
        for table in schema.TABLES:
            _vacuum_table(connection, table, said, rewrite=rewrite)


def _vacuum_table(
    connection: Raw, table: str, said: list[tuple[str, str, str]], *, rewrite: bool
) -> None:
    """The report of a rewrite begins its detail with the number of dead rows that had to be kept,
    in any language. A server that sends no report did nothing."""
    for left in range(_TRIES - 1, -1, -1):
        said.clear()
        try:
            options = "FULL, VERBOSE" if rewrite else "VERBOSE"
            connection.execute(f"VACUUM ({options}) justmem.{table}")
        except psycopg.errors.LockNotAvailable:
            break
        report = [detail for severity, _, detail in said if severity == "INFO"]
        dead = [int(number[0]) for detail in report if (number := re.search(r"\d+", detail))]
        if not (dead if rewrite else report):
            why = next((text for severity, text, _ in said if severity == "WARNING"), "no reason")
            raise StoreError(
                f"PostgreSQL did not vacuum justmem.{table} ({why}): use the role that owns the "
                "tables, or let the owner run GRANT MAINTAIN ON ALL TABLES IN SCHEMA justmem "
                f"TO {connection.info.user} (PostgreSQL 17 or later)."
            )
        if not rewrite or not any(dead):
            return
        if left:
            time.sleep(_PAUSE)
    raise StoreBusy(
        f"A transaction that began earlier still sees deleted rows of justmem.{table}, or keeps "
        "the table locked: end it (pg_stat_activity lists them), and sweep again with "
        "`justmem sweep --rewrite`. Prepared transactions, replication slots and standbys "
        "with feedback keep rows too."
    )


def _remains(database: Database, space: str, pieces: Collection[bytes]) -> Searched:
    """Files of the server are out of reach here: what is checked are its tables, after they were
    written anew, and the samples that its planner keeps. Its write-ahead log keeps old pages until
    it is recycled, and its backups as long as they are kept (see docs/forgetting.md)."""
    try:
        with database.connection() as connection:
            if connection.execute(_DISTRIBUTED).fetchone():
                raise StoreError("Citus does not report what vacuum keeps on its workers.")
        _vacuum(database, rewrite=True)
    except StoreError as error:
        raise type(error)(
            "It is forgotten and no query finds it, but its bytes may still be in the tables' "
            f"files, so there is no certificate. {error}"
        ) from error
    with database.connection() as connection:
        connection.execute(f"{READ}; {of_space(space)}")
        db = PostgresConnection(connection, space)
        tables = (
            (table, db.each(f"SELECT * FROM {table} WHERE space = ?", space))
            for table in schema.TABLES
        )
        return erase.in_tables(chain(tables, [("pg_stats", db.each(_SAMPLES))]), pieces)
