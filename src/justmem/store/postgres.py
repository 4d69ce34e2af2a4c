"""The PostgreSQL engine: all spaces in one database, kept apart by row-level security.

No extension, partition, trigger or function is needed, so that the schema also runs where tables
are distributed by their first column.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from itertools import count
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, TypeVar

import psycopg
from psycopg import sql as literal
from psycopg.errors import Diagnostic
from psycopg_pool import ConnectionPool, PoolTimeout

from justmem.domain import Session
from justmem.errors import InvalidSetting, NoSuchSpace, StoreBusy, StoreError, StoreTooNew
from justmem.ports import Author, Searched
from justmem.ports.traces import Traces
from justmem.runtime.forks import Origin
from justmem.store import erase, faults, reads, schema, writes
from justmem.store.engine import Connection, Row
from justmem.store.faults import OLDEST_SERVER
from justmem.store.store import LEASE, SqlStore

T = TypeVar("T")
Raw = psycopg.Connection[Any]
ATTEMPTS = 8
MOST_ATTEMPTS = 10  # of workers at a session; then it waits for `justmem retry`
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0  # seconds between attempts, doubling: 5 s in all
_PATIENCE = 10.0  # seconds to wait for a connection
_LIMITS = (
    "SET statement_timeout = '60s'; SET lock_timeout = '20s'; "
    "SET idle_in_transaction_session_timeout = '60s'"
)
_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
_OF_ALL = "SET LOCAL search_path = justmem; SET LOCAL justmem.everyone = 'on'"
_ROWS = 500  # in one INSERT
_FETCHED = 500  # rows at a time
_NO_BACKUP = (
    "A space in PostgreSQL is backed up with its database: use pg_dump. `justmem export` or "
    "`justmem copy` writes one space."
)
_LOOKED_AT = 50  # sessions that a worker chooses from
# PostgreSQL's text cannot hold NUL: it is written with "data link escape" before it.
_ESCAPE = "\x10"


# ---------------------------------------------------------------- connections


@lru_cache(1024)
def _translated(sql: str) -> str:
    return sql.replace("?", "%s")


def _given(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    text = str(value)
    if "\0" in text or _ESCAPE in text:
        text = text.replace(_ESCAPE, _ESCAPE + "1").replace("\0", _ESCAPE + "0")
    return text


def _found(value: Any) -> Any:
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
        return cursor.execute(_translated(sql), [_given(value) for value in values])

    def rows(self, sql: str, *values: Any) -> list[Row]:
        return [tuple(map(_found, row)) for row in self._execute(sql, values).fetchall()]

    def each(self, sql: str, *values: Any) -> Iterator[Row]:
        with self.connection.cursor(f"each{next(self._cursors)}") as cursor:
            given = [_given(value) for value in values]
            cursor.execute(_translated(sql), given, binary=True)
            while found := cursor.fetchmany(_FETCHED):
                yield from (tuple(map(_found, row)) for row in found)

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


def _of_space(space: str) -> str:
    """Row-level security shows the rows of this space alone, until the transaction ends."""
    name = literal.Literal(_given(space)).as_string(None)
    return f"SET LOCAL search_path = justmem; SET LOCAL justmem.space = {name}"


class Database:
    """A pool of connections and of threads that use them, for all spaces of a database."""

    def __init__(self, url: str, *, size: int = 8, attempts: int = ATTEMPTS) -> None:
        self.url = faults.checked(url)
        self.shown = faults.shown(url)
        self.owner = f"0.{secrets.token_hex(8)}"  # of all leases of this process
        self._size = size
        self._attempts = attempts
        self._pool: ConnectionPool[Raw] | None = None
        self._threads = ThreadPoolExecutor(size, "justmem-postgres")
        self._opening = Lock()
        self._closed = False
        self._origin = Origin()

    async def run(self, job: Callable[[], T]) -> T:
        """In a thread."""
        if self._closed:
            raise StoreError(f"The store at {self.shown} is closed: open it again.")
        self._origin.check()
        try:
            running = asyncio.get_running_loop().run_in_executor(self._threads, job)
        except RuntimeError as error:  # no more threads are started
            raise StoreError(
                f"The program ends, and {self.shown} is still in use: close the memory first."
            ) from error
        return await running

    @contextmanager
    def connection(self) -> Iterator[Raw]:
        """One of its own, for work that does not fit a transaction: migrations, vacuum."""
        with (
            faults.translated(self.url),
            psycopg.connect(self.url, autocommit=True, connect_timeout=10) as connection,
        ):
            yield connection

    def transaction(self, begin: str, work: Callable[[Raw], T]) -> T:
        """Done again from its start if the connection is lost, even while it commits."""
        pause = _FIRST_PAUSE
        with faults.translated(self.url):
            for left in range(self._attempts - 1, -1, -1):
                try:
                    with self._pooled() as connection:
                        return _completed(connection, begin, work)
                except PoolTimeout:
                    raise StoreBusy(
                        f"PostgreSQL at {self.shown} gave no connection in {_PATIENCE:.0f} "
                        "seconds: check that the server runs and has connections to spare."
                    ) from None
                except psycopg.Error as error:
                    if not left or not (faults.is_lost(error) or faults.is_undone(error)):
                        raise
                    if faults.is_lost(error) and self._pool is not None:
                        self._pool.check()
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
        raise AssertionError("unreachable")

    @contextmanager
    def _pooled(self) -> Iterator[Raw]:
        with self._opening:
            if self._pool is None:
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
        connection = self._pool.getconn()
        try:
            yield connection
        finally:
            self._pool.putconn(connection)

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._threads.shutdown()
        if self._pool is not None:
            self._pool.close()


def _limit(connection: Raw) -> None:
    connection.execute(_LIMITS)


def _completed(connection: Raw, begin: str, work: Callable[[Raw], T]) -> T:
    try:
        connection.execute(begin)
        done = work(connection)
        connection.execute("COMMIT")
        return done
    except BaseException:
        # A lost connection undoes it by itself.
        if not connection.closed and connection.info.transaction_status:
            connection.execute("ROLLBACK")
        raise


# ---------------------------------------------------------------- the engine


class PostgresEngine:
    """See `Engine`. `close`: the database is closed with it."""

    def __init__(self, database: Database, space: str, *, close: bool) -> None:
        self.database = database
        self.space = space
        self.owner = database.owner
        self._close = close

    async def read(self, work: Callable[[Connection], T]) -> T:
        begin = f"{_READ}; {_of_space(self.space)}"
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

        return await self._transaction(f"BEGIN; {_of_space(self.space)}", job)

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

    async def remains(self, traces: Traces) -> Searched:
        # Outside the pool: it is asked for after `erase` too, when that is closed.
        return await asyncio.to_thread(_remains, self.database, self.space, traces)

    async def erase(self) -> None:
        def work(db: Connection) -> None:
            for table in ("marks", *schema.TABLES[::-1]):
                db.run(f"DELETE FROM {table} WHERE space = ?", self.space)

        await self.write(work)
        await self.close()

    async def backup(self, target: Path) -> None:
        raise InvalidSetting(_NO_BACKUP)

    async def close(self) -> None:
        if self._close:
            await self.database.close()


# ---------------------------------------------------------------- opening


async def open_store(url: str, space: str, *, create: bool = True) -> SqlStore:
    """With a pool of its own. To open many spaces of one database, share a `Database`."""
    database = await prepared(url)
    try:
        return await open_in(database, space, create=create, close=True)
    except BaseException:
        await database.close()
        raise


async def prepared(url: str, *, size: int = 8) -> Database:
    """A database with tables that are up to date."""
    database = Database(url, size=size)
    try:
        await database.run(lambda: _prepare(database))
    except BaseException:
        await database.close()
        raise
    return database


async def open_in(
    database: Database, space: str, *, create: bool = True, close: bool = False
) -> SqlStore:
    """`close`: the database is closed with the store."""
    check_name(space)

    def find(connection: Raw) -> bool:
        db = PostgresConnection(connection, space)
        return bool(db.rows("SELECT 1 FROM spaces WHERE space = ?", space))

    def make(connection: Raw) -> None:
        writes.create(PostgresConnection(connection, space))

    def job() -> bool:
        there = database.transaction(f"{_READ}; {_of_space(space)}", find)
        if not there and create:
            database.transaction(f"BEGIN; {_of_space(space)}", make)
        return there or create

    if not await database.run(job):
        raise NoSuchSpace(f"There is no space {space!r} in {database.shown}.")
    return SqlStore(PostgresEngine(database, space, close=close))


def check_name(space: str) -> None:
    if not space.strip():
        raise InvalidSetting("The name of a space is empty: give it a name such as 'alice'.")
    try:
        space.encode()
    except UnicodeEncodeError:
        raise InvalidSetting("The name of a space is not valid Unicode: choose another.") from None


async def spaces(database: Database) -> list[str]:
    """The names of all spaces, in order."""

    def work(connection: Raw) -> list[str]:
        return [
            name for (name,) in PostgresConnection(connection, "").rows("SELECT space FROM spaces")
        ]

    found = await database.run(lambda: database.transaction(f"{_READ}; {_OF_ALL}", work))
    return sorted(found)


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
    "sessions": ("id", "reason"),
    "turns": ("session", "speaker", "text", "key"),
    "cards": ("session", "subject", "fact", "event_date"),
    "quarantine": ("session", "subject", "fact", "reason"),
    "blocks": ("session", "postings", "vectors"),
    "queue": ("session",),
    "log": ("entry",),
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


# ---------------------------------------------------------------- workers


class Job(NamedTuple):
    """A session that this worker has claimed."""

    space: str
    session: Session


async def take(
    database: Database,
    count: int = 1,
    *,
    lease: float = LEASE,
    busy: Sequence[str] = (),
    full: Sequence[str] = (),
) -> list[Job]:
    """Claims up to `count` sessions, those that wait longest first. Later come those of `busy`
    spaces, and last those that were tried before: one may have ended the worker that had it.
    Nothing is taken of `full` spaces."""

    def waiting(connection: Raw) -> list[Row]:
        db = PostgresConnection(connection, "")
        leave_out = f"AND space NOT IN ({', '.join('?' * len(full))})" if full else ""
        return db.rows(
            "SELECT space, session, attempts, due FROM queue WHERE due <= ? AND attempts < ? "
            f"{leave_out} ORDER BY attempts > 0, due LIMIT {_LOOKED_AT}",
            *(db.seconds(), MOST_ATTEMPTS, *full),
        )

    def job() -> list[Job]:
        found = database.transaction(f"{_READ}; {_OF_ALL}", waiting)
        found.sort(key=lambda row: (row[2] > 0, row[0] in busy, row[3]))
        jobs: list[Job] = []
        for space, session_id, *_ in found:
            if len(jobs) < count and (one := _taken(database, space, session_id, lease)):
                jobs.append(one)
        return jobs

    return await database.run(job)


def _taken(database: Database, space: str, session_id: str, lease: float) -> Job | None:
    """None if another worker was quicker."""

    def work(connection: Raw) -> Job | None:
        db = PostgresConnection(connection, space)
        if not db.rows(
            "SELECT 1 FROM queue WHERE space = ? AND session = ? AND due <= ? AND attempts < ? "
            "FOR UPDATE SKIP LOCKED",
            *(space, session_id, db.seconds(), MOST_ATTEMPTS),
        ):
            return None
        db.run(
            "UPDATE queue SET owner = ?, attempts = attempts + 1, due = ? "
            "WHERE space = ? AND session = ?",
            *(database.owner, db.seconds() + lease, space, session_id),
        )
        text = reads.texts(db, [session_id], newest=True).get(session_id)
        return None if text is None else Job(space, text)

    return database.transaction(f"BEGIN; {_of_space(space)}", work)


async def waiting_count(database: Database) -> int:
    """How many sessions wait, or are being worked on."""

    def work(connection: Raw) -> int:
        return int(PostgresConnection(connection, "").rows("SELECT count(*) FROM queue")[0][0])

    return await database.run(lambda: database.transaction(f"{_READ}; {_OF_ALL}", work))


# ---------------------------------------------------------------- vacuum

_TRIES, _PAUSE = 30, 0.2  # while someone's transaction still sees the deleted rows
_LOCK_TIMEOUT = "20s"
_SAMPLES = """
    SELECT coalesce(most_common_vals::text, '') || ' ' || coalesce(histogram_bounds::text, '')
        || ' ' || coalesce(most_common_elems::text, '') FROM pg_stats WHERE schemaname = 'justmem'
