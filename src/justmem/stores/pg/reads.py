"""Everything that is asked of a space except search, as statements."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from typing import Any

from justmem.domain import (
    Card,
    Passage,
    Quarantined,
    Session,
    SessionRecord,
    SessionState,
    Stats,
)
from justmem.errors import NotInMemory
from justmem.ports import CardFilter, Extent, Index
from justmem.stores import rows as shared
from justmem.stores import tombstones, words
from justmem.stores.pg import encode, rows, terms
from justmem.stores.pg.database import Database
from justmem.stores.pg.lexicon import Lexicon
from justmem.stores.pg.schema import TABLES, Names
from justmem.stores.pg.wire import Statement

_WAITING = [str(SessionState.PENDING), str(SessionState.FAILED)]


class Reads:
    """The questions of one space."""

    def __init__(self, database: Database, names: Names, lexicon: Lexicon) -> None:
        self._database = database
        self._names = names
        self._lexicon = lexicon
        self._space = names.space
        self._subject: str | None = None
        self._subject_at: tuple[Any, ...] | None = None
        self._records = (
            f"SELECT {shared.RECORD} FROM {names.sessions} s LEFT JOIN {names.incoming} i "
            "ON i.space = s.space AND i.session = s.key WHERE s.space = $1"
        )
        self._cards = (
            f"SELECT {shared.CARD} FROM {names.cards} c JOIN {names.sessions} s "
            "ON s.space = c.space AND s.key = c.session WHERE c.space = $1"
        )

    async def _ask(self, sql: str, *params: Any) -> list[tuple[Any, ...]]:
        (found,) = await self._database.read(self._space, Statement(sql, [self._space, *params]))
        return found.rows

    # ------------------------------------------------------------ sessions

    def record(self, session_id: str) -> Statement:
        return Statement(f"{self._records} AND s.id = $2", [self._space, session_id])

    async def sessions(self) -> list[SessionRecord]:
        found = await self._ask(f"{self._records} ORDER BY s.instant, s.key")
        return [rows.record_of(row) for row in found]

    async def session(self, session_id: str) -> Session:
        found = await self._ask(
            f"SELECT s.id, s.at, t.turns, s.digest FROM {self._names.sessions} s "
            f"LEFT JOIN {self._names.texts} t ON t.space = s.space AND t.session = s.key "
            "WHERE s.space = $1 AND s.id = $2",
            session_id,
        )
        if not found:
            raise NotInMemory(f"There is no session {session_id!r} in this space.")
        return rows.session_of(*found[0])

    async def sessions_at(self, ids: Sequence[str]) -> dict[str, Session]:
        found = await self._ask(
            f"SELECT s.id, s.at, t.turns, s.digest FROM {self._names.sessions} s "
            f"JOIN {self._names.texts} t ON t.space = s.space AND t.session = s.key "
            "WHERE s.space = $1 AND s.id = ANY($2)",
            list(ids),
        )
        sessions = [rows.session_of(*row) for row in found]
        return {session.id: session for session in sessions}

    async def waiting(self, newest: int | None = None) -> list[Session]:
        names = self._names
        found = await self._ask(
            "SELECT s.id, i.at, i.turns, i.digest, i.instant, s.key "
            f"FROM {names.incoming} i JOIN {names.sessions} s "
            "ON s.space = i.space AND s.key = i.session WHERE i.space = $1 "
            "UNION ALL SELECT s.id, s.at, t.turns, s.digest, s.instant, s.key "
            f"FROM {names.sessions} s JOIN {names.texts} t "
            "ON t.space = s.space AND t.session = s.key "
            "WHERE s.space = $1 AND s.state = ANY($2) AND NOT EXISTS "
            f"(SELECT 1 FROM {names.incoming} i WHERE i.space = $1 AND i.session = s.key) "
            "ORDER BY 5 DESC, 6 DESC LIMIT $3",
            _WAITING,
            newest,
        )
        return [rows.session_of(*row[:4]) for row in reversed(found)]

    async def extent(self) -> Extent:
        found = await self._ask(
            f"SELECT cards, tokens, (SELECT at FROM {self._names.sessions} WHERE space = $1 "
            f"ORDER BY instant DESC, key DESC LIMIT 1) FROM {self._names.spaces} WHERE space = $1"
        )
        if not found:
            return Extent(None, 0, 0)
        cards, tokens, last = found[0]
        return Extent(datetime.fromisoformat(last) if last else None, cards, tokens)

    def forget(self) -> None:
        """What is remembered here between calls."""
        self._subject = self._subject_at = None

    def marks(self, session_id: str) -> Statement:
        """Of turns of this session that were forgotten on their own."""
        start = tombstones.prefix(session_id)
        return Statement(
            f"SELECT id FROM {self._names.forgotten} WHERE space = $1 AND id >= $2 AND id <= $3",
            [self._space, start, start + "~"],
        )

    async def blanked(self, session: Session) -> Session:
        (found,) = await self._database.read(self._space, self.marks(session.id))
        return tombstones.blanked(session, [id for (id,) in found.rows])

    async def main_subject(self) -> str | None:
        """Counting every card takes time: once for each state of the space. The pair read here
        changes with every card that comes or goes."""
        names = self._names
        found = await self._ask(f"SELECT next_card, cards FROM {names.spaces} WHERE space = $1")
        if found and self._subject_at != found[0]:
            most = await self._ask(
                f"SELECT subject, count(*) FROM {names.cards} WHERE space = $1 "
                'GROUP BY 1 ORDER BY 2 DESC, subject COLLATE "C" LIMIT 1'
            )
            telling = most and most[0][1] > 0.6 * found[0][1]
            self._subject = encode.plain(most[0][0]) if telling else None
            self._subject_at = found[0]
        return self._subject if found else None

    # ------------------------------------------------------------ cards and passages

    async def cards_at(self, keys: Sequence[int]) -> dict[int, Card]:
        found = await self._ask(f"{self._cards} AND c.key = ANY($2)", rows.numbers(keys))
        cards = {row[0]: rows.card_of(row) for row in found}
        return {key: cards[key] for key in keys if key in cards}

    async def passages_at(self, keys: Sequence[int]) -> dict[int, Passage]:
        found = await self._ask(
            f"SELECT p.key, s.id, p.turn, p.start, p.stop FROM {self._names.passages} p "
            f"JOIN {self._names.sessions} s ON s.space = p.space AND s.key = p.session "
            "WHERE p.space = $1 AND p.key = ANY($2)",
            rows.numbers(keys),
        )
        passages = {key: rows.passage_of(*rest) for key, *rest in found}
        return {key: passages[key] for key in keys if key in passages}

    async def card(self, card_id: str) -> Card:
        found = await self._ask(f"{self._cards} AND c.id = $2", card_id)
        if not found:
            raise NotInMemory(f"There is no card {card_id!r} in this space.")
        return rows.card_of(found[0])

    async def cards(self, where: CardFilter) -> list[Card]:
        conditions, values = [""], [where.limit, where.offset]
        given: list[tuple[str, Any]] = [
            ("c.folded = ${}", where.subject and where.subject.casefold()),
            ("c.kind = ${}", where.kind),
            ("c.status = ${}", where.status),
            ("s.id = ${}", where.session_id),
        ]
        if where.text is not None:
            needed = words.words(where.text)
            if not needed:
                return []
            await self._lexicon.learn(word for each in needed for word in terms.fold(each))
            given += self._with_words(needed)
        for condition, value in given:
            if value is not None:
                values.append(value)
                conditions.append(condition.format(len(values) + 1))
        found = await self._ask(
            f"{self._cards}{' AND '.join(conditions)} ORDER BY s.instant, s.key, c.key "
            "LIMIT $2 OFFSET $3",
            *values,
        )
        return [rows.card_of(row) for row in found]

    async def mentions(self, text: str) -> list[Passage]:
        await self._lexicon.learn(terms.fold(text))
        roots, _ = terms.wanted(text, self._lexicon)  # words of grammar alone name nothing
        if not roots:
            return []
        found = await self._ask(
            f"SELECT s.id, p.turn, p.start, p.stop FROM (SELECT e >> 24 AS key FROM "
            f"{self._names.passage_words} w, unnest(w.found) e WHERE w.space = $1 "
            "AND w.word = ANY($2) GROUP BY 1 HAVING count(*) = $3) held "
            f"JOIN {self._names.passages} p ON p.space = $1 AND p.key = held.key "
            f"JOIN {self._names.sessions} s ON s.space = $1 AND s.key = p.session ORDER BY p.key",
            roots,
            len(roots),
        )
        return [rows.passage_of(*row) for row in found]

    def _with_words(self, needed: Sequence[str]) -> list[tuple[str, str]]:
        """Indexed words by the index; words of grammar in the text itself."""
        indexed = (
            f"c.key IN (SELECT e >> 24 FROM {self._names.card_words} w, unnest(w.found) e "
            "WHERE w.space = $1 AND w.word = ${})"
        )
        in_text = r"(c.subject || ' ' || c.fact) ~* ('\m' || ${} || '\M')"
        return [
            (in_text, folded)
            if folded in self._lexicon.unindexed
            else (indexed, self._lexicon.stem(folded))
            for word in needed
            for folded in terms.fold(word)
        ]

    async def quarantined(self, session_id: str) -> list[Quarantined]:
        found = await self._ask(
            f"SELECT q.subject, q.fact, q.reason FROM {self._names.quarantine} q "
            f"JOIN {self._names.sessions} s ON s.space = q.space AND s.key = q.session "
            "WHERE q.space = $1 AND s.id = $2 ORDER BY q.place",
            session_id,
        )
        return [rows.quarantined_of(row) for row in found]

    async def texts(self, index: Index, after: int, count: int) -> list[tuple[int, str]]:
        if index == "cards":
            found = await self._ask(
                "SELECT key, subject || ' ' || fact || "
                "CASE event_precision WHEN 'unknown' THEN '' ELSE ' (' || event || ')' END "
                f"FROM {self._names.cards} WHERE space = $1 AND key > $2 ORDER BY key LIMIT $3",
                after,
                count,
            )
            return [(key, encode.plain(text)) for key, text in found]
        found = await self._ask(
            "SELECT p.key, p.turn, p.start, p.stop, p.session, t.turns FROM (SELECT * FROM "
            f"{self._names.passages} WHERE space = $1 AND key > $2 ORDER BY key LIMIT $3) p "
            f"JOIN {self._names.texts} t ON t.space = $1 AND t.session = p.session ORDER BY p.key",
            after,
            count,
        )
        turns = {session: shared.turns_of(encode.plain(text)) for *_, session, text in found}
        return [
            (key, turns[session][turn - 1].text[start:stop])
            for key, turn, start, stop, session, _ in found
        ]

    # ------------------------------------------------------------ numbers

    async def spent(self, day: date) -> int:
        found = await self._ask(
            f"SELECT tokens + reserved FROM {self._names.spending} "
            "WHERE space = $1 AND day = $2::text::date",
            day.isoformat(),
        )
        return int(found[0][0]) if found else 0

    async def spent_on(self, session_id: str) -> int:
        found = await self._ask(
            f"SELECT coalesce(i.spent, s.spent) FROM {self._names.sessions} s "
            f"LEFT JOIN {self._names.incoming} i ON i.space = s.space AND i.session = s.key "
            "WHERE s.space = $1 AND s.id = $2",
            session_id,
        )
        return int(found[0][0]) if found else 0

    async def logged(
        self, after: int, before: int | None, latest: bool, limit: int
    ) -> list[tuple[int, str, str]]:
        found = await self._ask(
            f"SELECT number, at, targets FROM {self._names.audit} WHERE space = $1 "
            f"AND number > $2 AND number < $3 ORDER BY number {'DESC' if latest else 'ASC'} "
            "LIMIT $4",
            after,
            before or 2**62,
            limit,
        )
        return sorted((number, encode.plain(at), encode.plain(text)) for number, at, text in found)

    async def stats(self, name: str) -> Stats:
        names, space = self._names, self._space
        asked = [
            f"SELECT embedder FROM {names.spaces} WHERE space = $1",
            f"SELECT coalesce(i.state, s.state), count(*) FROM {names.sessions} s "
            f"LEFT JOIN {names.incoming} i ON i.space = s.space AND i.session = s.key "
            "WHERE s.space = $1 GROUP BY 1",
            "SELECT coalesce(sum(turns), 0)::bigint, coalesce(sum(cards), 0)::bigint, "
            "coalesce(sum(quarantined), 0)::bigint, coalesce(sum(tokens), 0)::bigint, "
            f"coalesce(sum(card_tokens), 0)::bigint FROM {names.sessions} WHERE space = $1",
            f"SELECT coalesce(sum(tokens), 0)::bigint FROM {names.spending} WHERE space = $1",
            f"SELECT kind, count(*) FROM {names.cards} WHERE space = $1 GROUP BY 1 ORDER BY 1",
            _sizes(names),
        ]
        embedder, states, sums, spent, kinds, size = await self._database.read(
            space, *(Statement(sql, [space]) for sql in asked)
        )
        turns, cards, held, tokens, card_tokens = sums.rows[0]
        return Stats(
            space=name,
            sessions=dict(states.rows),
            turns=turns,
            cards=cards,
            quarantined=held,
            kinds=dict(kinds.rows),
            history_tokens=tokens,
            card_tokens=card_tokens,
            bytes=int(size.rows[0][0]),
            embedder=encode.plain(embedder.rows[0][0]) if embedder.rows else "",
            spent_tokens=spent.rows[0][0],
        )


def _sizes(names: Names) -> str:
    """The bytes of the space's rows. Indexes are shared, and left out."""
    measured = [table for table in TABLES if table not in ("marks", "queue")]
    return (
        "SELECT sum(size)::bigint FROM ("
        + " UNION ALL ".join(
            f"SELECT coalesce(sum(pg_column_size(t.*)), 0) AS size FROM {names(table)} t "
            "WHERE t.space = $1"
            for table in measured
        )
        + ") sizes"
    )
