"""Checking a space in PostgreSQL: that its parts agree with each other. The pages themselves are
the server's to check (data checksums, `pg_amcheck`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from justmem.domain import Damage, Health
from justmem.errors import StoreDamaged
from justmem.ports import Whole
from justmem.stores.damage import AGAIN, RESTORE, damaged, of_whole, shortened
from justmem.stores.pg import rows, terms
from justmem.stores.pg.encode import plain
from justmem.stores.pg.whole import PostgresCopy
from justmem.stores.pg.wire import Statement
from justmem.stores.pg.writes import one_space
from justmem.stores.postgres import PostgresStore

_BATCH = 50  # sessions
_OF_SESSIONS = ("texts", "incoming", "cards", "passages", "quarantine", "queue")
_SUMMED = ("cards", "passages", "tokens", "card_length", "passage_length")


async def check(store: PostgresStore) -> Health:
    """Sessions are read some at a time, and others may write meanwhile: what looks wrong is looked
    at once more, and only what is wrong both times is told."""
    found = await Checking(store).all()
    if found.damage:
        again = await Checking(store).all()
        lasting = tuple(each for each in again.damage if each in found.damage)
        return again.model_copy(update={"damage": lasting})
    return found


class Checking:
    def __init__(self, store: PostgresStore) -> None:
        self._store = store
        self._names = store.names
        self._copy = PostgresCopy(store)
        self._damage: list[Damage] = []

    def _do(self, sql: str, *params: Any) -> Statement:
        return Statement(sql, [self._names.space, *params])

    async def all(self) -> Health:
        names = self._names
        sums, dims, sessions = await self._store.database.read(
            names.space,
            self._do(
                f"SELECT {', '.join(f'p.{name}' for name in _SUMMED)}, "
                + ", ".join(f"coalesce(sum(s.{name}), 0)::bigint" for name in _SUMMED)
                + f" FROM {names.spaces} p LEFT JOIN {names.sessions} s ON s.space = p.space "
                "WHERE p.space = $1 GROUP BY p.space, " + ", ".join(f"p.{n}" for n in _SUMMED)
            ),
            self._do(f"SELECT dim FROM {names.spaces} WHERE space = $1"),
            self._do(
                "SELECT s.key, s.id, s.digest, s.turns, s.cards, s.passages, s.quarantined, "
                f"i.digest FROM {names.sessions} s LEFT JOIN {names.incoming} i "
                "ON i.space = s.space AND i.session = s.key WHERE s.space = $1 ORDER BY s.key"
            ),
        )
        counted = one_space(sums.rows)
        if counted[: len(_SUMMED)] != counted[len(_SUMMED) :]:
            self._tell("the sums of the space are not those of its sessions", RESTORE)
        await self._orphans()
        ((dim,),) = dims.rows
        for start in range(0, len(sessions.rows), _BATCH):
            await self._sessions(sessions.rows[start : start + _BATCH], dim)
        return Health(
            space=self._store.space,
            sessions=len(sessions.rows),
            cards=sum(row[4] for row in sessions.rows),
            passages=sum(row[5] for row in sessions.rows),
            damage=shortened(iter(self._damage)),
        )

    def _tell(self, what: str, fix: str) -> None:
        self._damage.append(damaged(what, fix))

    async def _orphans(self) -> None:
        names = self._names
        of_none = (
            f"SELECT count(*) FROM {names(table)} t WHERE t.space = $1 AND NOT EXISTS (SELECT 1 "
            f"FROM {names.sessions} s WHERE s.space = t.space AND s.key = t.session)"
            for table in (*_OF_SESSIONS, "card_words", "passage_words")
        )
        counts = await self._store.database.read(
            names.space,
            *map(self._do, of_none),
            self._do(
                f"SELECT count(*) FROM {names.sessions} s WHERE s.space = $1 AND NOT EXISTS "
                f"(SELECT 1 FROM {names.texts} t WHERE t.space = s.space AND t.session = s.key)"
            ),
            self._do(
                f"SELECT count(*) FROM {names.cards} c JOIN {names.forgotten} f "
                "ON f.space = c.space AND f.id = c.id WHERE c.space = $1"
            ),
        )
        *orphans, wordless, forgotten = [each.rows[0][0] for each in counts]
        if any(orphans):
            self._tell(f"{sum(orphans):,} rows belong to no session", RESTORE)
        if wordless:
            self._tell(f"{wordless:,} sessions have lost their turns", RESTORE)
        if forgotten:
            self._tell(f"{forgotten:,} cards are there that were forgotten", "forget them again")

    async def _sessions(self, records: Sequence[tuple[Any, ...]], dim: int) -> None:
        ids = [plain(record[1]) for record in records]
        try:
            found = {whole.session.id: whole for whole in await self._copy.wholes(ids)}
        except StoreDamaged as error:
            self._tell(f"sessions {ids[0]!r} to {ids[-1]!r}: {error}", AGAIN)
            return
        for id, record in zip(ids, records, strict=True):
            if (whole := found.get(id)) is not None:
                self._damage += of_whole(whole, record[2], record[7], dim)
                made = whole.digested
                held = len(made.cards), len(made.passages), len(made.quarantined)
                turns = len(whole.session.turns)
                if (turns, *held) != record[3:7]:
                    self._tell(f"session {id!r} does not have as much as it says", AGAIN)
        by_key = {
            record[0]: found[id] for id, record in zip(ids, records, strict=True) if id in found
        }
        await self._words(by_key)

    async def _words(self, found: dict[int, Whole]) -> None:
        """The index as it is, beside one made anew from the same texts."""
        names, keys = self._names, rows.numbers(list(found))
        tables = {"card_words": names.cards, "passage_words": names.passages}
        for words, table in tables.items():
            given, indexed = await self._store.database.read(
                names.space,
                self._do(
                    f"SELECT session, key FROM {table} WHERE space = $1 AND session = ANY($2) "
                    "ORDER BY key",
                    keys,
                ),
                self._do(
                    f"SELECT session, word, found FROM {names(words)} "
                    "WHERE space = $1 AND session = ANY($2)",
                    keys,
                ),
            )
            anew = await self._anew(found, given.rows, of_cards=words == "card_words")
            there = {(key, plain(word)): sorted(entries) for key, word, entries in indexed.rows}
            if there != anew:
                what = "cards" if words == "card_words" else "passages"
                self._tell(f"the index of words does not agree with the {what}", RESTORE)

    async def _anew(
        self, found: dict[int, Whole], given: Sequence[tuple[Any, ...]], *, of_cards: bool
    ) -> dict[tuple[int, str], list[int]]:
        texts = terms.Texts()
        for key, whole in found.items():
            if of_cards:
                said = [card.text for card in whole.digested.cards]
            else:
                turns = [turn.text for turn in whole.session.turns]
                places = whole.digested.passages
                said = ["".join(turns[p.turn - 1 : p.turn])[p.start : p.end] for p in places]
            own = [number for of, number in given if of == key]
            texts.add(key, own[: len(said)], said[: len(own)])
        await self._store.lexicon.learn(word for text in texts for word in terms.fold(text))
        postings, _ = texts.index(self._store.lexicon)
        return {
            (key, word): np.sort(postings.entries[first - 1 : last]).tolist()
            for key, word, first, last in zip(
                postings.sessions.tolist(),
                postings.words,
                postings.first.tolist(),
                postings.last.tolist(),
                strict=True,
            )
        }
