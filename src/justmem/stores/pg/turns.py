"""Forgetting turns: their words go, their places stay; and what indexes and counts have to lose."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from justmem import tokens
from justmem.domain import Forgotten, Session
from justmem.stores import rows as shared
from justmem.stores import tombstones
from justmem.stores.pg import rows, terms
from justmem.stores.pg.batch import Space
from justmem.stores.pg.database import Transaction
from justmem.stores.pg.encode import plain
from justmem.stores.pg.schema import Names
from justmem.stores.pg.wire import Statement
from justmem.stores.pg.writes import FAILED, PENDING, one_session
from justmem.stores.tombstones import FORGOTTEN_SINCE

ForgetCards = Callable[[Transaction, list[str], Space], Awaitable[Forgotten]]


class Turns:
    def __init__(self, names: Names) -> None:
        self._names = names
        self._space = names.space

    def _do(self, sql: str, *params: Any) -> Statement:
        return Statement(sql, [self._space, *params])

    async def words(self, transaction: Transaction, session_id: str, space: Space) -> Forgotten:
        """All that is left of a session's words; its cards stay."""
        _, current, _ = await self._texts(transaction, session_id)
        left = [number for number, turn in enumerate(current.turns, 1) if not turn.forgotten]
        return await self(transaction, session_id, left, space) if left else Forgotten()

    async def __call__(
        self,
        transaction: Transaction,
        session_id: str,
        numbers: list[int],
        space: Space,
        forget_cards: ForgetCards | None = None,
    ) -> Forgotten:
        """Their words, passages and vectors, and the cards that rest on them, unless
        `forget_cards` is None. Of the quarantined
        cards no one can tell what they rest on: those of the session go."""
        names = self._names
        key, current, waiting = await self._texts(transaction, session_id)
        marks = [
            tombstones.mark(text, n) for text, n in tombstones.named(current, waiting, numbers)
        ]
        gone = tombstones.marked(current, marks)
        cards, passages = await transaction.run(
            self._do(f"SELECT id, turns FROM {names.cards} WHERE space = $1 AND session = $2", key),
            self._do(
                f"SELECT key, turn, start, stop FROM {names.passages} "
                "WHERE space = $1 AND session = $2 AND turn = ANY($3)",
                key,
                rows.numbers(sorted(gone)),
            ),
        )
        resting = [plain(id) for id, on in cards.rows if not gone.isdisjoint(map(int, on.split()))]
        with_cards = Forgotten()
        if forget_cards is not None:
            with_cards = await forget_cards(transaction, resting, space)
        held, *_ = await transaction.run(
            self._do(f"DELETE FROM {names.quarantine} WHERE space = $1 AND session = $2", key),
            *self._without_passages(key, current, passages.rows, space),
            *self._rewritten(
                key, current.without(gone), waiting and tombstones.blanked(waiting, marks)
            ),
            self._do(
                f"INSERT INTO {names.forgotten} (space, id) SELECT $1, unnest($2::text[]) "
                "ON CONFLICT DO NOTHING",
                marks,
            ),
            self.count_held(),
        )
        return Forgotten(
            cards=with_cards.cards,
            turns=len(gone.union(numbers)),
            quarantined=held.written + with_cards.quarantined,
        )

    async def _texts(
        self, transaction: Transaction, session_id: str
    ) -> tuple[int, Session, Session | None]:
        """The key of a session, its current text, and one that waits."""
        names = self._names
        (known,) = await transaction.run(
            self._do(
                f"SELECT s.key, s.at, t.turns, i.at, i.turns FROM {names.sessions} s "
                f"LEFT JOIN {names.texts} t ON t.space = s.space AND t.session = s.key "
                f"LEFT JOIN {names.incoming} i ON i.space = s.space AND i.session = s.key "
                "WHERE s.space = $1 AND s.id = $2",
                session_id,
            )
        )
        key, at, turns, new_at, new = one_session(known.rows, session_id)
        waiting = rows.session_of(session_id, new_at, new) if new is not None else None
        return key, rows.session_of(session_id, at, turns), waiting

    def _without_passages(
        self, key: int, current: Session, passages: list[tuple[Any, ...]], space: Space
    ) -> list[Statement]:
        if not passages:
            return []
        keys = rows.numbers([row[0] for row in passages])
        length = sum(
            len(terms.fold(current.turn(turn).text[start:stop]))
            for _, turn, start, stop in passages
        )
        return [
            *self.unindex("passage_words", keys, rows.numbers([key])),
            self._do(
                f"DELETE FROM {self._names.passages} WHERE space = $1 AND key = ANY($2)", keys
            ),
            self._do(
                f"UPDATE {self._names.sessions} SET passages = passages - $3, "
                "passage_length = passage_length - $4 WHERE space = $1 AND key = $2",
                key,
                len(passages),
                length,
            ),
        ]

    def _rewritten(self, key: int, current: Session, waiting: Session | None) -> list[Statement]:
        names = self._names
        reason = "CASE reason WHEN '' THEN '' ELSE $4 END"
        made = [
            self._do(
                f"UPDATE {names.sessions} SET digest = $3, reason = {reason}, "
                "tokens = least(tokens, $5) WHERE space = $1 AND key = $2",
                key,
                current.digest,
                FORGOTTEN_SINCE,
                tokens.said(current),
            ),
            self._do(
                f"UPDATE {names.texts} SET turns = $3 WHERE space = $1 AND session = $2",
                key,
                shared.turns_text(current),
            ),
        ]
        if waiting is None:
            return made
        if waiting.digest == current.digest:  # the turn was all that had changed
            waits = f"DELETE FROM {names.incoming} WHERE space = $1 AND session = $2"
            in_turn = (
                f"DELETE FROM {names.queue} q USING {names.sessions} s WHERE q.space = $1 "
                "AND q.session = $2 AND s.space = $1 AND s.key = $2 AND NOT s.state = ANY($3)"
            )
            return [*made, self._do(waits, key), self._do(in_turn, key, [PENDING, FAILED])]
        return [
            *made,
            self._do(
                f"UPDATE {names.incoming} SET digest = $3, reason = {reason}, turns = $5 "
                "WHERE space = $1 AND session = $2",
                key,
                waiting.digest,
                FORGOTTEN_SINCE,
                shared.turns_text(waiting),
            ),
        ]

    # ------------------------------------------------------------ indexes and counts

    def unindex(self, table: str, keys: rows.Numbers, sessions: rows.Numbers) -> list[Statement]:
        """By the sessions' rows, not by their words: nothing depends on cutting text alike."""
        return [
            self._do(
                f"UPDATE {self._names(table)} SET found = ARRAY(SELECT e FROM unnest(found) e "
                "WHERE NOT e >> 24 = ANY($3)) WHERE space = $1 AND session = ANY($2) "
                "AND EXISTS (SELECT 1 FROM unnest(found) e WHERE e >> 24 = ANY($3))",
                sessions,
                keys,
            ),
            self._do(
                f"DELETE FROM {self._names(table)} "
                "WHERE space = $1 AND session = ANY($2) AND found = '{}'",
                sessions,
            ),
        ]

    def count_held(self) -> Statement:
        return self._do(
            f"UPDATE {self._names.sessions} s SET quarantined = (SELECT count(*) FROM "
            f"{self._names.quarantine} q WHERE q.space = $1 AND q.session = s.key) "
            "WHERE s.space = $1 AND s.quarantined > 0"
        )
