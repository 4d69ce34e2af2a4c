"""Searches a space by vectors and by words.

Everything that a question needs is read in one transaction.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from threading import Lock
from typing import NamedTuple, TypeVar

import numpy as np

from justmem.domain import Card, Passage, Session
from justmem.ports import Found, Hits, Index, Pair, Place, SearchLimits, Vectors, View
from justmem.ports.vectors import Coded
from justmem.store import reads, rows
from justmem.store.engine import Connection, among, one
from justmem.store.session_index import Block, content_words, unpacked_vectors, words
from justmem.store.space_index import Arrays, During, Rows

_HELD = 16 << 20  # bytes of cached vectors of passages
_CARDS, _TEXTS = 1024, 128  # cached cards and sessions of a space


K = TypeVar("K")
V = TypeVar("V")


class _State(NamedTuple):
    generation: int
    removals: int


class Finder:
    """The arrays of one space, for all threads of this process that search it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.clear()

    def clear(self) -> None:
        self._arrays: dict[Index, Arrays] = {}
        self._said: dict[tuple[str, int], Coded | None] = {}  # of passages
        self._held = 0
        self._subjects: tuple[int, dict[str, int]] = (-1, {})
        self._removals = -1
        self._cards: dict[int, Card] = {}  # recently found cards, by key
        self._texts: dict[str, Session] = {}

    def subjects(self, db: Connection) -> dict[str, int]:
        """How many cards each subject has. Counted once for each generation."""
        (generation,) = one(db, "SELECT generation FROM spaces WHERE space = ?", db.space)
        if self._subjects[0] != generation:
            self._subjects = generation, reads.subjects(db)
        return self._subjects[1]

    # ------------------------------------------------------------ loading

    def _current(self, db: Connection, index: Index) -> Arrays:
        return self._loaded(db, index, self._state(db))

    def _state(self, db: Connection) -> _State:
        """Drops cached cards and texts if something was removed."""
        sql = "SELECT generation, removals FROM spaces WHERE space = ?"
        state = _State(*one(db, sql, db.space))
        if state.removals != self._removals:
            self._cards, self._texts, self._removals = {}, {}, state.removals
        return state

    def _loaded(
        self, db: Connection, index: Index, state: _State, *, dense: bool = False
    ) -> Arrays:
        """The arrays of this generation, or of a later one that another thread has loaded."""
        generation, removals = state
        # Removed first: if reading fails, the next search loads them again.
        arrays = self._arrays.pop(index, None)
        if arrays is None or (dense and not arrays.dense):
            arrays = Arrays(index, dense=dense or index == "cards")
        if arrays.generation < generation:
            gone: set[str] = set()
            if arrays.generation >= 0 and arrays.removals != removals:
                sql = "SELECT session FROM blocks WHERE space = ? AND kind = ?"
                gone = arrays.parts.keys() - {id for (id,) in db.rows(sql, db.space, index)}
            blocks = reads.blocks(db, kind=index, after=arrays.generation, vectors=arrays.dense)
            arrays.update(gone, blocks)
            arrays.generation, arrays.removals = generation, removals
        self._arrays[index] = arrays
        return arrays

    # ------------------------------------------------------------ searching

    def find(self, db: Connection, views: Sequence[View], limits: SearchLimits) -> Found:
        with self._lock:
            return self._find(db, views, limits)

    def _find(self, db: Connection, views: Sequence[View], limits: SearchLimits) -> Found:
        state = self._state(db)
        if limits.mentions:
            said = self._loaded(db, "passages", state)
            named = _passages(said, said.with_all(content_words(views[0].text)))
            return Found({}, np.zeros((0, 0), np.float32), (), (), {}, (), passages=named)
        cards = self._loaded(db, "cards", state)
        dense = bool(limits.passages) and any(view.vector.size for view in views)
        said = self._loaded(db, "passages", state, dense=dense)
        hits = _hits(cards, views, limits.dense, limits.lexical, limits, _during(limits))
        keys = _keys(hits)
        stay = said.allowed(limits)
        spoken = [said.best(v.text, limits.spoken, stay) if limits.spoken else [] for v in views]
        places = self._places(said, spoken)
        keys |= _resting_on(
            cards, {place for scores in places for place in scores}, cards.allowed(limits)
        )
        found = _cached(self._cards, sorted(keys), _CARDS, partial(reads.cards_at, db))
        resting = {(card.session_id, turn) for card in found.values() for turn in card.turns}
        bare = _bare(places, resting, limits.quotes)
        passages = _hits(said, views, limits.passages, limits.passages, limits)
        there = cards.rows_at(list(found))
        ids = sorted({id for id, _ in bare})
        texts = _cached(self._texts, ids, _TEXTS, partial(reads.texts, db))
        return Found(
            cards=found,
            vectors=cards.vectors(np.array([there[key] for key in found], np.int64)),
            hits=hits,
            places=places,
            turns=self._turn_vectors(db, said, resting | set(bare)),
            bare=[(texts[id], turn) for id, turn in bare if id in texts],
            said=passages,
            passages=_passages(said, _keys(passages)),
        )

    def _places(self, said: Arrays, spoken: Sequence[Sequence[Pair]]) -> list[dict[Place, float]]:
        """For each view, the turns that share its words."""
        passages = _passages(said, {key for hits in spoken for key, _ in hits})
        found: list[dict[Place, float]] = []
        for hits in spoken:
            scores: dict[Place, float] = {}
            for key, score in hits:
                place = passages[key].session_id, passages[key].turn
                scores[place] = max(score, scores.get(place, 0.0))
            found.append(scores)
        return found

    def _turn_vectors(
        self, db: Connection, said: Arrays, wanted: Collection[Place]
    ) -> dict[Place, Vectors]:
        """The vectors of each turn's passages. Turns without any are left out."""
        parts = {id: said.parts[id] for id, _ in wanted if id in said.parts}
        stored = self._stored(db, parts.values())
        turns = {id: parts[id].places[:, 0].tolist() for id in stored}
        found: dict[Place, Coded] = {}
        for id, turn in wanted:
            if id in stored:  # the passages of a turn are consecutive
                first, end = bisect_left(turns[id], turn), bisect_right(turns[id], turn)
                if end > first:
                    found[id, turn] = stored[id].at(slice(first, end))
        if not found:
            return {}
        vectors = Coded(*map(np.concatenate, zip(*found.values(), strict=True))).vectors
        ends = np.cumsum([len(each.scales) for each in found.values()])
        return dict(zip(found, np.split(vectors, ends[:-1]), strict=True))

    def _stored(self, db: Connection, parts: Collection[Block]) -> dict[str, Coded]:
        """The vectors of passages, by session, except for sessions that changed meanwhile."""
        missing = {p.session: p for p in parts if (p.session, p.generation) not in self._said}
        sql = (
            "SELECT session, generation, vectors FROM blocks "
            "WHERE space = ? AND kind = 'passages' AND session IN"
        )
        for id, generation, packed in among(db, sql, list(missing), db.space):
            if generation == missing[id].generation:
                self._said[id, generation] = unpacked_vectors(packed, len(missing[id]))
                self._held += len(packed or b"")
        held = {part.session: self._said.get((part.session, part.generation)) for part in parts}
        if self._held > _HELD:
            self._said, self._held = {}, 0
        return {id: vectors for id, vectors in held.items() if vectors is not None}

    # ------------------------------------------------------------ by words alone

    def card_keys(self, db: Connection, text: str) -> list[int]:
        """Keys of the cards that hold all words of the text."""
        with self._lock:
            return self._current(db, "cards").with_all(content_words(text) or words(text))


