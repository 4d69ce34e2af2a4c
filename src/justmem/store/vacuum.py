"""Vacuum: removes the bytes of deleted rows from PostgreSQL, and looks for what is left."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import NamedTuple

import psycopg
from psycopg.errors import Diagnostic

from justmem.errors import StoreBusy, StoreError
from justmem.ports import Searched
from justmem.store import erase, schema
from justmem.store.pool import READ, Database, PostgresConnection, completed, of_space
from justmem.store.postgres_schema import Raw

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


def remains(database: Database, space: str, pieces: Collection[bytes]) -> Searched:
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

    def look(connection: Raw) -> Searched:
        db = PostgresConnection(connection, space)
        tables = (
            (table, db.each(f"SELECT * FROM {table} WHERE space = ?", space))
            for table in schema.TABLES
        )
        return erase.in_tables(chain(tables, [("pg_stats", db.each(_SAMPLES))]), pieces)

    with database.connection() as connection:
        return completed(connection, f"{READ}; {of_space(space)}", look)
