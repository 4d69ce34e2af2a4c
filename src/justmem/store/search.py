"""Searches a space by vectors and by words.

Everything that a question needs is read in one transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from threading import Lock
from typing import NamedTuple, TypeVar

import numpy as np

from justmem.domain import Card, Passage, Session
from justmem.ports import Found, Hits, Index, Pair, Place, SearchLimits, Vectors, View
from justmem.store import codes, reads, terms
from justmem.store.arrays import Arrays, Flags
from justmem.store.engine import Connection

K = TypeVar("K", int, str)
V = TypeVar("V")
_ROWS, _TEXTS = 8192, 128  # cached cards, and as many passages; cached sessions
_NONE = np.zeros((0, 0), np.float32)


class _Ranked(NamedTuple):
    """What a view found: keys by its vector, in one or two lists, and keys by its words."""

    near: list[list[int]]
    lexical: list[Pair]


class Finder:
    """The arrays of one space, for all threads of this process that search it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.clear()

    def clear(self) -> None:
        self._state = reads.State(0, 0, 0)
        self._arrays: dict[Index, Arrays] = {}
        self._overview: reads.Overview | None = None
        # What was read before, by key. A row never changes.
        self._cards: dict[int, tuple[Card, bytes | None]] = {}
        self._passages: dict[int, tuple[Passage, bytes | None]] = {}
        self._texts: dict[str, Session] = {}  # of this state

    def overview(self, db: Connection) -> reads.Overview:
        """Counted once for each state of the space."""
        with self._lock:
            self._refresh(db)
            if self._overview is None:
                self._overview = reads.overview(db)
            return self._overview

    def _refresh(self, db: Connection) -> reads.State:
        state = reads.state(db)
        if state != self._state:
            self._overview, self._texts = None, {}
            if state.removals != self._state.removals:
                self._cards, self._passages = {}, {}
            self._state = state
        return state

    def _loaded(self, db: Connection, state: reads.State, index: Index, *, dense: bool) -> Arrays:
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
            found = self._passages_at(db, said.with_all(terms.content_words(views[0].text)))
            named = {key: passage for key, (passage, _) in found.items()}
            return Found({}, _NONE, (), (), {}, (), passages=named)
        cards = self._loaded(db, state, "cards", dense=True)
        heard = said.allowed(db, limits)
        spoken = [said.best(view.text, limits.spoken, heard) for view in views]
        quoted = _ranked(said, views, limits.passages, limits.passages, limits, heard)
        keys = {key for scores in spoken for key, _ in scores} | _keys(quoted)
        passages = self._passages_at(db, keys)
        places = [_places(passages, scores) for scores in spoken]

        stay = cards.allowed(db, limits)
        ranked = _ranked(cards, views, limits.dense, limits.lexical, limits, stay)
        resting = cards.with_any({place for each in places for place in each}, stay)
        read = _cached(self._cards, _keys(ranked).union(resting), partial(reads.cards_at, db))
        vectors = codes.unpack([vector for _, vector in read.values()])
        hits = _hits(views, ranked, list(read), vectors, limits.dense, limits.more)
        shown = _scored(hits).union(resting)
        told = {key: card for key, (card, _) in read.items() if key in shown}

        behind = {(card.session_id, turn) for card in told.values() for turn in card.turns}
        bare = _bare(places, behind, limits.quotes)
        texts = _cached(self._texts, {id for id, _ in bare}, partial(reads.texts, db), _TEXTS)
        said_vectors = codes.unpack([vector for _, vector in passages.values()])
        quotes = _hits(views, quoted, list(passages), said_vectors, limits.passages, limits.more)
        shown = _scored(quotes)
        near = behind.union(bare)
        return Found(
            cards=told,
            vectors=vectors[[key in told for key in read]],
            hits=hits,
            places=places,
            turns=_turn_vectors(near, self._passages_at(db, said.with_any(near))),
            bare=[(texts[id], turn) for id, turn in bare if id in texts],
            said=quotes,
            passages={key: passage for key, (passage, _) in passages.items() if key in shown},
        )

    def _passages_at(
        self, db: Connection, keys: Iterable[int]
    ) -> dict[int, tuple[Passage, bytes | None]]:
        return _cached(self._passages, keys, partial(reads.passages_at, db))


def _cached(
    cache: dict[K, V],
    keys: Iterable[K],
    load: Callable[[list[K]], Mapping[K, V]],
    most: int = _ROWS,
) -> dict[K, V]:
    """The values of these keys, in order. A cache that would hold too much is emptied first."""
    wanted = sorted(set(keys))
    missing = [key for key in wanted if key not in cache]
    if len(cache) + len(missing) > most:
        cache.clear()
        missing = wanted
    if missing:
        cache |= load(missing)
    return {key: cache[key] for key in wanted if key in cache}


def _ranked(
    arrays: Arrays,
    views: Sequence[View],
    dense: int,
    lexical: int,
    limits: SearchLimits,
    stay: Flags | None,
) -> list[_Ranked]:
    near: list[list[list[int]]] = [[] for _ in views]
    if dense and views and all(view.vector.size for view in views):
        queries = np.stack([np.asarray(view.vector, np.float32) for view in views])
        near = arrays.near(queries, dense, limits, stay)
    return [
        _Ranked(found, arrays.best(view.text, lexical, stay))
        for view, found in zip(views, near, strict=True)
    ]


def _hits(
    views: Sequence[View],
    ranked: Sequence[_Ranked],
    keys: Sequence[int],
    vectors: Vectors,
    *counts: int,
) -> list[Hits]:
    """The nearest of each view, scored with all bits. `keys`: of the vectors. `counts`: how many
    of each list."""
    hits = []
    for view, own in zip(views, ranked, strict=True):
        near = vectors @ view.vector if vectors.shape[1] == view.vector.size else ()
        scores: dict[int, float] = dict(zip(keys, near, strict=False))
        best: dict[int, float] = {}
        for found, count in zip(own.near, counts, strict=False):
            there = [(key, scores[key]) for key in found if key in scores]
            best |= dict(sorted(there, key=_by_score)[:count])
        hits.append(Hits(sorted(best.items(), key=_by_score), own.lexical))
    return hits


def _by_score(pair: Pair) -> tuple[float, int]:
    return -pair[1], pair[0]


def _keys(ranked: Iterable[_Ranked]) -> set[int]:
    return {key for each in ranked for key in chain(*each.near, (key for key, _ in each.lexical))}


def _scored(hits: Iterable[Hits]) -> set[int]:
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
