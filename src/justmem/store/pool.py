"""Connections to PostgreSQL: one pool for all spaces of a database, and its transactions."""

from __future__ import annotations

import asyncio
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
from psycopg_pool import ConnectionPool, PoolTimeout

from justmem.errors import StoreBusy, StoreError
from justmem.ports import Author
from justmem.store import postgres_errors
from justmem.store.engine import Row, Threads
from justmem.store.postgres_schema import Raw, prepare

T = TypeVar("T")
ATTEMPTS = 8
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0  # seconds between attempts, doubling: 5 s in all
_PATIENCE = 10.0  # seconds to wait for a connection
_LIMITS = (
    "SET statement_timeout = '60s'; SET lock_timeout = '20s'; "
    "SET idle_in_transaction_session_timeout = '60s'"
)
READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
OF_ALL = "SET LOCAL search_path = justmem; SET LOCAL justmem.everyone = 'on'"
_ROWS = 500  # in one INSERT
_FETCHED = 500  # rows at a time
# PostgreSQL's text cannot hold NUL: it is written with "data link escape" before it.
_ESCAPE = "\x10"


@lru_cache(1024)
def _translated(sql: str) -> str:
    return sql.replace("?", "%s")


def _encoded(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    text = str(value)
    if "\0" in text or _ESCAPE in text:
        text = text.replace(_ESCAPE, _ESCAPE + "1").replace("\0", _ESCAPE + "0")
    return text


def _decoded(value: Any) -> Any:
    if isinstance(value, str) and _ESCAPE in value:
        return value.replace(_ESCAPE + "0", "\0").replace(_ESCAPE + "1", _ESCAPE)
    return value


class PostgresConnection:
    """Inside a transaction of one space."""

    def __init__(self, connection: Raw, space: str) -> None:
        self.connection = connection
        self.space = space
        self.author: Author | None = None
        self._now: float | None = None
        self._cursors = count()

    def _execute(self, sql: str, values: Sequence[Any]) -> psycopg.Cursor[Any]:
        cursor = self.connection.cursor(binary=True)
        return cursor.execute(_translated(sql), [_encoded(value) for value in values])

    def rows(self, sql: str, *values: Any) -> list[Row]:
        return [tuple(map(_decoded, row)) for row in self._execute(sql, values).fetchall()]

    def each(self, sql: str, *values: Any) -> Iterator[Row]:
        with self.connection.cursor(f"each{next(self._cursors)}") as cursor:
            given = [_encoded(value) for value in values]
            cursor.execute(_translated(sql), given, binary=True)
            while found := cursor.fetchmany(_FETCHED):
                yield from (tuple(map(_decoded, row)) for row in found)

    def run(self, sql: str, *values: Any) -> int:
        return self._execute(sql, values).rowcount

    def run_many(self, sql: str, rows: Sequence[Sequence[Any]], tail: str = "") -> None:
        for start in range(0, len(rows), _ROWS):
            some = rows[start : start + _ROWS]
            row = f"({', '.join('?' * len(some[0]))})"
            values = [value for each in some for value in each]
            self._execute(f"{sql} {', '.join([row] * len(some))} {tail}", values)

    def seconds(self) -> float:
        if self._now is None:
            sql = "SELECT extract(epoch FROM clock_timestamp())::double precision"
            ((self._now,),) = self.rows(sql)
        assert self._now is not None
        return self._now


def of_space(space: str) -> str:
    """Limits the transaction to the rows of this space, by row-level security."""
    name = literal.Literal(_encoded(space)).as_string(None)
    return f"SET LOCAL search_path = justmem; SET LOCAL justmem.space = {name}"


class Database:
    """A pool of connections and of threads that use them, for all spaces of a database."""

    def __init__(self, url: str, *, size: int = 8, attempts: int = ATTEMPTS) -> None:
        self.url = postgres_errors.checked(url)
        self.shown = postgres_errors.shown(url)
        self.owner = f"0.{secrets.token_hex(8)}"  # of all leases of this process
        self._size = size
        self._attempts = attempts
        self._pool: ConnectionPool[Raw] | None = None
        self._threads = Threads("justmem-postgres", size, self.shown)
        self._opening = Lock()
        self.closed = False

    async def run(self, job: Callable[[], T]) -> T:
        """In a thread. The first time, the tables are brought up to date."""
        if self.closed:
            raise StoreError(f"The store at {self.shown} is closed: open it again.")

        def ready() -> T:
            self._open()
            return job()

        return await self._threads.run(ready)

    def _open(self) -> None:
        with self._opening:
            if self._pool is None:
                with self.connection() as connection:
                    prepare(connection, self.shown)
                self._pool = ConnectionPool(
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
        """A connection outside the pool, for work outside a transaction: migrations, vacuum."""
        with (
            postgres_errors.translated(self.url),
            psycopg.connect(self.url, autocommit=True, connect_timeout=10) as connection,
        ):
            yield connection

    def transaction(self, begin: str, work: Callable[[Raw], T]) -> T:
        """Runs again from the start if the connection is lost, even during the commit."""
        pause = _FIRST_PAUSE
        with postgres_errors.translated(self.url):
            for left in range(self._attempts - 1, -1, -1):
                try:
                    with self._pooled() as connection:
                        return completed(connection, begin, work)
                except PoolTimeout:
                    raise StoreBusy(
                        f"PostgreSQL at {self.shown} gave no connection in {_PATIENCE:.0f} "
                        "seconds: check that the server runs and has connections to spare."
                    ) from None
                except psycopg.Error as error:
                    if not left or not (
                        postgres_errors.is_lost(error) or postgres_errors.is_undone(error)
                    ):
                        raise
                    if postgres_errors.is_lost(error) and self._pool is not None:
                        self._pool.check()
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
        raise AssertionError("unreachable")

    @contextmanager
    def _pooled(self) -> Iterator[Raw]:
        assert self._pool is not None, "a job runs in `run`"
        connection = self._pool.getconn()
        try:
            yield connection
        finally:
            self._pool.putconn(connection)

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


def completed(connection: Raw, begin: str, work: Callable[[Raw], T]) -> T:
    try:
        connection.execute(begin)
        done = work(connection)
        connection.execute("COMMIT")
        return done
    except BaseException:
        # The server rolls back if the connection is lost.
        if not connection.closed and connection.info.transaction_status:
            connection.execute("ROLLBACK")
        raise
