"""Sessions as wholes, out of a PostgreSQL store and into one, many at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import date
from typing import Any

import numpy as np
import psycopg

from justmem.domain import SessionState
from justmem.errors import NotInMemory, StoreError
from justmem.ports import Digested, Vectors, Whole
from justmem.stores import rows as shared
from justmem.stores import tombstones
from justmem.stores.pg import encode, rows
from justmem.stores.pg.batch import Batch, Space, spoken
from justmem.stores.pg.database import Transaction
from justmem.stores.pg.encode import plain
from justmem.stores.pg.wire import Statement
from justmem.stores.pg.writes import FAILED, PENDING, one_space
from justmem.stores.postgres import PostgresStore

_NONE = np.zeros((0, 0), np.float32)
_SETTLED = (SessionState.STORED, SessionState.EMPTY)


class PostgresCopy:
    def __init__(self, store: PostgresStore) -> None:
        self.store = store
        self._database = store.database
        self._names = store.names
        self._space = store.names.space

    def _do(self, sql: str, *params: Any) -> Statement:
        return Statement(sql, [self._space, *params])

    async def _ask(self, sql: str, *params: Any) -> list[tuple[Any, ...]]:
        (found,) = await self._database.read(self._space, self._do(sql, *params))
        return found.rows

    async def embedder(self) -> tuple[str, int]:
        found = await self._ask(f"SELECT embedder, dim FROM {self._names.spaces} WHERE space = $1")
        embedder, dim = one_space(found)
        return plain(embedder), dim

    # ------------------------------------------------------------ out

    async def wholes(self, ids: Sequence[str]) -> Sequence[Whole]:
        names = self._names
        sessions = await self._ask(
            "SELECT s.key, s.id, s.at, t.turns, s.state, s.reason, s.tokens, s.card_tokens, "
            f"i.at, i.turns, i.state, i.reason FROM {names.sessions} s "
            f"LEFT JOIN {names.texts} t ON t.space = s.space AND t.session = s.key "
            f"LEFT JOIN {names.incoming} i ON i.space = s.space AND i.session = s.key "
            "WHERE s.space = $1 AND s.id = ANY($2)",
            list(ids),
        )
        keys = rows.numbers([row[0] for row in sessions])
        cards, passages, held = await self._database.read(
            self._space,
            self._do(
                f"SELECT {shared.CARD}, c.session, c.vector FROM {names.cards} c "
                f"JOIN {names.sessions} s ON s.space = c.space AND s.key = c.session "
                "WHERE c.space = $1 AND c.session = ANY($2) ORDER BY c.key",
                keys,
            ),
            self._do(
                f"SELECT session, turn, start, stop, vector FROM {names.passages} "
                "WHERE space = $1 AND session = ANY($2) ORDER BY key",
                keys,
            ),
            self._do(
                f"SELECT session, subject, fact, reason FROM {names.quarantine} "
                "WHERE space = $1 AND session = ANY($2) ORDER BY session, place",
                keys,
            ),
        )
        by_session = (
            _grouped(cards.rows, -2),
            _grouped(passages.rows, 0),
            _grouped(held.rows, 0),
        )
        found = {plain(row[1]): _whole(row, *by_session) for row in sessions}
        return [found[id] for id in ids if id in found]

    async def forgotten(self) -> Sequence[str]:
        found = await self._ask(
            f"SELECT id FROM {self._names.forgotten} WHERE space = $1 ORDER BY id"
        )
        return [plain(id) for (id,) in found]

    async def spending(self) -> Sequence[tuple[date, int]]:
        found = await self._ask(
            f"SELECT day, tokens FROM {self._names.spending} WHERE space = $1 ORDER BY day"
        )
        return [(day, tokens) for day, tokens in found]

    # ------------------------------------------------------------ in

    async def take(self, wholes: Sequence[Whole]) -> None:
        forgotten = set(await self.forgotten())
        wholes = [tombstones.spared(whole, forgotten) for whole in wholes]
        while True:
            (found,) = await self._database.read(self._space, self._known(wholes))
            for _, id in found.rows:  # brought by an earlier copy, and changed since
                with suppress(NotInMemory):  # another copy has made room already
                    await self.store.forget(sessions=[plain(id)])
            if await self._take_fresh(wholes):
                return

    def _known(self, wholes: Sequence[Whole]) -> Statement:
        return self._do(
            f"SELECT key, id FROM {self._names.sessions} WHERE space = $1 AND id = ANY($2)",
            [whole.session.id for whole in wholes],
        )

    async def _take_fresh(self, wholes: Sequence[Whole]) -> bool:
        """False if one of them has arrived meanwhile, as from a copy that was broken off while
        the server committed. Keys are set aside first, so that the rows can be made while others
        write; a key that is never used does no harm."""
        lexicon = self.store.lexicon
        await lexicon.learn(w for whole in wholes for w in spoken(whole.session, whole.digested))
        space, first = await self._set_aside(wholes)
        keys = range(first, first + len(wholes))

        def prepare() -> list[Statement]:
            batch = Batch(self._names, space, lexicon)
            for key, whole in zip(keys, wholes, strict=True):
                batch.add(key, whole.session, whole.digested, set())
            return [
                *self._insert_sessions(keys, wholes),
                *self._insert_waiting(keys, wholes),
                *batch.statements(),
                self._last_day(wholes),
            ]

        prepared = await asyncio.to_thread(prepare)

        async def work(transaction: Transaction) -> bool:
            held, known = await transaction.run(
                # Keeps out whoever forgets or settles, but not another batch: its rows are other
                # rows, and while one is stored the next can have its keys and be made ready.
                self._do(f"SELECT 1 FROM {self._names.spaces} WHERE space = $1 FOR KEY SHARE"),
                self._known(wholes),
            )
            one_space(held.rows)
            if known.rows:  # from an attempt of ours that had committed, or from another's
                return {key for key, _ in known.rows} <= set(keys)
            await transaction.last(*prepared)
            return True

        try:
            return await self._database.write(self._space, work)
        except StoreError as error:
            if isinstance(error.__cause__, psycopg.errors.UniqueViolation):
                return False
            raise

    async def _set_aside(self, wholes: Sequence[Whole]) -> tuple[Space, int]:
        cards = sum(len(whole.digested.cards) for whole in wholes)
        passages = sum(len(whole.digested.passages) for whole in wholes)

        async def work(transaction: Transaction) -> tuple[Any, ...]:
            # Need not reach the disk by itself: whatever uses the keys will take it there.
            _, found = await transaction.last(
                Statement("SELECT set_config('synchronous_commit', 'off', true)"),
                self._do(
                    f"UPDATE {self._names.spaces} SET next_session = next_session + $2, "
                    "next_card = next_card + $3, next_passage = next_passage + $4 "
                    "WHERE space = $1 RETURNING dim, next_card - $3, next_passage - $4, "
                    "next_session - $2",
                    len(wholes),
                    cards,
                    passages,
                ),
            )
            return one_space(found.rows)

        *state, first = await self._database.write(self._space, work)
        return Space(*state), first

    def _insert_sessions(self, keys: range, wholes: Sequence[Whole]) -> list[Statement]:
        sessions = [whole.session for whole in wholes]
        days = rows.numbers([shared.day(session.at) for session in sessions])
        numbers = rows.numbers(list(keys))
        return [
            self._do(
                f"INSERT INTO {self._names.sessions} (space, key, id, at, instant, day, digest, "
                "state, reason, turns) SELECT $1, unnest($2::bigint[]), unnest($3::text[]), "
                "unnest($4::text[]), unnest($5::float8[]), unnest($6::bigint[]), "
                "unnest($7::text[]), unnest($8::text[]), unnest($9::text[]), "
                "unnest($10::bigint[])",
                numbers,
                [session.id for session in sessions],
                [session.at.isoformat() for session in sessions],
                np.array([shared.instant(session.at) for session in sessions], np.float64),
                days,
                [session.digest for session in sessions],
                [str(whole.digested.state) for whole in wholes],
                [whole.digested.reason for whole in wholes],
                rows.numbers([len(session.turns) for session in sessions]),
            ),
            self._do(
                f"INSERT INTO {self._names.texts} (space, session, turns) "
                "SELECT $1, unnest($2::bigint[]), unnest($3::text[])",
                numbers,
                [shared.turns_text(session) for session in sessions],
            ),
        ]

    def _last_day(self, wholes: Sequence[Whole]) -> Statement:
        return self._do(
            f"UPDATE {self._names.spaces} SET last_day = greatest(last_day, $2) WHERE space = $1",
            max(shared.day(whole.session.at) for whole in wholes),
        )

    def _insert_waiting(self, keys: range, wholes: Sequence[Whole]) -> list[Statement]:
        changed = [(key, whole) for key, whole in zip(keys, wholes, strict=True) if whole.waiting]
        made = [
            self._do(
                f"INSERT INTO {self._names.incoming} (space, session, at, instant, digest, state, "
                "reason, length, turns) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
                key,
                whole.waiting.at.isoformat(),
                shared.instant(whole.waiting.at),
                whole.waiting.digest,
                FAILED if whole.failure else PENDING,
                whole.failure,
                len(whole.waiting.turns),
                shared.turns_text(whole.waiting),
            )
            for key, whole in changed
            if whole.waiting is not None
        ]
        queued = [
            key
            for key, whole in zip(keys, wholes, strict=True)
            if whole.waiting is not None or whole.digested.state not in _SETTLED
        ]
        if queued:
            made.append(
                self._do(
                    f"INSERT INTO {self._names.queue} (space, session) "
                    "SELECT $1, unnest($2::bigint[]) ON CONFLICT DO NOTHING",
                    rows.numbers(queued),
                )
            )
        return made

    async def take_forgotten(self, ids: Sequence[str]) -> None:
        async def work(transaction: Transaction) -> None:
            await transaction.last(
                self._do(
                    f"INSERT INTO {self._names.forgotten} (space, id) "
                    "SELECT $1, unnest($2::text[]) ON CONFLICT DO NOTHING",
                    list(ids),
                )
            )

        await self._database.write(self._space, work)


Groups = dict[int, list[tuple[Any, ...]]]


def _grouped(found: Sequence[tuple[Any, ...]], place: int) -> Groups:
    groups: Groups = {}
    for row in found:
        groups.setdefault(row[place], []).append(row)
    return groups


def _whole(row: Sequence[Any], cards: Groups, passages: Groups, held: Groups) -> Whole:
    key, id, at, turns, state, reason, tokens, card_tokens, *changed = row
    own_cards, own_passages = cards.get(key, []), passages.get(key, [])
    return Whole(
        session=rows.session_of(id, at, turns),
        digested=Digested(
            state=SessionState(state),
            reason=plain(reason),
            cards=[rows.card_of(card[:-2]) for card in own_cards],
            card_vectors=_vectors(own_cards),
            passages=[rows.passage_of(id, *p[1:4]) for p in own_passages],
            passage_vectors=_vectors(own_passages),
            quarantined=[rows.quarantined_of(each[1:]) for each in held.get(key, [])],
            tokens=tokens,
            card_tokens=card_tokens,
        ),
        waiting=rows.session_of(id, changed[0], changed[1]) if changed[0] else None,
        failure=plain(changed[3]) if changed[2] == FAILED else "",
    )


def _vectors(found: Sequence[tuple[Any, ...]]) -> Vectors:
    """All of them, or none: a session is embedded as a whole."""
    packed = [row[-1] for row in found]
    return encode.vectors_of(packed) if packed and None not in packed else _NONE