def _cached(
    cache: dict[K, V], keys: Sequence[K], most: int, load: Callable[[Sequence[K]], Mapping[K, V]]
) -> dict[K, V]:
    """Values in the order of their keys. Loads those that are not cached. A cache that would hold
    more than `most` is emptied first."""
    missing = [key for key in keys if key not in cache]
    if len(cache) + len(missing) > most:
        cache.clear()
        missing = list(keys)
    if missing:
        cache |= load(missing)
    return {key: cache[key] for key in keys if key in cache}


def _hits(
    arrays: Arrays,
    views: Sequence[View],
    dense: int,
    lexical: int,
    limits: SearchLimits,
    during: During | None = None,
) -> list[Hits]:
    """`limits` restricts the search by day and session."""
    stay = arrays.allowed(limits)
    near: list[list[Pair]] = [[] for _ in views]
    asked = [place for place, view in enumerate(views) if view.vector.size]
    if dense and asked:
        queries = np.stack([np.asarray(views[place].vector, np.float32) for place in asked])
        for place, found in zip(asked, arrays.nearest(queries, dense, stay, during), strict=True):
            near[place] = found
    return [
        Hits(found, arrays.best(view.text, lexical, stay) if lexical else [])
        for view, found in zip(views, near, strict=True)
    ]


def _during(limits: SearchLimits) -> During | None:
    if limits.during is None or not limits.more:
        return None
    first, last = limits.during
    return During(first.toordinal(), last.toordinal(), limits.more)


def _keys(hits: Iterable[Hits]) -> set[int]:
    return {key for each in hits for key, _ in chain(each.dense, each.lexical)}


def _resting_on(cards: Arrays, places: Collection[Place], stay: Rows | None) -> set[int]:
    """Keys of the cards that rest on any of these turns. A card may have been said later than the
    first of its turns."""
    found: set[int] = set()
    for session_id, turn in places:
        if (part := cards.parts.get(session_id)) is not None:
            own = part.places[part.places[:, 1] == turn, 0]
            found.update((own + part.first).tolist())
    if stay is not None:
        found = {key for key, row in cards.rows_at(sorted(found)).items() if stay[row]}
    return found


def _bare(
    places: Sequence[Mapping[Place, float]], resting: Collection[Place], count: int
) -> list[Place]:
    """The best turns that views found by words and that no card rests on."""
    best: dict[Place, float] = {}
    for scores in places:
        for place, score in scores.items():
            if place not in resting:
                best[place] = max(score, best.get(place, 0.0))
    return sorted(best, key=lambda place: (-best[place], place))[:count]


def _passages(said: Arrays, keys: Iterable[int]) -> dict[int, Passage]:
    there = said.rows_at(sorted(keys))
    parts = said.parts_of(there.values())
    return {
        key: rows.passage(part.session, part.places[at].tolist())
        for key, (part, at) in zip(there, parts, strict=True)
    }
