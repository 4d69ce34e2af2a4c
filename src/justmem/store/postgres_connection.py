"""Connections to PostgreSQL: one pool for all spaces of a database, transactions, errors, and the
migrations with row-level security."""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import count
from threading import Lock
from typing import Any, TypeVar

import psycopg
from psycopg import sql as literal
from psycopg.conninfo import conninfo_to_dict
from psycopg_pool import ConnectionPool, PoolTimeout

from justmem.errors import (
    InvalidSession,
    InvalidSetting,
    JustMemError,
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreTooNew,
)
from justmem.store import schema
from justmem.store.engine import Connection, Row, Threads, values_checked

T = TypeVar("T")
Raw = psycopg.Connection[Any]

_ATTEMPTS = 8
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0  # seconds between attempts, doubling: 5 s in all
_PATIENCE = 10.0  # seconds to wait for a connection
_LIMITS = (
    "SET statement_timeout = '60s'; SET lock_timeout = '20s'; "
    "SET idle_in_transaction_session_timeout = '60s'"
)
READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
OF_ALL = "SET LOCAL search_path = justmem; SET LOCAL justmem.everyone = 'on'"
_ROWS = 500  # in one INSERT, or fetched at a time


def of_space(space: str) -> str:
    """Limits the transaction to the rows of this space, by row-level security."""
    name = literal.Literal(space).as_string(None)
    return f"SET LOCAL search_path = justmem; SET LOCAL justmem.space = {name}"


@lru_cache(1024)
def _translated(sql: str) -> str:
    return sql.replace("?", "%s")


class PostgresConnection(Connection):
    def __init__(self, connection: Raw, space: str) -> None:
        super().__init__(space)
        self.connection = connection
        self._cursors = count()

    def _execute(self, sql: str, values: Sequence[Any]) -> psycopg.Cursor[Any]:
        return self.connection.cursor(binary=True).execute(_translated(sql), values)

    def rows(self, sql: str, *values: Any) -> list[Row]:
        return self._execute(sql, values).fetchall()

    def each(self, sql: str, *values: Any) -> Iterator[Row]:
        with self.connection.cursor(f"each{next(self._cursors)}") as cursor:
            cursor.itersize = _ROWS
            yield from cursor.execute(_translated(sql), values, binary=True)

    def run(self, sql: str, *values: Any) -> int:
        return self._execute(sql, values).rowcount

    def run_many(self, sql: str, rows: Sequence[Sequence[Any]], tail: str = "") -> None:
        for start in range(0, len(rows), _ROWS):
            some = rows[start : start + _ROWS]
            row = f"({', '.join('?' * len(some[0]))})"
            values = [value for each in some for value in each]
            self._execute(f"{sql} {', '.join([row] * len(some))} {tail}", values)

    def seconds(self) -> float:
        ((seconds,),) = self.rows("SELECT extract(epoch FROM clock_timestamp())::float")
        return float(seconds)


