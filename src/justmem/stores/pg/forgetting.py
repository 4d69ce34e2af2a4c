"""Forgetting: rows go at once, in one transaction; `remains.sweep` has the server drop their
bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from justmem.domain import Forgotten
from justmem.errors import NotInMemory
from justmem.ports import Place
from justmem.stores import tombstones
from justmem.stores.pg import rows, terms
from justmem.stores.pg.batch import Space
from justmem.stores.pg.database import Database, Transaction
from justmem.stores.pg.derived import Derived
from justmem.stores.pg.encode import plain
from justmem.stores.pg.schema import TABLES, Names
from justmem.stores.pg.turns import Turns
from justmem.stores.pg.wire import Statement
from justmem.stores.pg.writes import one_space


class Forgetting:
    def __init__(self, database: Database, names: Names, derived: Derived) -> None:
        self._database = database
        self._names = names
        self._derived = derived
        self._space = names.space
        self._turns = Turns(names)

    def _do(self, sql: str, *params: Any) -> Statement:
        return Statement(sql, [self._space, *params])

    async def forget(
        self,
        cards: Sequence[str],
        turns: Sequence[Place],
        sessions: Sequence[str],
        words: Sequence[str],
        subject: str | None,
    ) -> Forgotten:
        async def work(transaction: Transaction) -> Forgotten:
            (held,) = await transaction.run(self._derived.held())
            space = Space(*one_space(held.rows))
            # Cards first: a card named beside its session must be known, and stays forgotten.
            gone = [await self._cards(transaction, list(dict.fromkeys(cards)), space)]
            for session_id, numbers in tombstones.by_session(turns).items():
                gone.append(await self._turns(transaction, session_id, numbers, space, self._cards))
            for session_id in dict.fromkeys(words):
                gone.append(await self._turns.words(transaction, session_id, space))
            gone.append(await self._sessions(transaction, list(dict.fromkeys(sessions)), space))
            if subject is not None:
                gone.append(await self._held(transaction, subject))
            forgotten = Forgotten(
                cards=sum(each.cards for each in gone),
                sessions=sum(each.sessions for each in gone),
                turns=sum(each.turns for each in gone),
                quarantined=sum(each.quarantined for each in gone),
            )
            await transaction.run(self._sum_anew())
            return forgotten

        done = await self._database.write_once(self._space, self._names.marks, work)
        self._derived.lexicon.forget()
        return done

    async def _cards(self, transaction: Transaction, ids: list[str], space: Space) -> Forgotten:
        if not ids:
            return Forgotten()
        names = self._names
        (known,) = await transaction.run(
            self._do(
                f"SELECT id, key, session, subject, fact FROM {names.cards} "
                "WHERE space = $1 AND id = ANY($2)",
                ids,
            )
        )
        if missing := set(ids) - {row[0] for row in known.rows}:
            raise NotInMemory(f"There is no card {min(missing)!r} in this space.")
        keys = rows.numbers([row[1] for row in known.rows])
        sessions = rows.numbers([row[2] for row in known.rows])
        lengths = [len(terms.fold(f"{plain(row[3])} {plain(row[4])}")) for row in known.rows]
        (quarantined, *_) = await transaction.run(
            self._do(
                f"DELETE FROM {names.quarantine} q USING {names.cards} c WHERE q.space = $1 "
                "AND c.space = $1 AND c.key = ANY($2) AND q.session = c.session "
                "AND q.subject = c.subject AND q.fact = c.fact",
                keys,
            ),
            *self._turns.unindex("card_words", keys, sessions),
            self._do(f"DELETE FROM {names.cards} WHERE space = $1 AND key = ANY($2)", keys),
            self._do(
                f"UPDATE {names.sessions} s SET cards = s.cards - g.cards, "
                "card_tokens = s.card_tokens * (s.cards - g.cards) / s.cards, "
                "card_length = s.card_length - g.length FROM (SELECT session, count(*) AS cards, "
                "sum(length) AS length FROM (SELECT unnest($2::bigint[]) AS session, "
                "unnest($3::bigint[]) AS length) each_card GROUP BY session) g "
                "WHERE s.space = $1 AND s.key = g.session",
                sessions,
                rows.numbers(lengths),
            ),
            self._do(
                f"INSERT INTO {names.forgotten} (space, id) SELECT $1, unnest($2::text[]) "
                "ON CONFLICT DO NOTHING",
                ids,
            ),
            self._turns.count_held(),
        )
        return Forgotten(cards=len(known.rows), quarantined=quarantined.written)

    # ------------------------------------------------------------ quarantined cards, sessions

    async def _held(self, transaction: Transaction, subject: str) -> Forgotten:
        """Quarantined cards about a subject. Folded here, as everywhere."""
        names = self._names
        (known,) = await transaction.run(
            self._do(f"SELECT DISTINCT subject FROM {names.quarantine} WHERE space = $1")
        )
        about = [s for (s,) in known.rows if plain(s).casefold() == subject.casefold()]
        if not about:
            return Forgotten()
        gone, _ = await transaction.run(
            self._do(
                f"DELETE FROM {names.quarantine} WHERE space = $1 AND subject = ANY($2)",
                [plain(s) for s in about],
            ),
            self._turns.count_held(),
        )
        return Forgotten(quarantined=gone.written)

    async def _sessions(self, transaction: Transaction, ids: list[str], space: Space) -> Forgotten:
        if not ids:
            return Forgotten()
        names = self._names
        (known,) = await transaction.run(
            self._do(
                f"SELECT id, key, cards, turns, quarantined FROM {names.sessions} "
                "WHERE space = $1 AND id = ANY($2)",
                ids,
            )
        )
        there = {plain(row[0]) for row in known.rows}
        for id in ids:
            if id not in there:
                raise NotInMemory(f"There is no session {id!r} in this space.")
        keys = rows.numbers([row[1] for row in known.rows])
        await transaction.run(
            *self._derived.remove(keys.tolist()),
            *(
                self._do(f"DELETE FROM {table} WHERE space = $1 AND session = ANY($2)", keys)
                for table in (names.texts, names.incoming, names.queue)
            ),
            self._do(f"DELETE FROM {names.sessions} WHERE space = $1 AND key = ANY($2)", keys),
        )
        return Forgotten(
            cards=sum(row[2] for row in known.rows),
            sessions=len(known.rows),
            turns=sum(row[3] for row in known.rows),
            quarantined=sum(row[4] for row in known.rows),
        )

    def _sum_anew(self) -> Statement:
        counted = ("cards", "passages", "tokens", "card_length", "passage_length")
        sums = ", ".join(f"coalesce(sum({name}), 0)" for name in counted)
        return self._do(
            f"UPDATE {self._names.spaces} SET ({', '.join(counted)}) = "
            f"(SELECT {sums} FROM {self._names.sessions} WHERE space = $1) WHERE space = $1"
        )

    async def erase(self) -> Forgotten:
        seen: list[Forgotten] = []  # what a first attempt saw, if its commit was cut off

        async def work(transaction: Transaction) -> Forgotten:
            held, sums = await transaction.run(
                self._derived.held(),
                self._do(
                    "SELECT coalesce(sum(cards), 0)::bigint, count(*), "
                    "coalesce(sum(turns), 0)::bigint, coalesce(sum(quarantined), 0)::bigint "
                    f"FROM {self._names.sessions} WHERE space = $1"
                ),
            )
            if not held.rows:
                return seen[-1] if seen else Forgotten()
            cards, sessions, turns, quarantined = sums.rows[0]
            gone = Forgotten(cards=cards, sessions=sessions, turns=turns, quarantined=quarantined)
            seen.append(gone)
            tables = [self._names(table) for table in TABLES]
            await transaction.last(
                *(self._do(f"DELETE FROM {table} WHERE space = $1") for table in tables)
            )
            return seen[-1]

        return await self._database.write(self._space, work)
