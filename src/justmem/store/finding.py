"""Search in a space: what is near, what shares words, and the cards that rest on turns that do.

All that a question needs comes from one transaction, so that it sees one moment of the store.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import date
from itertools import islice
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from justmem.domain import Passage
from justmem.ports import INDEXES, Found, Hits, Index, Pair, Place, Reach, Vectors, View, best_bare
from justmem.store import reads, rows
from justmem.store.engine import Connection, among, one
from justmem.store.search import (
    Arrays,
    Block,
    During,
    Ints,
    content_words,
    ranked,
    union,
    unpacked_vectors,
    words,
)

_AT_ONCE = 512  # sessions that are loaded at a time
_HELD = 16 << 20  # bytes of stored vectors that a space holds in memory
Halves = NDArray[np.float16]
_NO_ROWS = np.zeros(0, np.int32)


class Stored:
    """The stored vectors of sessions, those that were read last."""

    def __init__(self) -> None:
        self._held: dict[tuple[Index, str], tuple[int, Halves | None]] = {}
        self._size = 0

    def of(self, db: Connection, kind: Index, blocks: Collection[Block]) -> dict[str, Halves]:
        """Those of a session that changed meanwhile are left out."""
        found: dict[str, Halves | None] = {}
        missing: dict[str, Block] = {}
        for block in blocks:
            generation, vectors = self._held.get((kind, block.session), (-1, None))
            if generation == block.generation:
                found[block.session] = vectors
            else:
                missing[block.session] = block
        columns = "session, generation, vectors"
        sql = f"SELECT {columns} FROM blocks WHERE space = ? AND kind = ? AND session IN"
        for id, generation, packed in among(db, sql, list(missing), db.space, kind):
            if generation == missing[id].generation:
                found[id] = unpacked_vectors(packed, len(missing[id]))
                self._hold((kind, id), generation, found[id])
        return {id: vectors for id, vectors in found.items() if vectors is not None}

    def _hold(self, key: tuple[Index, str], generation: int, vectors: Halves | None) -> None:
        old = self._held.pop(key, (0, None))[1]
        self._held[key] = generation, vectors
        self._size += _size(vectors) - _size(old)
        while self._size > _HELD:
            first = next(iter(self._held))
            self._size -= _size(self._held.pop(first)[1])

    def rows(self, db: Connection, arrays: Arrays, wanted: Ints) -> tuple[Ints, Vectors]:
        """Of these rows those that have a vector, in rising order, and their vectors."""
        located = list(arrays.located(np.unique(wanted)))
        held = self.of(db, arrays.kind, [block for block, _, _ in located])
        there = [(own, held[b.session][inside]) for b, own, inside in located if b.session in held]
        if not there:
            return _NO_ROWS, np.zeros((0, 0), np.float32)
        rows = np.concatenate([own for own, _ in there])
        return rows, np.concatenate([vectors for _, vectors in there]).astype(np.float32)


def _size(vectors: Halves | None) -> int:
    return 0 if vectors is None else vectors.nbytes


class Finder:
    """The arrays of one space, for all threads of this process that search it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.clear()

    def clear(self) -> None:
        self._arrays: dict[Index, Arrays] = {index: Arrays(index) for index in INDEXES}
        self._stored = Stored()
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
        generation, removals, cards = one(
            db, "SELECT generation, removals, cards FROM spaces WHERE space = ?", db.space
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
            arrays.expected = cards
            arrays.update(gone, [])
            while some := list(islice(blocks, _AT_ONCE)):
                arrays.update((), some)
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
        every = np.concatenate([each for both in found for each in both])
        rows, vectors = self._stored.rows(db, arrays, every)
        near: list[list[Pair]] = [[] for _ in views]
        if not len(rows):
            return near
        for place, query, both in zip(asked, queries, found, strict=True):
            best: list[Pair] = []
            for wanted, most in zip(both, (count, during.wanted if during else 0), strict=True):
                own = np.isin(rows, wanted)
                best = union(best, ranked(arrays.keys_at(rows[own]), vectors[own] @ query, most))
            near[place] = best
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
        said: list[Hits] = []
        if reach.passages:
            count = reach.passages
            said = self.search(db, views, "passages", count, count, reach.until)
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
            said=said,
            passages=self.passages_at(
                db, [key for each in said for key, _ in (*each.dense, *each.lexical)]
            ),
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
        """Of cards, in rising order of their keys. Zeros for a card without a vector."""
        with self._lock:
            arrays = self._current(db, "cards")
            there = arrays.rows_at(keys)
            rows, vectors = self._stored.rows(db, arrays, np.array(list(there.values()), np.int32))
        place = {row: n for n, row in enumerate(rows.tolist())}
        found = np.zeros((len(keys), vectors.shape[1]), np.float32)
        for n, key in enumerate(keys):
            if there.get(key) in place:
                found[n] = vectors[place[there[key]]]
        return found

    def _turn_vectors(self, db: Connection, wanted: Collection[Place]) -> dict[Place, Vectors]:
        """The vectors of each turn's passages. Turns without any are left out."""
        asked: dict[str, list[int]] = {}
        for session_id, turn in wanted:
            asked.setdefault(session_id, []).append(turn)
        with self._lock:
            arrays = self._current(db, "passages")
            blocks = {id: block for id in asked if (block := arrays.block_of(id)) is not None}
            stored = self._stored.of(db, "passages", list(blocks.values()))
        found: dict[Place, Vectors] = {}
        for id, vectors in stored.items():
            numbers = blocks[id].places[:, 0].tolist()
            for turn in asked[id]:
                if count := numbers.count(turn):  # they lie side by side
                    first = numbers.index(turn)
                    found[id, turn] = vectors[first : first + count].astype(np.float32)
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
