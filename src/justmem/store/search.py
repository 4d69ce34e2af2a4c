"""Searches a space by vectors and by words.

Everything that a question needs is read in one transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain
from threading import Lock
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from justmem.domain import Passage, Session
from justmem.ports import Found, Hits, Index, Pair, Place, SearchLimits, Vectors, View
from justmem.store import codes, reads, terms
from justmem.store.arrays import Arrays, Flags
from justmem.store.engine import Connection

K = TypeVar("K", int, str)
V = TypeVar("V")
Load = Callable[[Connection, Collection[K]], Mapping[K, V]]
_NONE = np.zeros((0, 0), np.float32)


class _Cache(Generic[K, V]):
    """What was read before, by key. If it would hold too much, it is emptied first."""

    def __init__(self, load: Load[K, V], most: int) -> None:
        self._load: Load[K, V] = load
        self._most = most
        self._held: dict[K, V] = {}

    def read(self, db: Connection, keys: Iterable[K]) -> dict[K, V]:
        """The values of these keys, in order."""
        held, wanted = self._held, sorted(set(keys))
        missing = [key for key in wanted if key not in held]
        if len(held) + len(missing) > self._most:
            held = self._held = {}
            missing = wanted
        if missing:
            held.update(self._load(db, missing))
        return {key: held[key] for key in wanted if key in held}

    def clear(self) -> None:
        self._held = {}  # a new one: another thread may be reading the old one


class _Rows(NamedTuple, Generic[V]):
    """What the views found in one index."""

    rows: Mapping[int, tuple[V, bytes | None]]  # by key, in order, with packed vectors
    vectors: Vectors  # of these rows
    hits: Sequence[Hits]  # of each view


class Finder:
    """The arrays of one space, for all threads of this process that search it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._cards = _Cache(reads.cards_at, 8192)  # a row never changes
        self._passages = _Cache(reads.passages_at, 8192)
        self._texts: _Cache[str, Session] = _Cache(reads.texts, 128)  # of this state
        self.clear()

    def clear(self) -> None:
        self._state = reads.IndexState(0, 0, 0)
        self._arrays: dict[Index, Arrays] = {}
        self._overview: reads.Overview | None = None
        for cache in (self._cards, self._passages, self._texts):
            cache.clear()

    def overview(self, db: Connection) -> reads.Overview:
        """Read once for each state of the space."""
        with self._lock:
            self._refresh(db)
            if self._overview is None:
                self._overview = reads.overview(db)
            return self._overview

    def _refresh(self, db: Connection) -> reads.IndexState:
        state = reads.state(db)
        if state != self._state:
            self._overview = None
            self._texts.clear()
            if state.removals != self._state.removals:
                self._cards.clear()
                self._passages.clear()
            self._state = state
        return state

    def _loaded(
        self, db: Connection, state: reads.IndexState, index: Index, *, dense: bool
    ) -> Arrays:
        # Removed first: if reading fails, the next search loads them again.
        arrays = self._arrays.pop(index, None)
        if arrays is None or (dense and not arrays.dense):
            arrays = Arrays(index, dense=dense)
        arrays.update(db, *state)
        self._arrays[index] = arrays
        return arrays

    def card_keys(self, db: Connection, text: str) -> list[int]:
        """Keys of the cards that hold all words of the text."""
        with self._lock:
            cards = self._loaded(db, self._refresh(db), "cards", dense=True)
            return cards.with_all(terms.content_words(text) or terms.words(text))

    def find(self, db: Connection, views: Sequence[View], limits: SearchLimits) -> Found:
        with self._lock:
            return self._find(db, views, limits)

    def _find(self, db: Connection, views: Sequence[View], limits: SearchLimits) -> Found:
        state = self._refresh(db)
        said = self._loaded(db, state, "passages", dense=bool(limits.passages))
        if limits.mentions:
            rows = self._passages.read(db, said.with_all(terms.content_words(views[0].text)))
            named = {key: passage for key, (passage, _) in rows.items()}
            return Found({}, _NONE, (), (), {}, (), passages=named)
        cards = self._loaded(db, state, "cards", dense=True)

        heard, most = said.allowed(db, limits), limits.passages
        spoken = [said.best(view.text, limits.spoken, heard) for view in views]
        also = {key for scores in spoken for key, _ in scores}
        quoted = _search(db, said, self._passages, views, most, most, limits, heard, also)
        places = [_places(quoted.rows, scores) for scores in spoken]

        stay = cards.allowed(db, limits)
        resting = cards.with_any({place for each in places for place in each}, stay)
        counts = limits.dense, limits.lexical
        found = _search(db, cards, self._cards, views, *counts, limits, stay, resting)
        shown = _keys(found.hits).union(resting)
        told = {key: card for key, (card, _) in found.rows.items() if key in shown}

        behind = {(card.session_id, turn) for card in told.values() for turn in card.turns}
        bare = _bare(places, behind, limits.quotes)
        texts = self._texts.read(db, {id for id, _ in bare})
        near, shown = behind.union(bare), _keys(quoted.hits)
        return Found(
            cards=told,
            vectors=found.vectors[[key in told for key in found.rows]],
            hits=found.hits,
            by_words=places,
            turns=_turn_vectors(near, self._passages.read(db, said.with_any(near))),
            bare=[(texts[id], turn) for id, turn in bare if id in texts],
            said=quoted.hits,
            passages={key: passage for key, (passage, _) in quoted.rows.items() if key in shown},
        )


