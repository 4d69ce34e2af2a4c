"""A database: its pool of connections, and transactions that survive a lost connection."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import psycopg
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from justmem.errors import StoreBusy, StoreError
from justmem.forks import Origin
from justmem.stores.pg import faults
from justmem.stores.pg.wire import Outcome, Statement, Wire

T = TypeVar("T")
Connection = psycopg.AsyncConnection[Any]

ATTEMPTS = 8
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0  # seconds between attempts, doubling: 5 s in all
_PATIENCE = 10.0  # seconds to wait for a connection
_LIMITS = (
    "SET statement_timeout = '60s'; SET lock_timeout = '20s'; "
    "SET idle_in_transaction_session_timeout = '60s'"
)

_BEGIN = Statement("BEGIN")
_BEGIN_READING = Statement("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
_COMMIT = Statement("COMMIT")
_ROLLBACK = Statement("ROLLBACK")


def of_space(space: int) -> Statement:
    """Row-level security shows the rows of this space alone, until the transaction ends."""
    return Statement("SELECT set_config('justmem.space', $1, true)", [str(space)])


OF_ALL = Statement("SELECT set_config('justmem.all', 'on', true)")


class Transaction:
    """Statements that happen together. `run` returns as soon as they ran; `last` commits too."""

    def __init__(self, wire: Wire, *before: Statement) -> None:
        self._wire = wire
        self._before = before
        self._begun = False
        self.committing = False

    async def run(self, *statements: Statement) -> list[Outcome]:
        if self._begun:
            return await self._wire.run(*statements)
        self._begun = True
        found = await self._wire.run(_BEGIN, *self._before, *statements)
        return found[1 + len(self._before) :]

    async def last(self, *statements: Statement) -> list[Outcome]:
        self.committing = True
        found = await self.run(*statements, _COMMIT)
        self._begun = False
        return found[:-1]

    async def commit(self) -> None:
        if self._begun:
            await self.last()

    async def undo(self) -> None:
        if self._begun and not self._wire.connection.closed and not self._wire.idle:
            await self._wire.run(_ROLLBACK)


class Database:
    """Made anywhere, it connects in the event loop that first uses it."""

    def __init__(self, url: str, *, size: int = 8, attempts: int = ATTEMPTS) -> None:
        self.url, self.language = faults.checked(url)
        self.shown = faults.shown(self.url)
        self.owner = secrets.token_hex(8)  # tells our claims from those of other processes
        self._size = size
        self._attempts = attempts
        self._pool: AsyncConnectionPool[Connection] | None = None
        self._origin: Origin | None = None  # of the pool
        self._opening = asyncio.Lock()
        self._wires: WeakKeyDictionary[Connection, Wire] = WeakKeyDictionary()
        self._closed = False

    # ------------------------------------------------------------ transactions

    async def read(self, space: int, *statements: Statement) -> list[Outcome]:
        """All in one round trip; more than one of them see the same moment."""
        scoped = (of_space(space), *statements)
        if len(statements) == 1:
            return (await self._retried(lambda wire: wire.run(*scoped)))[1:]
        moment = (_BEGIN_READING, *scoped, _COMMIT)
        return (await self._retried(lambda wire: wire.run(*moment)))[2:-1]

    async def read_all(self, statement: Statement) -> Outcome:
        """Names and numbers of all spaces; words are never shown this way."""
        return (await self._retried(lambda wire: wire.run(OF_ALL, statement)))[1]

    async def write(self, space: int, work: Callable[[Transaction], Awaitable[T]]) -> T:
        """Done again from its start if the connection is lost, even while it commits: so `work`
        must come to the same when it is done twice."""

        async def attempt(wire: Wire) -> T:
            return await _completed(Transaction(wire, of_space(space)), work)

        return await self._retried(attempt)

    async def write_once(
        self, space: int, table: str, work: Callable[[Transaction], Awaitable[T]]
    ) -> T:
        """For work that must not be done twice: it leaves a mark in `table` with its commit. When
        the connection is lost while it commits, the mark tells whether it happened."""
        mark = Statement(
            f"INSERT INTO {table} (space, id) VALUES ($1, $2)", [space, secrets.token_hex(16)]
        )
        swept = Statement(
            f"DELETE FROM {table} WHERE space = $1 AND at < now() - interval '1 hour'", [space]
        )
        results: list[T] = []

        async def marked(transaction: Transaction) -> T:
            await transaction.run(mark, swept)
            results.append(await work(transaction))
            return results[-1]

        async def attempt(wire: Wire) -> T:
            return await _completed(Transaction(wire, of_space(space)), marked)

        try:
            return await self._retried(attempt)
        except StoreError as error:
            if results and _is_mark(error.__cause__, table):
                return results[-1]  # the first attempt had happened after all
            raise

    async def write_all(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
        async def attempt(wire: Wire) -> T:
            return await _completed(Transaction(wire, OF_ALL), work)

        return await self._retried(attempt)

    # ------------------------------------------------------------ connections

    async def _retried(self, work: Callable[[Wire], Awaitable[T]]) -> T:
        pause = _FIRST_PAUSE
        before = _cancellations()
        with faults.translated(self.url):
            for left in range(self._attempts - 1, -1, -1):
                try:
                    async with self._wire() as wire:
                        await _heed(before)
                        return await work(wire)
                except PoolTimeout:
                    raise StoreBusy(
                        f"PostgreSQL at {self.shown} gave no connection in {_PATIENCE:.0f} "
                        "seconds: check that the server runs and has connections to spare."
                    ) from None
                except psycopg.Error as error:
                    if not left or not (faults.is_lost(error) or faults.is_undone(error)):
                        raise
                    if faults.is_lost(error) and self._pool is not None:
                        await self._pool.check()
                        await _heed(before)
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
        raise AssertionError("unreachable")

    @asynccontextmanager
    async def _wire(self) -> AsyncIterator[Wire]:
        pool = await self._opened()
        connection = await pool.getconn()
        try:
            wire = self._wires.get(connection)
            if wire is None:
                wire = self._wires[connection] = Wire(connection, await _vector_type(connection))
            yield wire
        finally:
            await pool.putconn(connection)

    async def _opened(self) -> AsyncConnectionPool[Connection]:
        if self._closed:
            raise StoreError(f"The store at {self.shown} is closed: open it again.")
        if self._origin is not None:
            self._origin.check()
        if self._pool is None:
            async with self._opening:
                if self._pool is None:
                    pool: AsyncConnectionPool[Connection] = AsyncConnectionPool(
                        self.url,
                        kwargs={"autocommit": True, "prepare_threshold": None},
                        min_size=1,
                        max_size=self._size,
                        timeout=_PATIENCE,
                        reconnect_timeout=30.0,
                        configure=_limited,
                        open=False,
                    )
                    await pool.open()
                    self._pool, self._origin = pool, Origin()
        return self._pool

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """One of its own, for work that does not fit a transaction: migrations, vacuum."""
        with faults.translated(self.url):
            connection = await psycopg.AsyncConnection.connect(
                self.url, autocommit=True, connect_timeout=10
            )
            async with connection:
                yield connection

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            if self._pool is not None:
                await self._pool.close()


def _cancellations() -> int:
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


async def _heed(before: int) -> None:
    """psycopg waits by `asyncio.wait_for`, which in Python 3.11 swallows a cancellation that comes
    together with what it waits for: the task would go on as if nobody had stopped it."""
    if _cancellations() > before:
        await asyncio.sleep(0)  # where anyio gave it, anyio gives it again, marked as its own
        raise asyncio.CancelledError


async def _completed(transaction: Transaction, work: Callable[[Transaction], Awaitable[T]]) -> T:
    try:
        result = await work(transaction)
        await transaction.commit()
        return result
    except BaseException:
        with suppress(psycopg.Error):  # a lost connection undoes it by itself
            await transaction.undo()
        raise


def _is_mark(error: BaseException | None, table: str) -> bool:
    return isinstance(error, psycopg.errors.UniqueViolation) and table.endswith(
        str(error.diag.table_name)
    )


async def _limited(connection: Connection) -> None:
    await connection.execute(_LIMITS)


async def _vector_type(connection: Connection) -> int:
    found = await (await connection.execute("SELECT to_regtype('vector')::oid::bigint")).fetchone()
    return int(found[0]) if found and found[0] is not None else 0