class Database:
    """A pool of connections and of threads that use them, for all spaces of a database."""

    def __init__(self, url: str, *, size: int = 8) -> None:
        self.url = url
        self.shown = _shown(url)
        self.owner = f"0.{secrets.token_hex(8)}"  # of all leases of this process
        self._size = size
        self._pool: ConnectionPool[Raw] | None = None
        self._threads = Threads("justmem-postgres", size)
        self._opening = Lock()
        self.closed = False

    async def run(self, job: Callable[[], T]) -> T:
        """In a thread. The first time, the tables are brought up to date."""
        if self.closed:
            raise StoreError(f"The store at {self.shown} is closed: open it again.")

        def ready() -> T:
            with self._opening:
                if self._pool is None:
                    self._pool = self._opened()
            return job()

        return await self._threads.run(ready)

    def _opened(self) -> ConnectionPool[Raw]:
        with self.connection() as connection:
            _migrate(connection, self.shown)
        return ConnectionPool(
            self.url,
            kwargs={"autocommit": True, "prepare_threshold": None},
            min_size=1,
            max_size=self._size,
            timeout=_PATIENCE,
            reconnect_timeout=30.0,
            configure=_limit,
            open=True,
        )

    @contextmanager
    def connection(self) -> Iterator[Raw]:
        """A connection outside the pool: for migrations, for vacuum, and after `close`."""
        with (
            self._errors(),
            psycopg.connect(self.url, autocommit=True, connect_timeout=10) as connection,
        ):
            yield connection

    def transaction(self, begin: str, work: Callable[[Raw], T]) -> T:
        """Runs again from the start if the connection is lost, or if the server undid it. If the
        connection of a write is lost while it commits, nobody knows whether it happened."""
        pool, pause = self._pool, _FIRST_PAUSE
        assert pool is not None, "a job runs in `run`"
        with self._errors():
            for left in range(_ATTEMPTS - 1, -1, -1):
                committing = False
                try:
                    with pool.connection() as connection:  # rolls back after an error
                        connection.execute(begin)
                        done = work(connection)
                        committing = not begin.startswith(READ)
                        connection.execute("COMMIT")
                        return done
                except psycopg.Error as error:
                    if committing and _is_lost(error):
                        raise StoreError(
                            f"The connection to PostgreSQL at {self.shown} was lost during a "
                            "commit. The change may be stored: check, and repeat it if it is not."
                        ) from error
                    if not left or isinstance(error, PoolTimeout) or not _is_passing(error):
                        raise
                    if _is_lost(error):
                        pool.check()
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
        raise AssertionError("unreachable")

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turns PostgreSQL's errors into ours."""
        try:
            with values_checked(f"The store at {self.shown}"):
                yield
        except psycopg.Error as error:
            raise _named(error, self.shown) from error

    async def close(self) -> None:
        if not self.closed:
            self.closed = True
            await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._threads.close()
        if self._pool is not None:
            self._pool.close()


def _limit(connection: Raw) -> None:
    connection.execute(_LIMITS)


# ---------------------------------------------------------------- errors

# What to do, by SQLSTATE or by its class, which is its first two characters.
_FAULTS: dict[str, tuple[type[JustMemError], str]] = {
    "25006": (StoreError, "Give the address of the primary server, and a role that may write."),
    "28": (StoreError, "Check the user and the password."),
    "3F000": (StoreDamaged, "Restore the schema justmem from a backup."),
    "40": (StoreBusy, "Try again."),
    "42501": (StoreError, "Grant the role rights on the schema justmem, or use its owner."),
    "42703": (StoreDamaged, "Restore the schema justmem from a backup."),
    "42P01": (StoreDamaged, "Restore the schema justmem from a backup."),
    "53": (StoreBusy, "Raise max_connections, or put a pooler in front of the server."),
    "53100": (StoreFull, "Free some space on its disk."),
    "54": (InvalidSession, "Choose shorter names."),
    "55P03": (StoreBusy, "Try again."),
    "57014": (StoreBusy, "It took too long: try again when the server has less to do."),
    "XX": (StoreDamaged, "Its files are damaged: restore them from a backup."),
}
_UNREACHABLE = (
    "cannot be reached ({}): check the address, the user, the password, that the server runs, and "
    "that the database exists (createdb makes one). What was acknowledged is kept."
)


def _is_lost(error: psycopg.Error) -> bool:
    """The connection is gone: whether a commit under way happened is not known."""
    if error.sqlstate is None:
        return isinstance(error, psycopg.OperationalError)
    return error.sqlstate.startswith(("08", "57P"))  # the server went away, or is not there yet


def _is_passing(error: psycopg.Error) -> bool:
    """Lost, or undone because of another transaction."""
    return _is_lost(error) or error.sqlstate in ("40001", "40P01")