def _search(
    db: Connection,
    arrays: Arrays,
    cache: _Cache[int, tuple[V, bytes | None]],
    views: Sequence[View],
    dense: int,
    lexical: int,
    limits: SearchLimits,
    stay: Flags | None,
    also: Iterable[int],
) -> _Rows[V]:
    """Searches one index by vectors and by words. `also`: keys of rows to read as well."""
    near = arrays.near(views, dense, limits, stay)
    by_words = [arrays.best(view.text, lexical, stay) for view in views]
    keys = {*also, *(key for pairs in by_words for key, _ in pairs)}
    rows = cache.read(db, keys.union(*(found for lists in near for found in lists)))
    vectors = codes.unpack([vector for _, vector in rows.values()])
    hits = []
    for view, lists, pairs in zip(views, near, by_words, strict=True):
        fits = vectors.shape[1] == view.vector.size
        scores = dict(zip(rows, (vectors @ view.vector).tolist(), strict=True)) if fits else {}
        hits.append(Hits(_nearest(lists, scores, dense, limits.more), pairs))
    return _Rows(rows, vectors, hits)


def _nearest(
    lists: Iterable[Iterable[int]], scores: Mapping[int, float], *counts: int
) -> list[Pair]:
    """The best of each list of keys, by their scores. `counts`: how many of each list."""
    best: dict[int, float] = {}
    for keys, count in zip(lists, counts, strict=False):
        there = [(key, scores[key]) for key in keys if key in scores]
        best |= dict(sorted(there, key=_by_score)[:count])
    return sorted(best.items(), key=_by_score)


def _by_score(pair: Pair) -> tuple[float, int]:
    return -pair[1], pair[0]


def _keys(hits: Iterable[Hits]) -> set[int]:
    return {key for each in hits for key, _ in chain(each.dense, each.lexical)}


def _places(
    passages: Mapping[int, tuple[Passage, bytes | None]], scores: Iterable[Pair]
) -> dict[Place, float]:
    """The best score of each turn."""
    best: dict[Place, float] = {}
    for key, score in scores:
        if key in passages:
            said, _ = passages[key]
            place = said.session_id, said.turn
            best[place] = max(score, best.get(place, 0.0))
    return best


def _bare(
    places: Sequence[Mapping[Place, float]], behind: Collection[Place], count: int
) -> list[Place]:
    """The best turns that views found by words and that no card rests on."""
    best: dict[Place, float] = {}
    for scores in places:
        for place, score in scores.items():
            if place not in behind:
                best[place] = max(score, best.get(place, 0.0))
    return sorted(best, key=lambda place: (-best[place], place))[:count]


def _turn_vectors(
    wanted: Collection[Place], passages: Mapping[int, tuple[Passage, bytes | None]]
) -> dict[Place, Vectors]:
    """The vectors of each turn's passages. Turns without any are left out."""
    packed = [(passage, vector) for passage, vector in passages.values() if vector]
    vectors = codes.unpack([vector for _, vector in packed])
    rows: dict[Place, list[int]] = {}
    for row, (passage, _) in enumerate(packed):
        rows.setdefault((passage.session_id, passage.turn), []).append(row)
    return {place: vectors[own] for place, own in rows.items() if place in wanted}
