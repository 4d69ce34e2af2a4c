"""Sessions waiting for their cards, taken by one worker each.

A claim is a lease: it ends by itself when its holder dies, and the session is taken by another.
All times are the server's, so it does not matter what the workers' clocks show.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple

from justmem.domain import Session
from justmem.errors import StoreError
from justmem.stores.pg import rows
from justmem.stores.pg.database import Database, Transaction
from justmem.stores.pg.encode import plain
from justmem.stores.pg.schema import Names
from justmem.stores.pg.wire import Statement

LEASE = 60.0  # seconds
MOST_ATTEMPTS = 10  # then it waits for `justmem retry`


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

    async def work(transaction: Transaction) -> list[tuple[int, int]]:
        (found,) = await transaction.last(
            Statement(
                "UPDATE justmem.queue q SET owner = $1, attempts = attempts + 1, "
                "due = now() + $2 * interval '1 second' FROM (SELECT space, session "
                "FROM justmem.queue w WHERE due <= now() AND attempts < $3 AND NOT EXISTS "
                "(SELECT 1 FROM justmem.spaces f WHERE f.space = w.space AND f.name = ANY($5)) "
                "ORDER BY attempts > 0, EXISTS "
                "(SELECT 1 FROM justmem.spaces b WHERE b.space = w.space AND b.name = ANY($6)), "
                "due LIMIT $4 "
                "FOR UPDATE SKIP LOCKED) d WHERE q.space = d.space AND q.session = d.session "
                "RETURNING q.space, q.session",
                [
                    *(database.owner, float(lease), MOST_ATTEMPTS, count),
                    *(list(full), list(busy)),
                ],
            )
        )
        return [(space, session) for space, session in found.rows]

    claimed = await database.write_all(work)
    jobs = [await _job(database, space, session) for space, session in claimed]
    return [job for job in jobs if job is not None]


async def _job(database: Database, space: int, session: int) -> Job | None:
    (found,) = await database.read(
        space,
        Statement(
            "SELECT p.name, s.id, coalesce(i.at, s.at), coalesce(i.turns, t.turns) "
            "FROM justmem.spaces p JOIN justmem.sessions s ON s.space = p.space "
            "LEFT JOIN justmem.texts t ON t.space = s.space AND t.session = s.key "
            "LEFT JOIN justmem.incoming i ON i.space = s.space AND i.session = s.key "
            "WHERE p.space = $1 AND s.key = $2 AND coalesce(i.turns, t.turns) IS NOT NULL",
            [space, session],
        ),
    )
    if not found.rows:
        return None
    name, id, at, turns = found.rows[0]
    return Job(plain(name), rows.session_of(id, at, turns))


async def count(database: Database) -> int:
    """How many sessions wait, or are being worked on."""
    found = await database.read_all(Statement("SELECT count(*) FROM justmem.queue"))
    return int(found.rows[0][0])


class Claims:
    """The claims of one process on the sessions of one space."""

    def __init__(self, database: Database, names: Names, lease: float = LEASE) -> None:
        self._database = database
        self._names = names
        self._lease = lease

    @asynccontextmanager
    async def claim(self, session_id: str) -> AsyncIterator[bool]:
        """False if another process is making this session's cards, or has made them. The claim
        is renewed until the block ends, and given back if it did not end in a settled session."""
        mine = await self._renew(session_id)
        if not mine:
            yield False
            return
        beat = asyncio.create_task(self._keep_renewing(session_id))
        try:
            yield True
        finally:
            beat.cancel()
            with suppress(asyncio.CancelledError):
                await beat
            await self._give_back(session_id)

    async def _keep_renewing(self, session_id: str) -> None:
        while True:
            await asyncio.sleep(self._lease / 3)
            with suppress(StoreError):  # the next beat, or the work itself, will tell
                await self._renew(session_id)

    async def _renew(self, session_id: str) -> bool:
        async def work(transaction: Transaction) -> bool:
            (done,) = await transaction.last(
                Statement(
                    f"UPDATE {self._names.queue} SET owner = $3, "
                    "due = now() + $4 * interval '1 second' "
                    f"WHERE space = $1 AND session = {self._key()} "
                    "AND (owner IS NULL OR owner = $3 OR due <= now())",
                    [self._names.space, session_id, self._database.owner, float(self._lease)],
                )
            )
            return done.written > 0

        return await self._database.write(self._names.space, work)

    async def _give_back(self, session_id: str) -> None:
        async def work(transaction: Transaction) -> None:
            await transaction.last(
                Statement(
                    f"UPDATE {self._names.queue} SET owner = NULL, due = now() "
                    f"WHERE space = $1 AND session = {self._key()} AND owner = $3",
                    [self._names.space, session_id, self._database.owner],
                )
            )

        with suppress(StoreError):  # it ends by itself
            await self._database.write(self._names.space, work)

    def _key(self) -> str:
        return f"(SELECT key FROM {self._names.sessions} WHERE space = $1 AND id = $2)"
