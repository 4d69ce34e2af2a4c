"""A large space gets partitions of its own for its vectors, with an HNSW index each.

The rows stay where they are and are copied: whoever has the space open goes on without noticing,
nothing is locked for longer than one batch takes, and going back is dropping two tables.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, NamedTuple

from justmem.errors import NotInMemory, StoreError
from justmem.ports import Index, View
from justmem.stores.pg.database import Connection, Database, Transaction
from justmem.stores.pg.schema import PROMOTED, Names, secured, unsampled
from justmem.stores.pg.wire import Statement
from justmem.stores.pg.writes import one_space

INDEXES: tuple[Index, ...] = ("cards", "passages")
_BATCH = 5_000
_LEAST_SEARCH = 200  # rows that HNSW keeps in mind while it looks, at least
_NOT, _WRITTEN, SEARCHED = 0, 1, 2
_WIDEST = 4_000  # dimensions that pgvector can index, as half-precision numbers


class Progress(NamedTuple):
    """What has been done of a promotion."""

    table: Index
    copied: int
    total: int


def near_index(names: Names, index: Index, dim: int) -> str:
    return f"{names.promoted(index).removeprefix('justmem.')}_{dim}"


async def promote(database: Database, names: Names) -> AsyncIterator[Progress]:
    """Can be run again after an interruption, and takes up where it was."""
    (found,) = await database.read(
        names.space,
        Statement(f"SELECT dim FROM {names.spaces} WHERE space = $1", [names.space]),
    )
    (dim,) = one_space(found.rows)
    if not dim:
        raise NotInMemory("This space holds no vectors yet: there is nothing to promote.")
    if dim > _WIDEST:
        raise StoreError(f"pgvector indexes up to {_WIDEST} dimensions, these vectors have {dim}.")
    async with database.connection() as connection:
        for index in INDEXES:
            await _create(connection, names, index)
            await _drop_stale(connection, names, index, dim)
        await _set(database, names, _WRITTEN)
        for index in INDEXES:
            async for progress in _copied(database, names, index):
                yield progress
            await _indexed(connection, names, index, dim)
    await _set(database, names, SEARCHED)


async def demote(database: Database, names: Names) -> None:
    await _set(database, names, _NOT)
    async with database.connection() as connection:
        for index in INDEXES:
            await connection.execute(f"DROP TABLE IF EXISTS {names.promoted(index)}")


async def _set(database: Database, names: Names, promoted: int) -> None:
    async def work(transaction: Transaction) -> None:
        await transaction.last(
            Statement(
                f"UPDATE {names.spaces} SET promoted = $2 WHERE space = $1",
                [names.space, promoted],
            )
        )

    await database.write(names.space, work)


async def _create(connection: Connection, names: Names, index: Index) -> None:
    table, parent = names.promoted(index), f"justmem.{PROMOTED[index]}"
    found = await (await connection.execute("SELECT to_regclass(%s)", [table])).fetchone()
    if found is None or found[0] is None:
        async with connection.transaction():
            await connection.execute(
                f"CREATE TABLE {table} PARTITION OF {parent} FOR VALUES IN ('{names.space}') "
                "WITH (toast_tuple_target = 8160)"
            )
            await connection.execute("\n".join([*secured(table), *unsampled(table, ["vector"])]))


async def _drop_stale(connection: Connection, names: Names, index: Index, dim: int) -> None:
    """Indexes of an earlier embedder, and those whose making was interrupted."""
    found = await (
        await connection.execute(
            "SELECT c.relname, i.indisvalid FROM pg_index i "
            "JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am a ON a.oid = c.relam "
            "WHERE i.indrelid = to_regclass(%s) AND a.amname = 'hnsw'",
            [names.promoted(index)],
        )
    ).fetchall()
    for name, valid in found:
        if name != near_index(names, index, dim) or not valid:
            await connection.execute(f"DROP INDEX justmem.{name}")


async def _copied(database: Database, names: Names, index: Index) -> AsyncIterator[Progress]:
    """In batches, each with the space held as any writer holds it: a row that is being forgotten
    cannot slip through."""
    table, done, last = names(index), 0, 0
    while last is not None:

        async def work(transaction: Transaction, after: int = last) -> tuple[Any, ...]:
            held, copied = await transaction.last(
                Statement(
                    f"SELECT {index} FROM {names.spaces} WHERE space = $1 FOR UPDATE",
                    [names.space],
                ),
                Statement(
                    f"WITH batch AS (SELECT space, key, day, vector FROM {table} WHERE space = $1 "
                    "AND key > $2 AND vector IS NOT NULL ORDER BY key LIMIT $3), copied AS "
                    f"(INSERT INTO {names.promoted(index)} (space, key, day, vector) "
                    "SELECT * FROM batch ON CONFLICT DO NOTHING) "
                    "SELECT count(*), max(key) FROM batch",
                    [names.space, after, _BATCH],
                ),
            )
            return (*one_space(held.rows), *copied.rows[0])

        total, count, last = await database.write(names.space, work)
        done += count
        yield Progress(index, done, total)


async def _indexed(connection: Connection, names: Names, index: Index, dim: int) -> None:
    """CONCURRENTLY: the space is read and written meanwhile. Half-precision numbers, because the
    graph then takes half the memory; candidates are compared again with the full vectors."""
    await connection.execute(f"ANALYZE {names.promoted(index)}")
    await connection.execute(
        f"CREATE INDEX CONCURRENTLY IF NOT EXISTS {near_index(names, index, dim)} "
        f"ON {names.promoted(index)} USING hnsw ((vector::halfvec({dim})) halfvec_ip_ops)"
    )


# ---------------------------------------------------------------- searching


def approximate(names: Names, index: Index, view: View, count: int, last: int) -> list[Statement]:
    """The nearest by the index, twice as many as asked for, then the best of them exactly. The
    limits are written out: a plan that is kept must know that few rows are wanted."""
    dim = len(view.vector)
    wide = max(_LEAST_SEARCH, 2 * count)
    half = f"halfvec({dim})"
    return [
        Statement(
            "SELECT set_config('hnsw.ef_search', $1, true), "
            "set_config('hnsw.iterative_scan', 'strict_order', true)",
            [str(min(wide, 1000))],
        ),
        Statement(
            "SELECT key, -(vector <#> $2::vector) AS score FROM (SELECT key, vector FROM "
            f"{names.promoted(index)} WHERE space = $1 AND day <= $3 "
            f"ORDER BY vector::{half} <#> $2::vector::{half} LIMIT {wide}) near "
            f"ORDER BY 2 DESC, key LIMIT {int(count)}",
            [names.space, view.vector, last],
        ),
    ]
