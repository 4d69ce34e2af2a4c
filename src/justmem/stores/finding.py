"""Search in a space's file: what is near, what shares words, and the cards on the turns that do.

All that a question needs of the cards comes from one reading, so that it sees one moment of the
store, however busily others write.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence

import numpy as np

from justmem.ports import Found, Hits, Index, Pair, Place, Reach, Vectors, View, best_bare
from justmem.stores import drivers, reads, rows
from justmem.stores.vectors import During, MatrixCache, moment
from justmem.stores.words import WordIndex


class Finder:
    """What is kept in memory to search with: the vectors, and how common words are."""

    def __init__(self) -> None:
        self._matrices = {index: MatrixCache(index) for index in ("cards", "passages")}
        self._words = {index: WordIndex(index) for index in ("cards", "passages")}

    def search(
        self,
        db: sqlite3.Connection,
        views: Sequence[View],
        index: Index,
        dense: int,
        lexical: int,
        until: int | None,
        during: During | None = None,
    ) -> list[Hits]:
        now = moment(db)
        if until is not None and until >= reads.last_day(db):
            until = None
        near: list[list[Pair]] = [[] for _ in views]
        if dense and views:
            queries = np.stack([view.vector for view in views])
            near = self._matrices[index].nearest(db, now, queries, dense, until, during)
        words = self._words[index]
        return [
            Hits(found, words.best(db, now, view.text, lexical, until) if lexical else [])
            for view, found in zip(views, near, strict=True)
        ]

    def find(self, db: sqlite3.Connection, views: Sequence[View], reach: Reach) -> Found:
        until = None if reach.until is None else rows.day(reach.until)
        during = None
        if reach.during and reach.more:
            first, last = reach.during
            during = During(rows.day(first), rows.day(last), reach.more)
        hits = self.search(db, views, "cards", reach.dense, reach.lexical, until, during)
        keys = {key for each in hits for key, _ in (*each.dense, *each.lexical)}
        places: list[dict[Place, float]] = [{} for _ in views]
        if reach.spoken:
            places = _places(db, self.search(db, views, "passages", 0, reach.spoken, until))
            keys |= _keys_on(db, {place for scores in places for place in scores})
        cards = reads.cards_at(db, sorted(keys))
        resting = {(card.session_id, turn) for card in cards.values() for turn in card.turns}
        bare = set(best_bare(places, resting, reach.quotes))
        return Found(
            cards=cards,
            vectors=self._matrices["cards"].at(db, moment(db)).rows(list(cards)),
            hits=hits,
            places=places,
            turns=_turn_vectors(db, resting | bare),
            sessions=reads.sessions_at(db, list({session_id for session_id, _ in bare})),
        )


def _places(db: sqlite3.Connection, spoken: Sequence[Hits]) -> list[dict[Place, float]]:
    """For each view, the turns that share its words."""
    passages = reads.passages_at(db, list({key for hits in spoken for key, _ in hits.lexical}))
    found: list[dict[Place, float]] = []
    for hits in spoken:
        scores: dict[Place, float] = {}
        for key, score in hits.lexical:
            if key in passages:
                place = passages[key].session_id, passages[key].turn
                scores[place] = max(score, scores.get(place, 0.0))
        found.append(scores)
    return found


def _keys_on(db: sqlite3.Connection, places: set[Place]) -> set[int]:
    """Of the cards that rest on any of these turns."""
    wanted: dict[str, set[str]] = {}
    for session_id, turn in places:
        wanted.setdefault(session_id, set()).add(str(turn))
    found = db.execute(
        "SELECT c.key, s.id, c.turns FROM sessions s JOIN cards c ON c.session = s.key "
        "WHERE s.id IN (SELECT value FROM json_each(?))",
        (json.dumps(list(wanted)),),
    )
    return {key for key, id, turns in found if not wanted[id].isdisjoint(turns.split())}


def _turn_vectors(db: sqlite3.Connection, wanted: set[Place]) -> Mapping[Place, Vectors]:
    """The vectors of each turn's passages. Turns without any are left out. Of a session's vectors
    only those wanted are read: one turn in twenty, often."""
    asked: dict[str, list[int]] = {}
    for session_id, turn in wanted:
        asked.setdefault(session_id, []).append(turn)
    found = db.execute(
        "SELECT s.id, p.first, p.spans, length(p.vectors) FROM sessions s JOIN passage_chunks p "
        "ON p.session = s.key WHERE p.vectors IS NOT NULL "
        "AND s.id IN (SELECT value FROM json_each(?))",
        (json.dumps(list(asked)),),
    ).fetchall()
    read: list[bytes] = []
    lies: dict[Place, slice] = {}  # where each turn's vectors lie in all that was read
    end = 0
    for session_id, chunk, spans, size in found:
        turns = rows.spans_of(spans)[:, 0].tolist()
        width = rows.width_of(size, len(turns))
        with drivers.blob(db, "passage_chunks", "vectors", chunk) as packed:
            for turn in asked[session_id]:
                if count := turns.count(turn):  # they lie side by side
                    packed.seek(turns.index(turn) * width)
                    read.append(packed.read(count * width))
                    lies[session_id, turn] = slice(end, end := end + count)
    if not lies:
        return {}
    vectors = np.frombuffer(b"".join(read), np.float32).reshape(end, -1)
    return {place: vectors[lie] for place, lie in lies.items()}
