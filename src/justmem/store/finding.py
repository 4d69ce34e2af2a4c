"""Search in a space: what is near, what shares words, and the cards that rest on turns that do.

All that a question needs comes from one transaction, so that it sees one moment of the store.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import date
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from justmem.domain import Passage
from justmem.ports import INDEXES, Found, Hits, Index, Pair, Place, Reach, Vectors, View, best_bare
from justmem.store import reads, rows
from justmem.store.engine import Connection, among, one
from justmem.store.search import (
    Arrays,
    During,
    Ints,
    content_words,
    ranked,
    union,
    unpacked_vectors,
    words,
)

Stored = Mapping[str, Vectors]  # of each session, the vectors of its block


class Finder:
    """The arrays of one space, for all threads of this process that search it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.clear()

    def clear(self) -> None:
        self._arrays: dict[Index, Arrays] = {index: Arrays(index) for index in INDEXES}
        self._subject: tuple[int, str | None] = (-1, None)

    def main_subject(self, db: Connection) -> str | None:
        """Counted once for each generation: it reads every card."""
        (generation,) = one(db, "SELECT generation FROM spaces WHERE space = ?", db.space)
        if self._subject[0] != generation:
            self._subject = generation, reads.main_subject(db)
        return self._subject[1]

    # ------------------------------------------------------------ loading

    def _current(self, db: Connection, index: Index, *, dense: bool = False) -> Arrays:
        """The arrays as they are now, or newer where another thread has moved on already."""
        generation, removals = one(
            db, "SELECT generation, removals FROM spaces WHERE space = ?", db.space
        )
        arrays = self._arrays[index]
        if dense and not arrays.dense:
            arrays = Arrays(index)
            arrays.dense = True
        if arrays.generation < generation:
            gone: Collection[str] = ()
            if arrays.removals != removals:
                sql = "SELECT session FROM blocks WHERE space = ? AND kind = ?"
                there = {id for (id,) in db.rows(sql, db.space, index)}
                gone = set(arrays.sessions) - there
            blocks = reads.blocks(db, kind=index, after=arrays.generation, vectors=arrays.dense)
            # Should reading fail, the next search begins anew.
            self._arrays[index] = Arrays(index)
            arrays.update(gone, list(blocks))
            arrays.generation, arrays.removals = generation, removals
        self._arrays[index] = arrays
        return arrays

    # ------------------------------------------------------------ searching

    def search(
        self,
        db: Connection,
        views: Sequence[View],
        index: Index,
        dense: int,
        lexical: int,
        until: date | None,
        during: During | None = None,
    ) -> list[Hits]:
        with self._lock:
            near: list[list[Pair]] = [[] for _ in views]
            last = None if until is None else until.toordinal()
            if dense and any(view.vector.size for view in views):
                near = self._nearest(db, views, index, dense, last, during)
            arrays = self._current(db, index)
            return [
                Hits(found, arrays.best(view.text, lexical, last) if lexical else [])
                for view, found in zip(views, near, strict=True)
            ]

    def _nearest(
        self,
        db: Connection,
        views: Sequence[View],
        index: Index,
        count: int,
        until: int | None,
        during: During | None,
    ) -> list[list[Pair]]:
        arrays = self._current(db, index, dense=True)
        asked = [place for place, view in enumerate(views) if view.vector.size]
        queries = np.stack([np.asarray(views[place].vector, np.float32) for place in asked])
        found = arrays.candidates(queries, count, until, during)
        every = np.concatenate([rows for each in found for rows in each])
        stored, of_row = _rows(db, arrays, every)
        near: list[list[Pair]] = [[] for _ in views]
        for place, query, (best, more) in zip(asked, queries, found, strict=True):
            wanted = 0 if during is None else during.wanted
            near[place] = union(
                _scored(arrays, best, stored, of_row, query, count),
                _scored(arrays, more, stored, of_row, query, wanted),
            )
        return near

    def find(self, db: Connection, views: Sequence[View], reach: Reach) -> Found:
        during = None
        if reach.during and reach.more:
            first, last = reach.during
            during = During(first.toordinal(), last.toordinal(), reach.more)
        hits = self.search(db, views, "cards", reach.dense, reach.lexical, reach.until, during)
        keys = {key for each in hits for key, _ in (*each.dense, *each.lexical)}
        places: list[dict[Place, float]] = [{} for _ in views]
        if reach.spoken:
            spoken = self.search(db, views, "passages", 0, reach.spoken, reach.until)
            places = self._places(db, spoken)
            keys |= self._keys_on(db, {place for scores in places for place in scores})
        cards = reads.cards_at(db, sorted(keys))
        resting = {(card.session_id, turn) for card in cards.values() for turn in card.turns}
        bare = set(best_bare(places, resting, reach.quotes))
        return Found(
            cards=cards,
            vectors=self._vectors_of(db, list(cards)),
            hits=hits,
            places=places,
            turns=self._turn_vectors(db, resting | bare),
            sessions=reads.texts(db, sorted({session_id for session_id, _ in bare})),
        )

    def _places(self, db: Connection, spoken: Sequence[Hits]) -> list[dict[Place, float]]:
        """For each view, the turns that share its words."""
        passages = self.passages_at(db, list({key for hits in spoken for key, _ in hits.lexical}))
        found: list[dict[Place, float]] = []
        for hits in spoken:
            scores: dict[Place, float] = {}
            for key, score in hits.lexical:
                if key in passages:
                    place = passages[key].session_id, passages[key].turn
                    scores[place] = max(score, scores.get(place, 0.0))
            found.append(scores)
        return found

    def passages_at(self, db: Connection, keys: Sequence[int]) -> dict[int, Passage]:
        with self._lock:
            arrays = self._current(db, "passages")
            return {
                key: rows.passage(*arrays.passage_at(row))
                for key, row in arrays.rows_at(keys).items()
            }

    def _keys_on(self, db: Connection, places: Collection[Place]) -> set[int]:
        """Keys of the cards that rest on any of these turns."""
        found: set[int] = set()
        with self._lock:
            arrays = self._current(db, "cards")
            for session_id, turn in places:
                if (block := arrays.block_of(session_id)) is not None:
                    own = block.places[block.places[:, 1] == turn, 0]
                    found.update(block.keys[own].tolist())
        return found

    def _vectors_of(self, db: Connection, keys: Sequence[int]) -> Vectors:
        """Of cards, in the order of the keys. Zeros for a card without a vector."""
        with self._lock:
            arrays = self._current(db, "cards")
            there = arrays.rows_at(keys)
            stored, of_row = _rows(db, arrays, np.array(list(there.values()), np.int32))
        found = np.zeros((len(keys), stored.shape[1]), np.float32)
        for place, key in enumerate(keys):
            if key in there and there[key] in of_row:
                found[place] = stored[of_row[there[key]]]
        return found

    def _turn_vectors(self, db: Connection, wanted: Collection[Place]) -> dict[Place, Vectors]:
        """The vectors of each turn's passages. Turns without any are left out."""
        asked: dict[str, list[int]] = {}
        for session_id, turn in wanted:
            asked.setdefault(session_id, []).append(turn)
        with self._lock:
            arrays = self._current(db, "passages")
            blocks = {id: block for id in asked if (block := arrays.block_of(id)) is not None}
        stored = _stored(db, "passages", {id: len(block) for id, block in blocks.items()})
        found: dict[Place, Vectors] = {}
        for id, vectors in stored.items():
            numbers = blocks[id].places[:, 0]
            for turn in asked[id]:
                own = np.flatnonzero(numbers == turn)
                if len(own):
                    found[id, turn] = vectors[own].astype(np.float32)
        return found

    # ------------------------------------------------------------ by words alone

    def card_keys(self, db: Connection, text: str) -> set[int]:
        """Keys of the cards that hold all words of the text."""
        wanted = words(text)
        with self._lock:
            found = self._current(db, "cards").with_all(content_words(text) or wanted)
        return set(found.tolist())

    def mentions(self, db: Connection, text: str) -> list[Passage]:
        with self._lock:
            keys = self._current(db, "passages").with_all(content_words(text)).tolist()
        return list(self.passages_at(db, keys).values())


