"""Views -> the candidate union (Eq. 2), with every signal that may order it.

Three ways lead to a card: its vector is near to a view, it shares the view's words, or the turns
it rests on do: people ask in the words that were said, which a card may not have kept. A turn
that shares the words and that no card rests on is a candidate itself, as a quote: what an
extractor left out can still be found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

import numpy as np

from justmem.domain import Budget, Card, Profile
from justmem.ports import Hits, Place, Store, Vectors, View
from justmem.quotes import quote
from justmem.ranking import Scores

_QUOTES = 4  # turns without a card that may become candidates


@dataclass(frozen=True, slots=True)
class Pool:
    """Candidates with what speaks for each; `signals` are matrices of views by candidates."""

    cards: Sequence[Card]
    vectors: Vectors
    signals: Mapping[str, Scores]
    quotes: Sequence[bool]


class Discovery:
    def __init__(self, store: Store, budget: Budget, profile: Profile) -> None:
        self._store = store
        self._budget = budget
        self._profile = profile

    async def pool(self, views: Sequence[View], until: date, *, remark: bool) -> Pool:
        """For a remark no quotes: it shares no words with what lies behind it."""
        budget, profile = self._budget, self._profile
        near = await self._store.search(
            views, "cards", dense=budget.dense, lexical=budget.lexical, until=until
        )
        keys = {key for hits in near for key, _ in (*hits.dense, *hits.lexical)}
        found = dict(await self._store.cards_at(sorted(keys)))
        places: list[dict[Place, float]] = [{} for _ in views]
        if profile.turns:
            spoken = await self._store.search(
                views, "passages", dense=0, lexical=budget.lexical // 2, until=until
            )
            places = await self._places(spoken)
            found |= await self._store.cards_on(list({p for scores in places for p in scores}))
        cards = [found[key] for key in sorted(found)]
        said = await self._quotes(cards, places) if profile.quotes and not remark else []
        return await self._weighed(views, found, cards, said, near, places)

    async def _places(self, spoken: Sequence[Hits]) -> list[dict[Place, float]]:
        """For each view, the turns that share its words."""
        keys = {key for hits in spoken for key, _ in hits.lexical}
        passages = await self._store.passages_at(list(keys))
        found: list[dict[Place, float]] = []
        for hits in spoken:
            scores: dict[Place, float] = {}
            for key, score in hits.lexical:
                if key in passages:
                    place = passages[key].session_id, passages[key].turn
                    scores[place] = max(score, scores.get(place, 0.0))
            found.append(scores)
        return found

    async def _quotes(
        self, cards: Sequence[Card], places: Sequence[Mapping[Place, float]]
    ) -> list[Card]:
        """The best user-side turns among `places` that no card rests on, as cards."""
        covered = {(card.session_id, turn) for card in cards for turn in card.turns}
        best: dict[Place, float] = {}
        for scores in places:
            for place, score in scores.items():
                if place not in covered:
                    best[place] = max(score, best.get(place, 0.0))
        quotes = []
        for session_id, number in sorted(best, key=lambda place: (-best[place], place))[:_QUOTES]:
            session = await self._store.session(session_id)
            if session.turn(number).role == "user":
                quotes.append(quote(session, number))
        return quotes

    async def _weighed(
        self,
        views: Sequence[View],
        found: Mapping[int, Card],
        cards: Sequence[Card],
        quotes: Sequence[Card],
        near: Sequence[Hits],
        places: Sequence[Mapping[Place, float]],
    ) -> Pool:
        queries = np.stack([view.vector for view in views])
        everyone = [*cards, *quotes]
        turns = await self._store.turn_vectors(
            list({(card.session_id, turn) for card in everyone for turn in card.turns})
        )
        # A quote has no vector of its own: its turn's stands for it.
        own = [turns[said.session_id, said.turns[0]][:1] for said in quotes]
        known = await self._store.card_vectors(sorted(found))
        # A space without cards does not know how long its vectors are.
        vectors = np.concatenate([known.reshape(-1, queries.shape[1]), *own])
        signals = {
            "dense": queries @ vectors.T,
            "lexical": _lexical(sorted(found), everyone, near, places),
        }
        if self._profile.turns:
            signals["turn"] = _turns(queries, everyone, turns)
        return Pool(
            cards=everyone,
            vectors=vectors,
            signals=signals,
            quotes=[False] * len(cards) + [True] * len(quotes),
        )


def _lexical(
    keys: Sequence[int],
    cards: Sequence[Card],
    near: Sequence[Hits],
    places: Sequence[Mapping[Place, float]],
) -> Scores:
    """What a card's own words score and the best of its turns', for each view."""
    signal = np.zeros((len(near), len(cards)), np.float32)
    column = {key: place for place, key in enumerate(keys)}
    for row, (hits, spoken) in enumerate(zip(near, places, strict=True)):
        for key, score in hits.lexical:
            if key in column:
                signal[row, column[key]] = score
        for index, card in enumerate(cards):
            said = [spoken.get((card.session_id, turn), 0.0) for turn in card.turns]
            signal[row, index] += max(said, default=0.0)
    return signal


def _turns(queries: Vectors, cards: Sequence[Card], vectors: Mapping[Place, Vectors]) -> Scores:
    """How near the best of each card's turns is, for each view."""
    if not vectors:
        return np.zeros((len(queries), len(cards)), np.float32)
    rows = list(vectors.values())
    starts = np.cumsum([0, *(len(each) for each in rows[:-1])])
    # One column for each turn, and a last one of zeros for cards whose turns have no vector.
    best = np.maximum.reduceat(queries @ np.concatenate(rows).T, starts, axis=1)
    best = np.pad(best, ((0, 0), (0, 1)))
    column = {place: index for index, place in enumerate(vectors)}
    turns = [
        [column[place] for turn in card.turns if (place := (card.session_id, turn)) in column]
        or [len(column)]
        for card in cards
    ]
    firsts = np.cumsum([0, *(len(each) for each in turns[:-1])])
    signal: Scores = np.maximum.reduceat(
        best[:, [c for each in turns for c in each]], firsts, axis=1
    )
    return signal
