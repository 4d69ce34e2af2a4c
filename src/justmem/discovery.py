"""Views -> the candidate union (Eq. 2), with every signal that may order it.

Three ways lead to a card: its vector is near to a view, it shares the view's words, or the turns
it rests on do: people ask in the words that were said, which a card may not have kept. A turn
that shares the words and that no card rests on is a candidate itself, as a quote: what an
extractor left out can still be found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta

import numpy as np

from justmem.domain import Budget, Card, EventDate, Plan, Profile, Retention
from justmem.ports import Found, Place, Reach, Store, Vectors, View, best_bare
from justmem.quotes import quote
from justmem.ranking import Scores

_QUOTES = 4  # turns without a card that may become candidates
_SOON = timedelta(days=7)  # when most of what happens is told
_YEAR = timedelta(days=366)
_FARTHER = 8  # times as many candidates for a remark: what lies behind it is far from it


@dataclass(frozen=True, slots=True)
class Pool:
    """Candidates with what speaks for each; `signals` are matrices of views by candidates."""

    cards: Sequence[Card]
    vectors: Vectors
    signals: Mapping[str, Scores]
    quotes: Sequence[bool]


class Discovery:
    def __init__(
        self, store: Store, budget: Budget, profile: Profile, retention: Retention
    ) -> None:
        self._store = store
        self._budget = budget
        self._profile = profile
        self._retention = retention

    async def pool(self, views: Sequence[View], plan: Plan, asked: datetime) -> Pool:
        """For a remark no quotes: it shares no words with what lies behind it. What is older than
        the space allows is left out, whether or not it has been swept away yet."""
        budget, profile = self._budget, self._profile
        remark = plan.mode == "reply"
        reach = Reach(
            dense=budget.dense * (_FARTHER if remark and profile.reasons else 1),
            lexical=budget.lexical,
            spoken=budget.lexical // 2 if profile.turns else 0,
            quotes=_QUOTES if profile.quotes and not remark else 0,
            until=asked.date(),
            during=_told(plan.period) if profile.told else None,
        )
        if self._retention.limited and reach.quotes:  # some may be too old
            reach = replace(reach, quotes=reach.spoken)
        found = await self._store.find(views, reach)
        if self._retention.limited:
            found = _young(found, self._retention, asked)
        said = _quotes(found, replies=plan.needs_source) if reach.quotes else []
        return _weighed(views, found, said, turns=profile.turns)


def _told(period: EventDate) -> tuple[date, date] | None:
    """When something of that period is told: in it, within a week, or of a longer time within as
    long again. What happened then need not share a word with the question but its date."""
    if period.start is None or period.end is None:
        return None
    lasts = period.end - period.start
    if lasts > _YEAR:  # "before June": nearly all there is
        return None
    return period.start, period.end + min(max(lasts, _SOON), date.max - period.end)


def _young(found: Found, retention: Retention, asked: datetime) -> Found:
    stay = [not retention.card_expired(card, asked) for card in found.cards.values()]
    return replace(
        found,
        cards={
            key: card for (key, card), kept in zip(found.cards.items(), stay, strict=True) if kept
        },
        vectors=found.vectors[stay],
        sessions={
            id: session
            for id, session in found.sessions.items()
            if not retention.session_expired(session.at, asked)
        },
    )


def _quotes(found: Found, *, replies: bool) -> list[Card]:
    """The best user-side turns among those found that no card rests on, as cards."""
    covered = {(card.session_id, turn) for card in found.cards.values() for turn in card.turns}
    known = [
        {
            place: score
            for place, score in scores.items()
            if place in found.turns and place[0] in found.sessions
        }
        for scores in found.places
    ]
    return [
        quote(found.sessions[session_id], number)
        for session_id, number in best_bare(known, covered, _QUOTES)
        if replies or found.sessions[session_id].turn(number).role == "user"
    ]


def _weighed(views: Sequence[View], found: Found, quotes: Sequence[Card], *, turns: bool) -> Pool:
    queries = np.stack([view.vector for view in views])
    everyone = [*found.cards.values(), *quotes]
    # A quote has no vector of its own: its turn's stands for it.
    own = [found.turns[said.session_id, said.turns[0]][:1] for said in quotes]
    vectors = found.vectors
    if not vectors.size:  # without any, a space does not know how long its vectors are
        vectors = np.zeros((len(found.cards), queries.shape[1]), np.float32)
    vectors = np.concatenate([vectors, *own])
    signals = {"dense": queries @ vectors.T, "lexical": _lexical(found, everyone)}
    if turns:
        signals["turn"] = _turns(queries, everyone, found.turns)
    return Pool(
        cards=everyone,
        vectors=vectors,
        signals=signals,
        quotes=[False] * len(found.cards) + [True] * len(quotes),
    )


def _lexical(found: Found, cards: Sequence[Card]) -> Scores:
    """What a card's own words score and the best of its turns', for each view."""
    signal = np.zeros((len(found.hits), len(cards)), np.float32)
    column = {key: place for place, key in enumerate(found.cards)}
    for row, (hits, spoken) in enumerate(zip(found.hits, found.places, strict=True)):
        for key, score in hits.lexical:
            if key in column:
                signal[row, column[key]] = score
        for index, card in enumerate(cards if spoken else ()):
            said = [spoken.get((card.session_id, turn), 0.0) for turn in card.turns]
            signal[row, index] += max(said, default=0.0)
    return signal


def _turns(queries: Vectors, cards: Sequence[Card], vectors: Mapping[Place, Vectors]) -> Scores:
    """How near the best of each card's turns is, for each view."""
    if not vectors or not cards:
        return np.zeros((len(queries), len(cards)), np.float32)
    rows = list(vectors.values())
    starts = np.cumsum([0, *(len(each) for each in rows[:-1])])
    # One column for each turn, and a last one of zeros for cards whose turns have no vector.
    best = np.maximum.reduceat(queries @ np.concatenate(rows).T, starts, axis=1)
    best = np.hstack([best, np.zeros((len(queries), 1), np.float32)])
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