def _stored(
    db: Connection, kind: Index, sizes: Mapping[str, int]
) -> dict[str, NDArray[np.float16]]:
    """The stored vectors of sessions; those of a session that changed meanwhile are left out."""
    found: dict[str, NDArray[np.float16]] = {}
    sql = f"SELECT session, vectors FROM blocks WHERE space = ? AND kind = '{kind}' AND session IN"
    for id, packed in among(db, sql, list(sizes), db.space):
        if packed is not None and not len(packed) % (2 * sizes[id]):
            vectors = unpacked_vectors(packed, sizes[id])
            assert vectors is not None
            found[id] = vectors
    return found


def _rows(db: Connection, arrays: Arrays, wanted: Ints) -> tuple[Vectors, dict[int, int]]:
    """The stored vectors of these rows, and which of them is which row's."""
    located = arrays.located(wanted)
    sizes = {id: len(block) for id in located if (block := arrays.block_of(id)) is not None}
    parts: list[NDArray[np.float16]] = []
    of_row: dict[int, int] = {}
    for id, vectors in _stored(db, arrays.kind, sizes).items():
        own, inside = located[id]
        of_row.update(zip(own.tolist(), range(len(of_row), len(of_row) + len(own)), strict=True))
        parts.append(vectors[inside])
    if not parts:
        return np.zeros((0, 0), np.float32), {}
    return np.concatenate(parts).astype(np.float32), of_row


def _scored(
    arrays: Arrays,
    rows: Ints,
    stored: Vectors,
    of_row: Mapping[int, int],
    query: Vectors,
    count: int,
) -> list[Pair]:
    """The nearest of these rows, by their stored vectors."""
    there = [row for row in rows.tolist() if row in of_row]
    if not there:
        return []
    scores = stored[[of_row[row] for row in there]] @ query
    return ranked(arrays.keys_at(np.array(there, np.int32)), scores, count)
