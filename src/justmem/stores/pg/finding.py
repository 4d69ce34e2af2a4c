"""All that a question needs of the cards, in three round trips.

The first says what is near and what shares words, the second brings the cards found so and those
on the turns that share words, the third the vectors of the turns behind them all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from justmem.domain import Card
from justmem.ports import Found, Hits, Place, Reach, Vectors, View, best_bare, together
from justmem.stores import rows as shared
from justmem.stores.pg import encode, rows
from justmem.stores.pg.database import Database
from justmem.stores.pg.reads import Reads
from justmem.stores.pg.schema import Names
from justmem.stores.pg.search import Search
from justmem.stores.pg.wire import Statement


class Finder:
    def __init__(self, database: Database, names: Names, search: Search, reads: Reads) -> None:
        self._database = database
        self._space = names.space
        self._search = search
        self._reads = reads
        cards = (
            f"SELECT c.vector, {shared.CARD} FROM {names.cards} c JOIN {names.sessions} s "
            "ON s.space = c.space AND s.key = c.session WHERE c.space = $1"
        )
        self._cards_at = f"{cards} AND c.key = ANY($2)"
        self._cards_beside = (
            f"{cards} AND c.session IN (SELECT p.session FROM {names.passages} p "
            "WHERE p.space = $1 AND p.key = ANY($2))"
        )
        self._places = (
            f"SELECT p.key, s.id, p.turn FROM {names.passages} p JOIN {names.sessions} s "
            "ON s.space = p.space AND s.key = p.session WHERE p.space = $1 AND p.key = ANY($2)"
        )
        self._turns = (
            f"SELECT s.id, p.turn, p.vector FROM {names.sessions} s "
            f"JOIN {names.passages} p ON p.space = s.space AND p.session = s.key "
            "JOIN unnest($2::text[], $3::bigint[]) w (id, turn) "
            "ON w.id = s.id AND w.turn = p.turn "
            "WHERE s.space = $1 AND p.vector IS NOT NULL ORDER BY p.key"
        )

    async def __call__(self, views: Sequence[View], reach: Reach) -> Found:
        hits, said = await asyncio.gather(
            self._near(views, reach),
            self._search(views, "passages", 0, reach.spoken, reach.until),
        )
        keys = {key for each in hits for key, _ in (*each.dense, *each.lexical)}
        found, places = await self._rows(keys, said)
        cards = {key: found[key][0] for key in sorted(found)}
        resting = {(card.session_id, turn) for card in cards.values() for turn in card.turns}
        bare = set(best_bare(places, resting, reach.quotes))
        turns, sessions = await asyncio.gather(
            self._turn_vectors(list(resting | bare)),
            self._reads.sessions_at(list({session_id for session_id, _ in bare})),
        )
        return Found(
            cards=cards,
            vectors=_matrix([found[key][1] for key in cards]),
            hits=hits,
            places=places,
            turns=turns,
            sessions=sessions,
        )

    async def _near(self, views: Sequence[View], reach: Reach) -> list[Hits]:
        found = self._search(views, "cards", reach.dense, reach.lexical, reach.until)
        if not reach.during or not reach.more:
            return await found
        hits, said = await asyncio.gather(
            found, self._search.said_during(views, reach.during, reach.more, reach.until)
        )
        return [
            Hits(together(each.dense, more), each.lexical)
            for each, more in zip(hits, said, strict=True)
        ]

    async def _rows(
        self, keys: set[int], said: Sequence[Hits]
    ) -> tuple[dict[int, tuple[Card, bytes | None]], list[dict[Place, float]]]:
        """The cards with their vectors, and for each view the turns that share its words."""
        heard = rows.numbers(sorted({key for hits in said for key, _ in hits.lexical}))
        named, at, beside = await self._database.read(
            self._space,
            Statement(self._places, [self._space, heard]),
            Statement(self._cards_at, [self._space, rows.numbers(sorted(keys))]),
            Statement(self._cards_beside, [self._space, heard]),
        )
        passages = {key: (encode.plain(id), turn) for key, id, turn in named.rows}
        places: list[dict[Place, float]] = []
        for hits in said:
            scores: dict[Place, float] = {}
            for key, score in hits.lexical:
                if place := passages.get(key):
                    scores[place] = max(score, scores.get(place, 0.0))
            places.append(scores)
        wanted = set(passages.values())
        near = [*at.rows, *(row for row in beside.rows if _rests_on(row, wanted))]
        return {row[1]: (rows.card_of(row[1:]), row[0]) for row in near}, places

    async def _turn_vectors(self, places: Sequence[Place]) -> Mapping[Place, Vectors]:
        (found,) = await self._database.read(
            self._space,
            Statement(
                self._turns,
                [
                    self._space,
                    [session_id for session_id, _ in places],
                    rows.numbers([turn for _, turn in places]),
                ],
            ),
        )
        packed: dict[Place, list[bytes]] = {}
        for session_id, turn, vector in found.rows:
            packed.setdefault((encode.plain(session_id), turn), []).append(vector)
        return {place: encode.vectors_of(vectors) for place, vectors in packed.items()}


def _rests_on(row: tuple[Any, ...], wanted: set[Place]) -> bool:
    """The turns are the row's last column: most cards of a session are not the ones wanted."""
    session_id = encode.plain(row[3])
    return any((session_id, int(turn)) in wanted for turn in row[-1].split())


def _matrix(packed: Sequence[bytes | None]) -> Vectors:
    """Zeros where a card has no vector."""
    known = [place for place, vector in enumerate(packed) if vector is not None]
    vectors = encode.vectors_of([vector for vector in packed if vector is not None])
    result = np.zeros((len(packed), vectors.shape[1]), np.float32)
    result[known] = vectors
    return result
