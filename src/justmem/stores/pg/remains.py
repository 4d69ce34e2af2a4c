"""Having the server drop the bytes of what was deleted, and looking whether anything is left.

Files of the server are out of reach here: what is checked are its tables, after they were written
anew, and the samples that its planner keeps. Its write-ahead log keeps old pages until it is
recycled, and its backups as long as they are kept (see docs/forgetting.md).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import numpy as np
from psycopg.errors import Diagnostic

from justmem.errors import StoreBusy, StoreError
from justmem.ports import Searched
from justmem.stores.pg import schema
from justmem.stores.pg.database import Connection, Database
from justmem.stores.pg.schema import PROMOTED, TABLES, Names
from justmem.traces import Search, Traces

_TRIES, _PAUSE = 30, 0.2  # while someone's transaction still sees the deleted rows
# Where words are kept. A single word that stands in any other table is part of its machinery.
_WORDS = (
    "spaces", "sessions", "texts", "incoming", "cards", "passages", "card_words", "passage_words",
    "quarantine",
)  # fmt: skip
_SAMPLES = """
    SELECT coalesce(most_common_vals::text, '') || ' ' || coalesce(histogram_bounds::text, '')
        || ' ' || coalesce(most_common_elems::text, '') FROM pg_stats WHERE schemaname = 'justmem'
"""


async def sweep(database: Database, names: Names, *, rewrite: bool) -> None:
    """VACUUM for the tables that hold this space. It makes deleted rows unreachable and their room
    free; `rewrite` copies the tables without them instead, so that no byte stays, and keeps the
    space's neighbours waiting meanwhile."""
    async with database.connection() as connection:
        await connection.execute("SET lock_timeout = '20s'")
        for table in await _tables(connection, names):
            await _vacuum(connection, names, table, rewrite=rewrite)


async def _tables(connection: Connection, names: Names) -> list[str]:
    """With the ending of its partition, without the schema."""
    own = [f"{table}{names.part}" for table in TABLES]
    for table in PROMOTED:
        promoted = names.promoted(table)
        found = await connection.execute("SELECT to_regclass(%s)", [promoted])
        if (row := await found.fetchone()) and row[0] is not None:
            own.append(promoted.removeprefix("justmem."))
    return own


async def _vacuum(connection: Connection, names: Names, table: str, *, rewrite: bool) -> None:
    for left in range(_TRIES - 1, -1, -1):
        async with _told(connection) as told:
            full = "(FULL, VERBOSE)" if rewrite else ""
            await connection.execute(f"VACUUM {full} justmem.{table}")
        if any(each.severity_nonlocalized == "WARNING" for each in told):
            raise StoreError(
                f"PostgreSQL did not vacuum justmem.{table}: use the role that owns the tables."
            )
        if not rewrite or not any(_dead(each) for each in told):
            return
        if left:
            await asyncio.sleep(_PAUSE)
    raise StoreBusy(
        f"A transaction that began earlier still sees deleted rows of justmem.{table}: end it, "
        "and run `justmem sweep --rewrite`."
    )


def _dead(told: Diagnostic) -> int:
    """Rows that are deleted and had to be kept: the first number of the detail, in any language."""
    found = re.search(r"\d+", told.message_detail or "")
    return int(found[0]) if found else 0


@asynccontextmanager
async def _told(connection: Connection) -> AsyncIterator[list[Diagnostic]]:
    told: list[Diagnostic] = []
    connection.add_notice_handler(told.append)
    try:
        yield told
    finally:
        connection.remove_notice_handler(told.append)


# ---------------------------------------------------------------- looking


async def remains(database: Database, names: Names, traces: Traces) -> Searched:
    await sweep(database, names, rewrite=True)
    machinery = traces.weak(traces.found("\n".join(schema.migrations()).encode()))
    left = traces.without(machinery)
    total = 0
    places: list[str] = []
    async with database.connection() as connection:
        tables = await _tables(connection, names)
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
