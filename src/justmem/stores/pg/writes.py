"""A space's embedder, its sessions as they come in, and its ledger. Each method is one
transaction that comes to the same when a lost connection makes it happen twice."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any

from justmem.domain import Session, SessionRecord, SessionState
from justmem.errors import EmbedderMismatch, NotInMemory, StoreError
from justmem.ports import BEGUN
from justmem.stores import rows as shared
from justmem.stores import tombstones
from justmem.stores.pg import rows
from justmem.stores.pg.database import Database, Transaction
from justmem.stores.pg.reads import Reads
from justmem.stores.pg.schema import Names
from justmem.stores.pg.wire import Statement

PENDING, FAILED = str(SessionState.PENDING), str(SessionState.FAILED)


class Writes:
    def __init__(self, database: Database, names: Names, reads: Reads) -> None:
        self._database = database
        self._names = names
        self._reads = reads
        self._space = names.space

    def _do(self, sql: str, *params: Any) -> Statement:
        return Statement(sql, [self._space, *params])

    # ------------------------------------------------------------ the embedder

    async def bind(self, embedder: str, dim: int) -> None:
        known = self._do(f"SELECT embedder, dim FROM {self._names.spaces} WHERE space = $1")
        (found,) = await self._database.read(self._space, known)
        if found.rows and found.rows[0] == (embedder, dim):
            return  # nothing to write: a replica will do

        async def work(transaction: Transaction) -> None:
            (space, vectors) = await transaction.run(
                Statement(known.sql + " FOR UPDATE", known.params), self._has_vectors()
            )
            stored, size = one_space(space.rows)
            if (stored, size) == (embedder, dim):
                return
            if (stored or size != dim) and vectors.rows[0][0]:
                raise EmbedderMismatch(
                    f"The vectors of this space come from {stored or 'another embedder'} ({size} "
                    f"dimensions), the embedder is now {embedder} ({dim}): go back to the former, "
                    "or run `justmem reembed` to embed everything again with the new one."
                )
            await transaction.last(
                self._do(
                    f"UPDATE {self._names.spaces} SET embedder = $2, dim = $3 WHERE space = $1",
                    embedder,
                    dim,
                )
            )

        await self._database.write(self._space, work)

    def _has_vectors(self) -> Statement:
        there = " UNION ALL ".join(
            f"SELECT 1 FROM {table} WHERE space = $1 AND vector IS NOT NULL"
            for table in (self._names.cards, self._names.passages)
        )
        return self._do(f"SELECT EXISTS ({there})")

    # ------------------------------------------------------------ sessions

    async def keep(self, session: Session) -> SessionRecord:
        names, given = self._names, session

        async def work(transaction: Transaction) -> SessionRecord:
            space, known, marks = await transaction.run(
                self._do(f"SELECT next_session FROM {names.spaces} WHERE space = $1 FOR UPDATE"),
                self._do(
                    f"SELECT s.key, s.digest, s.state, i.digest FROM {names.sessions} s "
                    f"LEFT JOIN {names.incoming} i ON i.space = s.space AND i.session = s.key "
                    "WHERE s.space = $1 AND s.id = $2",
                    given.id,
                ),
                self._reads.marks(given.id),
            )
            (fresh,) = one_space(space.rows)
            session = tombstones.blanked(given, [id for (id,) in marks.rows])
            digest, turns = session.digest, shared.turns_text(session)
            if not known.rows:
                changes = self._add(fresh, session, digest, turns)
            else:
                key, old, state, _ = known.rows[0]
                if old == digest:
                    changes = self._take_back(key, state)
                elif state in (PENDING, FAILED):
                    changes = [
                        *self.make_current(key, session, digest, turns, PENDING),
                        self._enqueue(key),
                    ]
                else:
                    changes = [*self._let_wait(key, session, digest, turns), self._enqueue(key)]
            *_, record = await transaction.last(*changes, self._reads.record(session.id))
            return rows.record_of(record.rows[0])

        return await self._database.write(self._space, work)

    def _add(self, key: int, session: Session, digest: str, turns: str) -> list[Statement]:
        names, at = self._names, session.at
        return [
            self._do(
                f"INSERT INTO {names.sessions} (space, key, id, at, instant, day, digest, state, "
                "turns) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
                key,
                session.id,
                at.isoformat(),
                shared.instant(at),
                shared.day(at),
                digest,
                PENDING,
                len(session.turns),
            ),
            self._do(
                f"INSERT INTO {names.texts} (space, session, turns) VALUES ($1, $2, $3)", key, turns
            ),
            self._do(
                f"UPDATE {names.spaces} SET next_session = $2, "
                "last_day = greatest(last_day, $3) WHERE space = $1",
                key + 1,
                shared.day(at),
            ),
            self._enqueue(key),
        ]

    def _take_back(self, key: int, state: str) -> list[Statement]:
        """Said again as it stands: a change that was waiting is dropped."""
        dropped = [
            self._do(f"DELETE FROM {self._names.incoming} WHERE space = $1 AND session = $2", key)
        ]
        if state not in (PENDING, FAILED):
            dropped.append(self.dequeue(key))
        return dropped

    def make_current(
        self, key: int, session: Session, digest: str, turns: str, state: str, reason: str = ""
    ) -> list[Statement]:
        at = session.at
        return [
            self._do(
                f"UPDATE {self._names.sessions} SET at = $3, instant = $4, day = $5, digest = $6, "
                "turns = $7, state = $8, reason = $9, spent = 0 WHERE space = $1 AND key = $2",
                key,
                at.isoformat(),
                shared.instant(at),
                shared.day(at),
                digest,
                len(session.turns),
                state,
                reason,
            ),
            self._do(
                f"UPDATE {self._names.texts} SET turns = $3 WHERE space = $1 AND session = $2",
                key,
                turns,
            ),
            self._do(
                f"UPDATE {self._names.spaces} SET last_day = greatest(last_day, $2) "
                "WHERE space = $1 AND last_day < $2",
                shared.day(at),
            ),
        ]

    def _let_wait(self, key: int, session: Session, digest: str, turns: str) -> list[Statement]:
        """Where this very text is waiting already, it keeps its state."""
        at = session.at
        return [
            self._do(
                f"DELETE FROM {self._names.incoming} "
                "WHERE space = $1 AND session = $2 AND digest <> $3",
                key,
                digest,
            ),
            self._do(
                f"INSERT INTO {self._names.incoming} (space, session, at, instant, digest, state, "
                "length, turns) VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT DO NOTHING",
                key,
                at.isoformat(),
                shared.instant(at),
                digest,
                PENDING,
                len(session.turns),
                turns,
            ),
        ]

    def _enqueue(self, key: int) -> Statement:
        return self._do(
            f"INSERT INTO {self._names.queue} (space, session) VALUES ($1, $2) "
            "ON CONFLICT (space, session) DO UPDATE SET due = now(), owner = NULL, attempts = 0",
            key,
        )

    def dequeue(self, key: int) -> Statement:
        """Unless a newer text is waiting."""
        return self._do(
            f"DELETE FROM {self._names.queue} WHERE space = $1 AND session = $2 AND NOT EXISTS "
            f"(SELECT 1 FROM {self._names.incoming} WHERE space = $1 AND session = $2)",
            key,
        )

    async def begin(self, session_id: str) -> None:
        """Marks the text that waits for its cards."""
        names = self._names
        its = f"(SELECT key FROM {names.sessions} WHERE space = $1 AND id = $2)"
        waiting = f"SELECT 1 FROM {names.incoming} WHERE space = $1 AND session = {its}"

        async def work(transaction: Transaction) -> None:
            await transaction.last(
                self._do(
                    f"UPDATE {names.sessions} SET reason = $3 WHERE space = $1 AND id = $2 "
                    f"AND state = $4 AND NOT EXISTS ({waiting})",
                    *(session_id, BEGUN, PENDING),
                ),
                self._do(
                    f"UPDATE {names.incoming} SET reason = $3 "
                    f"WHERE space = $1 AND session = {its} AND state = $4",
                    *(session_id, BEGUN, PENDING),
                ),
            )

        await self._database.write(self._space, work)

    async def fail(self, session_id: str, reason: str) -> None:
        """Marks the text that waits for its cards; one that has them keeps them. Workers try it
        again by themselves, each time after a longer pause."""
        names = self._names

        async def work(transaction: Transaction) -> None:
            space, known = await transaction.run(
                self._do(f"SELECT 1 FROM {names.spaces} WHERE space = $1 FOR UPDATE"),
                self._do(
                    "SELECT s.key, i.session IS NOT NULL, s.state FROM "
                    f"{names.sessions} s LEFT JOIN {names.incoming} i "
                    "ON i.space = s.space AND i.session = s.key WHERE s.space = $1 AND s.id = $2",
                    session_id,
                ),
            )
            one_space(space.rows)
            key, changed, _ = one_session(known.rows, session_id)
            marked = (
                f"UPDATE {names.incoming} SET state = $3, reason = $4 "
                "WHERE space = $1 AND session = $2 AND state = ANY($5)"
                if changed
                else f"UPDATE {names.sessions} SET state = $3, reason = $4 "
                "WHERE space = $1 AND key = $2 AND state = ANY($5)"
            )
            await transaction.last(
                self._do(marked, key, FAILED, reason, [PENDING, FAILED]),
                self._do(
                    f"UPDATE {names.queue} SET owner = NULL, due = now() + least(3600, "
                    "60 * power(2, least(attempts, 10))) * interval '1 second' "
                    "WHERE space = $1 AND session = $2",
                    key,
                ),
            )

        await self._database.write(self._space, work)

    # ------------------------------------------------------------ the change log, the ledger

    async def log(self, entries: Sequence[tuple[int, str, str]]) -> None:
        async def work(transaction: Transaction) -> None:
            await transaction.last(
                *(
                    self._do(
                        f"INSERT INTO {self._names.audit} (space, number, at, targets, actor, "
                        "verb, counts, before, hash) VALUES ($1, $2, $3, $4, '', '', '', '', '')",
                        *entry,
                    )
                    for entry in entries
                )
            )

        await self._database.write(self._space, work)

    async def reserve(self, day: date, tokens: int, limit: int) -> bool:
        async def work(transaction: Transaction) -> bool:
            (done,) = await transaction.run(
                self._do(
                    f"INSERT INTO {self._names.spending} AS s (space, day, reserved) "
                    "SELECT $1, $2::text::date, $3 WHERE $3 <= $4 "
                    "ON CONFLICT (space, day) DO UPDATE SET reserved = s.reserved + $3 "
                    "WHERE s.tokens + s.reserved + $3 <= $4",
                    day.isoformat(),
                    tokens,
                    limit,
                )
            )
            return done.written > 0

        return await self._database.write_once(self._space, self._names.marks, work)

    async def spend(self, day: date, tokens: int, reserved: int, session: str | None) -> None:
        async def work(transaction: Transaction) -> None:
            await transaction.run(
                *self._spend_on(session, tokens),
                self._do(
                    f"INSERT INTO {self._names.spending} AS s (space, day, tokens) "
                    "VALUES ($1, $2::text::date, $3) ON CONFLICT (space, day) DO UPDATE SET "
                    "tokens = s.tokens + $3, reserved = greatest(0, s.reserved - $4::bigint)",
                    day.isoformat(),
                    tokens,
                    reserved,
                ),
            )

        await self._database.write_once(self._space, self._names.marks, work)

    def _spend_on(self, session_id: str | None, tokens: int) -> list[Statement]:
        """On the text that waits for its cards; one that was forgotten meanwhile is no one's."""
        if session_id is None:
            return []
        names = self._names
        key = f"(SELECT key FROM {names.sessions} WHERE space = $1 AND id = $2)"
        return [
            self._do(
                f"UPDATE {names.sessions} SET spent = spent + $3 WHERE space = $1 AND id = $2 "
                f"AND NOT EXISTS (SELECT 1 FROM {names.incoming} WHERE space = $1 "
                f"AND session = {key})",
                session_id,
                tokens,
            ),
            self._do(
                f"UPDATE {names.incoming} SET spent = spent + $3 "
                f"WHERE space = $1 AND session = {key}",
                session_id,
                tokens,
            ),
        ]


def one_space(found: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    """The row of the space, which every writer locks first: a space has one writer at a time."""
    if not found:
        raise StoreError("This space was erased by another process: open it again.")
    return found[0]


def one_session(found: list[tuple[Any, ...]], session_id: str) -> tuple[Any, ...]:
    if not found:
        raise NotInMemory(f"There is no session {session_id!r} in this space.")
    return found[0]