def _named(error: psycopg.Error, shown: str) -> JustMemError:
    state = error.sqlstate or ""
    primary = error.diag.message_primary if state else None
    message = " ".join((primary or str(error)).split())[:300].rstrip(".")
    if isinstance(error, PoolTimeout):
        return StoreBusy(
            f"PostgreSQL at {shown} gave no connection in {_PATIENCE:.0f} seconds: check that the "
            "server runs and has connections to spare."
        )
    if _is_lost(error):
        return StoreError(f"PostgreSQL at {shown} {_UNREACHABLE.format(message)}")
    kind, fix = _FAULTS.get(state) or _FAULTS.get(state[:2]) or (StoreError, "See its log.")
    return kind(f"PostgreSQL at {shown} refused: {message}. {fix}")


def _shown(url: str) -> str:
    """The address without its password. InvalidSetting if PostgreSQL does not understand it."""
    try:
        parts = conninfo_to_dict(url)
    except psycopg.Error as error:
        raise InvalidSetting(
            "The address of the store is not one that PostgreSQL understands "
            f"({str(error).strip()}): write postgresql://user@host:5432/database."
        ) from None
    host = parts.get("host") or parts.get("hostaddr") or "localhost"
    port = f":{parts['port']}" if parts.get("port") else ""
    return f"{host}{port}/{parts.get('dbname') or parts.get('user') or ''}"


# ---------------------------------------------------------------- migrations

_OLD_TABLES = ("format", "migrations", "versions")  # of earlier formats
_LOCK = 0x4A4D454D  # one migration at a time
_OWN = "space = current_setting('justmem.space', true)"
_OR_ALL = f"{_OWN} OR current_setting('justmem.everyone', true) = 'on'"
_LISTED = ("spaces", "sessions")  # what a worker may see of everyone


def _migrate(connection: Raw, shown: str) -> None:
    """One process does it; the others wait. `shown`: the address."""
    if _version(connection, shown) < len(schema.MIGRATIONS):
        connection.execute(f"SELECT pg_advisory_lock({_LOCK})")
        with connection.transaction():
            _add_migrations(connection, _version(connection, shown))


def _version(connection: Raw, shown: str) -> int:
    def exists(table: str) -> bool:
        found = connection.execute("SELECT to_regclass(%s)", [f"justmem.{table}"]).fetchone()
        return found != (None,)

    if any(map(exists, _OLD_TABLES)):
        raise StoreError(schema.explain_old(f"The schema justmem at {shown}"))
    if not exists("schema_versions"):
        return 0
    row = connection.execute("SELECT max(version) FROM justmem.schema_versions").fetchone()
    version = int(row[0]) if row else 0
    if version > len(schema.MIGRATIONS):
        raise StoreTooNew(schema.explain_new(f"The store at {shown}", version))
    return version


def _add_migrations(connection: Raw, version: int) -> None:
    if version == 0:
        connection.execute("CREATE SCHEMA IF NOT EXISTS justmem")
        connection.execute("CREATE TABLE justmem.schema_versions (version INTEGER NOT NULL)")
    connection.execute("SET LOCAL search_path = justmem")
    for number, migration in enumerate(schema.MIGRATIONS[version:], version + 1):
        for statement in schema.statements(migration, blob="BYTEA"):
            connection.execute(statement)
            if table := re.match(r"CREATE TABLE (\w+)", statement):
                for secured in _secured(table[1], statement):
                    connection.execute(secured)
        connection.execute("INSERT INTO schema_versions VALUES (%s)", [number])


def _secured(table: str, statement: str) -> Iterator[str]:
    """FORCE: the owner too sees nothing but the space that it names."""
    yield f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY"
    yield f"CREATE POLICY own ON {table} USING ({_OR_ALL if table in _LISTED else _OWN})"
    # The planner's statistics keep samples of a column, also of words that are forgotten later.
    for column in re.findall(r"^\s+(\w+) (?:TEXT|BYTEA)", statement, re.MULTILINE):
        if column != "space":
            yield f"ALTER TABLE {table} ALTER COLUMN {column} SET STATISTICS 0"
        if column == "vector":  # it does not compress
            yield f"ALTER TABLE {table} ALTER COLUMN vector SET STORAGE EXTERNAL"
