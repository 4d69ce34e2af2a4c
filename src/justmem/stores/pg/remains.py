"""Having the server drop the bytes of what was deleted, and looking whether anything is left.

Files of the server are out of reach here: what is checked are its tables, after they were written
anew, and the samples that its planner keeps. Its write-ahead log keeps old pages until it is
recycled, and its backups as long as they are kept (see docs/forgetting.md).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import numpy as np
import psycopg
from psycopg.errors import Diagnostic

from justmem.errors import StoreBusy, StoreError
from justmem.ports import Searched
from justmem.stores.pg import schema
from justmem.stores.pg.database import Connection, Database
from justmem.stores.pg.schema import TABLES, Names
from justmem.traces import Search, Traces

_TRIES, _PAUSE = 30, 0.2  # while someone's transaction still sees the deleted rows
_LOCK_TIMEOUT = "20s"
# Where words are kept. A single word that stands in any other table is part of its machinery.
_WORDS = (
    "spaces", "sessions", "texts", "incoming", "cards", "passages", "card_words", "passage_words",
    "quarantine",
)  # fmt: skip
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


async def sweep(database: Database, names: Names, *, rewrite: bool) -> None:
    """VACUUM for the tables that hold this space. It makes deleted rows unreachable and their room
    free; `rewrite` copies the tables without them instead, so that no byte stays, and keeps the
    space's neighbours waiting meanwhile."""
    async with database.connection() as connection:
        await connection.execute(f"SET lock_timeout = '{_LOCK_TIMEOUT}'")
        for table in (f"{table}{names.part}" for table in TABLES):
            await _vacuum(connection, table, rewrite=rewrite)


class _Notice(NamedTuple):
    severity: str | None
    message: str | None
    detail: str | None


async def _vacuum(connection: Connection, table: str, *, rewrite: bool) -> None:
    """The report of a rewrite begins its detail with the number of dead rows that had to be kept,
    in any language. A server that sends no report did nothing."""
    options = "FULL, VERBOSE" if rewrite else "VERBOSE"
    for left in range(_TRIES - 1, -1, -1):
        async with _noticed(connection) as notices:
            try:
                await connection.execute(f"VACUUM ({options}) justmem.{table}")
            except psycopg.errors.LockNotAvailable:
                break
        report = [notice for notice in notices if notice.severity == "INFO"]
        dead = [int(number[0]) for n in report if (number := re.search(r"\d+", n.detail or ""))]
        if not (dead if rewrite else report):
            raise _not_vacuumed(connection, table, notices)
        if not rewrite or not any(dead):
            return
        if left:
            await asyncio.sleep(_PAUSE)
    raise StoreBusy(
        f"A transaction that began earlier still sees deleted rows of justmem.{table}, or keeps "
        f"the table locked{await _whose(connection, table)}: end it, and sweep again with "
        "`justmem sweep --rewrite`. Prepared transactions, replication slots and standbys "
        "with feedback keep rows too."
    )


def _not_vacuumed(connection: Connection, table: str, notices: Sequence[_Notice]) -> StoreError:
    said = next((n.message for n in notices if n.severity == "WARNING"), "it did not say why")
    return StoreError(
        f"PostgreSQL did not vacuum justmem.{table} ({said}): use the role that owns the tables, "
        "or let the owner run GRANT MAINTAIN ON ALL TABLES IN SCHEMA justmem "
        f"TO {connection.info.user} (PostgreSQL 17 or later)."
    )


async def _whose(connection: Connection, table: str) -> str:
    """The connection that most likely keeps the rows, as far as this role may see it."""
    found = await (await connection.execute(_OLDEST, [f"justmem.{table}"])).fetchone()
    if found is None:
        return ""
    pid, age = found
    return f" (pid {pid})" if age is None else f" (pid {pid}, open for {age})"


@asynccontextmanager
async def _noticed(connection: Connection) -> AsyncIterator[list[_Notice]]:
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


# ---------------------------------------------------------------- looking


async def remains(database: Database, names: Names, traces: Traces) -> Searched:
    try:
        await sweep(database, names, rewrite=True)
    except StoreError as error:
        raise type(error)(
            "It is forgotten and no query finds it, but its bytes may still be in the tables' "
            f"files, so there is no certificate. {error}"
        ) from error
    machinery = traces.weak(traces.found("\n".join(schema.migrations()).encode()))
    left = traces.without(machinery)
    total = 0
    places: list[str] = []
    async with database.connection() as connection:
        tables = [f"{table}{names.part}" for table in TABLES]
        async with connection.transaction():
            own = [str(names.space)]
            await connection.execute("SELECT set_config('justmem.space', %s, true)", own)
            for table in tables:
                holds_words = table.removesuffix(names.part) in _WORDS
                hits, size = await _in_table(
                    connection, table, names.space, left if holds_words else left.strong()
                )
                total += size
                places += [f"table {table}"] if hits else []
            samples = await (await connection.execute(_SAMPLES)).fetchall()
    told = "\n".join(text for (text,) in samples).encode()
    if left.strong().found(told):
        places.append("the planner's samples (pg_stats)")
    return Searched(tables=(*tables, "pg_stats"), bytes=total + len(told), remains=tuple(places))


async def _in_table(
    connection: Connection, table: str, space: int, traces: Traces
) -> tuple[set[int], int]:
    search, size = Search(traces), 0
    async with connection.cursor("remains") as cursor:
        await cursor.execute(
            f"SELECT * FROM justmem.{table} WHERE space = %s",
            [space],
            binary=True,
        )
        while rows := await cursor.fetchmany(2_000):
            data = b"\n".join(_bytes(value) for row in rows for value in row)
            search.look(data)
            size += len(data)
    return search.hits, size


def _bytes(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode()
    # A vector: its size, and then its numbers the other way round than here.
    return np.frombuffer(value[4:], ">f4").astype("<f4").tobytes() if _is_vector(value) else b""


def _is_vector(value: Any) -> bool:
    return isinstance(value, bytes) and len(value) > 4 and not len(value) % 4