"""
# Whoever has the table locked, or else the oldest snapshot.
_OLDEST = """
    SELECT a.pid, date_trunc('second', clock_timestamp() - a.xact_start)::text
    FROM pg_stat_activity a LEFT JOIN pg_locks l
        ON l.pid = a.pid AND l.granted AND l.relation = %s::regclass
    WHERE a.pid <> pg_backend_pid() AND (l.pid IS NOT NULL OR a.backend_xmin IS NOT NULL
        AND (a.datname IS NULL OR a.datname = current_database()))
    ORDER BY l.pid IS NULL, age(a.backend_xmin) DESC NULLS LAST LIMIT 1
"""


class _Notice(NamedTuple):
    severity: str | None
    message: str | None
    detail: str | None


async def sweep(database: Database, *, rewrite: bool) -> None:
    """VACUUM for all tables. It makes the room of deleted rows free. `rewrite` copies the tables
    without them instead, so that no byte stays; others wait meanwhile."""
    await database.run(lambda: _vacuum_all(database, rewrite=rewrite))


def _vacuum_all(database: Database, *, rewrite: bool) -> None:
    with database.connection() as connection:
        connection.execute(f"SET lock_timeout = '{_LOCK_TIMEOUT}'")
        for table in schema.TABLES:
            _vacuum(connection, table, rewrite=rewrite)


def _vacuum(connection: Raw, table: str, *, rewrite: bool) -> None:
    """The report of a rewrite begins its detail with the number of dead rows that had to be kept,
    in any language. A server that sends no report did nothing."""
    options = "FULL, VERBOSE" if rewrite else "VERBOSE"
    for left in range(_TRIES - 1, -1, -1):
        with _noticed(connection) as notices:
            try:
                connection.execute(f"VACUUM ({options}) justmem.{table}")
            except psycopg.errors.LockNotAvailable:
                break
        report = [notice for notice in notices if notice.severity == "INFO"]
        dead = [int(number[0]) for n in report if (number := re.search(r"\d+", n.detail or ""))]
        if not (dead if rewrite else report):
            raise _not_vacuumed(connection, table, notices)
        if not rewrite or not any(dead):
            return
        if left:
            time.sleep(_PAUSE)
    raise StoreBusy(
        f"A transaction that began earlier still sees deleted rows of justmem.{table}, or keeps "
        f"the table locked{_whose(connection, table)}: end it, and sweep again with "
        "`justmem sweep --rewrite`. Prepared transactions, replication slots and standbys "
        "with feedback keep rows too."
    )


def _not_vacuumed(connection: Raw, table: str, notices: Sequence[_Notice]) -> StoreError:
    said = next((n.message for n in notices if n.severity == "WARNING"), "it did not say why")
    return StoreError(
        f"PostgreSQL did not vacuum justmem.{table} ({said}): use the role that owns the tables, "
        "or let the owner run GRANT MAINTAIN ON ALL TABLES IN SCHEMA justmem "
        f"TO {connection.info.user} (PostgreSQL 17 or later)."
    )


def _whose(connection: Raw, table: str) -> str:
    """The connection that most likely keeps the rows, as far as this role may see it."""
    found = connection.execute(_OLDEST, [f"justmem.{table}"]).fetchone()
    if found is None:
        return ""
    pid, age = found
    return f" (pid {pid})" if age is None else f" (pid {pid}, open for {age})"


@contextmanager
def _noticed(connection: Raw) -> Iterator[list[_Notice]]:
    """What the server says meanwhile. psycopg empties a notice when its handler returns, so its
    parts are copied inside the handler."""
    notices: list[_Notice] = []

    def note(told: Diagnostic) -> None:
        notices.append(
            _Notice(told.severity_nonlocalized, told.message_primary, told.message_detail)
        )

    connection.add_notice_handler(note)
    try:
        yield notices
    finally:
        connection.remove_notice_handler(note)


def _remains(database: Database, space: str, traces: Traces) -> Searched:
    """Files of the server are out of reach here: what is checked are its tables, after they were
    written anew, and the samples that its planner keeps. Its write-ahead log keeps old pages until
    it is recycled, and its backups as long as they are kept (see docs/forgetting.md)."""
    try:
        _vacuum_all(database, rewrite=True)
    except StoreError as error:
        raise type(error)(
            "It is forgotten and no query finds it, but its bytes may still be in the tables' "
            f"files, so there is no certificate. {error}"
        ) from error
    machinery = traces.weak(traces.found("\n".join(schema.MIGRATIONS).encode()))

    def look(connection: Raw) -> Searched:
        db = PostgresConnection(connection, space)
        tables = (
            (table, db.each(f"SELECT * FROM {table} WHERE space = ?", space))
            for table in schema.TABLES
        )
        found, ours = erase.in_tables(tables, traces, machinery)
        samples = "\n".join(text for (text,) in db.rows(_SAMPLES)).encode()
        left = traces.without(ours).strong().found(samples)
        return found + Searched(
            tables=("pg_stats",),
            bytes=len(samples),
            remains=("the planner's samples (pg_stats)",) if left else (),
        )

    with database.connection() as connection:
        return _completed(connection, f"{_READ}; {_of_space(space)}", look)
