"""Workers: any number of processes make the cards of sessions that wait, of all spaces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from justmem.domain import Session
from justmem.store import reads
from justmem.store.engine import Row
from justmem.store.pool import OF_ALL, READ, Database, PostgresConnection, of_space
from justmem.store.postgres_schema import Raw
from justmem.store.store import LEASE

MOST_ATTEMPTS = 10  # of workers at a session; then it waits for `justmem retry`
_LOOKED_AT = 50  # sessions that a worker chooses from


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
        found = database.transaction(f"{READ}; {OF_ALL}", waiting)
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

    return database.transaction(f"BEGIN; {of_space(space)}", work)
