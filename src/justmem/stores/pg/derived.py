"""What follows from a session, settled in one transaction; and vectors made anew."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from justmem.domain import Card, Session
from justmem.errors import NotInMemory, StoreBusy
from justmem.ports import Digested, Index, Vectors
from justmem.stores import rows as shared
from justmem.stores.pg import rows
from justmem.stores.pg.batch import Batch, Space, spoken
from justmem.stores.pg.database import Database, Transaction
from justmem.stores.pg.encode import Matrix
from justmem.stores.pg.lexicon import Lexicon
from justmem.stores.pg.schema import Names
from justmem.stores.pg.wire import Statement
from justmem.stores.pg.writes import Writes, one_space

_DERIVED = ("cards", "passages", "card_words", "passage_words", "quarantine")
_REEMBEDDED = 500  # rows in a statement


class Derived:
    def __init__(self, database: Database, names: Names, writes: Writes, lexicon: Lexicon) -> None:
        self._database = database
        self._names = names
        self._writes = writes
        self.lexicon = lexicon
        self._space = names.space

    def _do(self, sql: str, *params: Any) -> Statement:
        return Statement(sql, [self._space, *params])

    def held(self) -> Statement:
        return self._do(
            f"SELECT dim, next_card, next_passage FROM {self._names.spaces} "
            "WHERE space = $1 FOR UPDATE"
        )

    def gone(self, cards: Sequence[Card]) -> Statement:
        return self._do(
            f"SELECT id FROM {self._names.forgotten} WHERE space = $1 AND id = ANY($2)",
            [card.id for card in cards],
        )

    async def settle(self, session: Session, digested: Digested) -> None:
        digest, turns = session.digest, shared.turns_text(session)
        await self.lexicon.learn(spoken(session, digested))

        async def work(transaction: Transaction) -> None:
            held, kept, gone = await transaction.run(
                self.held(), self._kept(session.id, digest), self.gone(digested.cards)
            )
            space = Space(*one_space(held.rows))
            if not kept.rows:
                raise NotInMemory(
                    f"Session {session.id!r} was changed or forgotten while its cards were being "
                    "made: remember it again if it should stay."
                )
            ((key, counted),) = kept.rows
            batch = Batch(self._names, space, self.lexicon)
            batch.add(key, session, digested, {id for (id,) in gone.rows})
            inserts = await asyncio.to_thread(batch.statements)
            await transaction.last(
                *(self.remove([key]) if counted else ()),
                *self._writes.make_current(
                    key, session, digest, turns, str(digested.state), digested.reason
                ),
                self._do(
                    f"DELETE FROM {self._names.incoming} "
                    "WHERE space = $1 AND session = $2 AND digest = $3",
                    key,
                    digest,
                ),
                *inserts,
                self._writes.dequeue(key),
            )

        await self._database.write(self._space, work)

    def _kept(self, session_id: str, digest: str) -> Statement:
        """A text that was replaced or forgotten while its cards were made must not come back."""
        return self._do(
            "SELECT s.key, s.cards + s.passages + s.quarantined + s.tokens > 0 "
            f"FROM {self._names.sessions} s LEFT JOIN {self._names.incoming} i "
            "ON i.space = s.space AND i.session = s.key "
            "WHERE s.space = $1 AND s.id = $2 AND $3 IN (s.digest, i.digest)",
            session_id,
            digest,
        )

    def remove(self, sessions: Sequence[int]) -> list[Statement]:
        """All that follows from sessions, and its share of the sums."""
        names, keys = self._names, rows.numbers(sessions)
        counted = ("cards", "passages", "tokens", "card_length", "passage_length")
        taken = ", ".join(f"{name} = p.{name} - g.{name}" for name in counted)
        sums = ", ".join(f"coalesce(sum({name}), 0)::bigint AS {name}" for name in counted)
        made = [
            self._do(
                f"UPDATE {names.spaces} p SET {taken} FROM (SELECT {sums} FROM {names.sessions} "
                "WHERE space = $1 AND key = ANY($2)) g WHERE p.space = $1",
                keys,
            )
        ]
        return made + [
            self._do(f"DELETE FROM {names(table)} WHERE space = $1 AND session = ANY($2)", keys)
            for table in _DERIVED
        ]

    # ------------------------------------------------------------ re-embedding

    async def replace_vectors(
        self, embedder: str, dim: int, replaced: Mapping[Index, tuple[Sequence[int], Vectors]]
    ) -> None:
        async def work(transaction: Transaction) -> None:
            (held,) = await transaction.run(self.held())
            one_space(held.rows)
            for index in ("cards", "passages"):
                keys, vectors = replaced.get(index, ((), np.zeros((0, dim), np.float32)))
                await self._fill(transaction, index, keys, vectors, empty=index not in replaced)
            await transaction.last(
                self._do(
                    f"UPDATE {self._names.spaces} SET embedder = $2, dim = $3 WHERE space = $1",
                    embedder,
                    dim,
                ),
            )

        await self._database.write(self._space, work)

    async def _fill(
        self,
        transaction: Transaction,
        index: Index,
        keys: Sequence[int],
        vectors: Vectors,
        *,
        empty: bool,
    ) -> None:
        table = self._names(index)
        if empty:
            await transaction.run(
                self._do(
                    f"UPDATE {table} SET vector = NULL WHERE space = $1 AND vector IS NOT NULL"
                )
            )
            return
        (left,) = await transaction.run(
            self._do(
                f"SELECT EXISTS (SELECT 1 FROM {table} WHERE space = $1 AND NOT key = ANY($2))",
                rows.numbers(keys),
            )
        )
        if left.rows[0][0]:
            raise StoreBusy(
                "Another process added to the space while it was embedded again: run it again."
            )
        for start in range(0, len(keys), _REEMBEDDED):
            some = slice(start, start + _REEMBEDDED)
            await transaction.run(
                self._do(
                    f"UPDATE {table} t SET vector = g.vector FROM (SELECT unnest($2::bigint[]) "
                    "AS key, unnest($3::vector[]) AS vector) g "
                    "WHERE t.space = $1 AND t.key = g.key",
                    rows.numbers(keys[some]),
                    Matrix(vectors[some], len(keys[some])),
                )
            )
