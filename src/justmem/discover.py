"""Plan -> candidates: the views of a question, the cards near them, and whether any is relevant."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta
from math import log2

import numpy as np

from justmem import rank
from justmem.budget import Tally
from justmem.domain import (
    Access,
    Card,
    EventDate,
    Evidence,
    Plan,
    Retention,
    turn_as_card,
)
from justmem.language.words import asks_the_same, content_stems, overlap, stems_of_names, words
from justmem.parts import Parts
from justmem.ports import (
    NO_FILTER,
    Filter,
    Found,
    Place,
    SearchLimits,
    Store,
    Vectors,
    View,
    best_bare,
)
from justmem.rank import Pool, Scores
from justmem.runtime.validation import both_ends

_QUOTES = 4  # turns without a card that may become candidates
_REMARK = 4  # times as many cards by meaning are candidates for a remark
# Before cosines are computed, this share of the mean candidate vector is subtracted. For questions,
# shares from 0.5 to 1 find equally much. For remarks subtract the whole mean: 57 of 100 cues of
# LoCoMo-Plus are found, against 38 with half of it.
_CENTRE = 0.75
_SOON = timedelta(days=7)  # most events are told within this time
_YEAR = timedelta(days=366)

# A question is relevant if (best cosine of any card or turn) + 0.1 x (largest share of the
# question's words in one card) reaches the bound. Cosines of another embedder have another scale:
# with an embedder that is not listed, every question is relevant. `justmem-eval harm` measures it.
_RELEVANT = {"bge-small-en-v1.5": 0.64}
_WORDS = 0.1
_PERSONAL = 0.02  # the bound is lower for a question about who asks or about a subject of the cards
# The bound is lower for few candidates: the highest of many similarities is higher by chance.
_FEW, _MANY = 0.02, 64
_STRANGER = 0.1  # the bound is higher if the question has names, but no card has any of them


class Discovery:
    """Finds candidate cards for a plan. With the profile `paper`, only what the paper describes."""

    def __init__(self, store: Store, parts: Parts) -> None:
        self._store = store
        self._embedder = parts.embedder
        self._language = parts.language
        self._budget = parts.budget
        self._retention = parts.retention
        self._is_paper = parts.profile.is_paper

    async def discover(self, asked: Evidence, tally: Tally, where: Filter = NO_FILTER) -> Pool:
        with tally.stage("discover"):
            views = await self._views(asked, tally)
            return await self._pool(views, asked, where)

    async def finds_something(self, asked: Evidence, tally: Tally) -> bool:
        """Whether the question finds anything without rewrites. This is checked before a model is
        called."""
        if self._embedder.name not in _RELEVANT:
            return True
        alone = asked.model_copy(update={"plan": asked.plan.model_copy(update={"rewrites": ()})})
        return self.is_relevant(alone, await self.discover(alone, tally))

    def is_relevant(self, asked: Evidence, pool: Pool) -> bool:
        bound = _RELEVANT.get(self._embedder.name)
        if not pool.cards or bound is None or self._is_paper or asked.plan.operation == "reply":
            return bool(pool.cards)
        question = asked.question
        people = {word for card in pool.cards for word in content_stems(card.subject)}
        told = [set(content_stems(card.text)) for card in pool.cards]
        wanted, names = set(content_stems(question)), stems_of_names(question)
        if wanted & people or self._language.name_speaker(question, "X") != question:
            bound -= _PERSONAL
        if names and not asked.plan.needs_source and not any(_is_in(n, told) for n in names):
            bound += _STRANGER
        bound -= _FEW * max(0.0, log2(_MANY / len(told)))
        shared = max(overlap(wanted - people, each) for each in told)
        return float(pool.cosines.max()) + _WORDS * shared >= bound

    async def _views(self, asked: Evidence, tally: Tally) -> list[View]:
        """The question and, where the evidence is spread, its rewrites (Eq. 2). "I" becomes the
        speaker's name, as in the search text of the cards."""
        plan = asked.plan
        broad = plan.access is Access.COMPOSE if self._is_paper else plan.spans_sessions
        texts = [_meant(asked), *(plan.rewrites if broad else ())]
        if asked.speaker and not self._is_paper:
            texts = [self._language.name_speaker(text, asked.speaker) for text in texts]
        vectors = await tally.embed(self._embedder, texts, query=plan.operation != "reply")
        return [View(text, vector) for text, vector in zip(texts, vectors, strict=True)]

    async def _pool(self, views: Sequence[View], asked: Evidence, where: Filter) -> Pool:
        """Three groups: cards found by vector or words; cards whose turns match by words; and the
        best matching turns without a card, as quotes. Expired cards are left out."""
        plan = asked.plan
        found = await self._store.find(views, self._limits(plan, asked.at, where))
        found = _unexpired(found, self._retention, asked.at)
        if self._is_paper:
            return _make_pool(views, plan, replace(found, turns={}), ())
        quotes = _quotes(found, views[0].text, replies=plan.needs_source)
        found, repeats = _keep_last_repeated(found)
        return replace(_make_pool(views, plan, found, quotes), repeats=repeats)

    def _limits(self, plan: Plan, asked: datetime, where: Filter) -> SearchLimits:
        """A remark searches wider, because it shares few words with the memory behind it."""
        budget = self._budget
        remark = plan.operation == "reply"
        limits = SearchLimits(
            dense=_REMARK * budget.dense if remark else budget.dense,
            lexical=budget.lexical,
            since=where.since,
            until=where.last(asked.date()),
            sessions=where.sessions,
        )
        if self._is_paper:
            return limits
        spoken = budget.lexical // 2
        quotes = spoken if self._retention.limited else _QUOTES  # some may have expired
        return replace(
            limits, spoken=spoken, quotes=0 if remark else quotes, during=_told(plan.period)
        )


# ---------------------------------------------------------------- the pool


def _make_pool(views: Sequence[View], plan: Plan, found: Found, quotes: Sequence[Card]) -> Pool:
    cards = [*found.cards.values(), *quotes]
    if not cards:
        return Pool(views, (), {}, np.zeros(0, np.float32))
    queries = np.stack([view.vector for view in views])
    # The vector of a quote is that of its turn.
    own = [found.turns[said.session_id, said.turns[0]][:1] for said in quotes]
    known = [found.vectors] if found.cards else []
    vectors = np.concatenate([*known, *own])
    remark = plan.operation == "reply"
    near = rank.similarity(queries, vectors, share=1.0 if remark else _CENTRE)
    raw = queries @ vectors.T
    spoken = _turn_similarity(queries, cards, found) if found.turns else raw
    cosines = np.maximum(raw, spoken).max(axis=0)
    if remark:  # it shares no words with the memory behind it: only its rewrites and meaning count
        guesses = near[1:] if len(near) > 1 else near
        return Pool(views, cards, {"dense": rank.averaged(guesses)}, cosines)
    signals = {
        "dense": rank.averaged(near),
        "lexical": rank.averaged(_lexical(found, cards)),
        "subject": rank.names_subject(cards, [view.text for view in views]),
        "date": rank.in_period(cards, plan.period),
    }
    if found.turns:
        signals["turn"] = rank.averaged(spoken)
    return Pool(views, cards, signals, cosines)


def _lexical(found: Found, cards: Sequence[Card]) -> Scores:
    """For each view, the score of the card's own words plus the best of its turns'."""
    signal = np.zeros((len(found.hits), len(cards)), np.float32)
    column = {key: place for place, key in enumerate(found.cards)}
    for row, (hits, spoken) in enumerate(zip(found.hits, found.places, strict=True)):
        for key, score in hits.lexical:
            if key in column:
                signal[row, column[key]] = score
        for index, card in enumerate(cards):
            said = [spoken.get((card.session_id, turn), 0.0) for turn in card.turns]
            signal[row, index] += max(said, default=0.0)
    return signal


def _turn_similarity(queries: Vectors, cards: Sequence[Card], found: Found) -> Scores:
    """For each view, its similarity to the nearest passage of the card's turns."""
    near = {place: (queries @ vectors.T).max(axis=1) for place, vectors in found.turns.items()}
    none = np.zeros(len(queries), np.float32)
    columns = [
        np.max([near.get((card.session_id, turn), none) for turn in card.turns] or [none], axis=0)
        for card in cards
    ]
    return np.stack(columns, axis=1)


def _is_in(name: str, told: Sequence[set[str]]) -> bool:
    """Whether a card has the name, or a longer form of it."""
    return any(word.startswith(name) for words in told for word in words)


def _meant(asked: Evidence) -> str:
    """The question with the entities of its plan that it shares no word with."""
    question = both_ends(asked.question)
    said = set(words(question))
    more = [name for name in asked.plan.entities if said.isdisjoint(words(name))]
    return f"{question} ({', '.join(more)})" if more else question


def _told(period: EventDate) -> tuple[date, date] | None:
    """When events of the period are told: in it, or soon after. None where the period is unknown
    or longer than a year."""
    if period.start is None or period.end is None:
        return None
    lasts = period.end - period.start
    if lasts > _YEAR:
        return None
    return period.start, period.end + min(max(lasts, _SOON), date.max - period.end)


def _unexpired(found: Found, retention: Retention, asked: datetime) -> Found:
    now = asked.replace(tzinfo=None)
    stay = [
        not retention.card_expired(card, asked) and (card.until is None or card.until > now)
        for card in found.cards.values()
    ]
    if all(stay) and not retention.limited:
        return found
    cards = zip(found.cards.items(), stay, strict=True)
    return replace(
        found,
        cards={key: card for (key, card), kept in cards if kept},
        vectors=found.vectors[stay],
        sessions={
            id: session
            for id, session in found.sessions.items()
            if not retention.session_expired(session.at, asked)
            and (session.until is None or session.until > now)
        },
    )


def _keep_last_repeated(found: Found) -> tuple[Found, dict[str, tuple[str, ...]]]:
    """One card for each statement, the one that was said last. Also returns the other turns with
    that statement, by the id of the card."""
    groups: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    for key, card in sorted(found.cards.items(), key=lambda item: item[1].said_at):
        groups[card.subject, card.fact, card.event_date.text].append(key)
    if len(groups) == len(found.cards):
        return found, {}
    last = {keys[-1] for keys in groups.values()}
    repeats = {
        found.cards[keys[-1]].id: tuple(
            f"{found.cards[key].session_id}#{turn}"
            for key in keys[:-1]
            for turn in found.cards[key].turns
        )
        for keys in groups.values()
        if len(keys) > 1
    }
    stay = [key in last for key in found.cards]
    cards = {key: card for key, card in found.cards.items() if key in last}
    return replace(found, cards=cards, vectors=found.vectors[stay]), repeats


def _quotes(found: Found, question: str, *, replies: bool) -> list[Card]:
    """The best turns found that no card rests on, as cards: the user's, or also replies. Turns that
    asked the same are left out: they hold no answer."""
    asked = set(content_stems(question))
    covered = {(card.session_id, turn) for card in found.cards.values() for turn in card.turns}

    def is_news(place: Place) -> bool:
        if place not in found.turns or place[0] not in found.sessions:
            return False
        return not asks_the_same(found.sessions[place[0]].turn(place[1]).text, asked)

    known = [{p: s for p, s in scores.items() if is_news(p)} for scores in found.places]
    return [
        turn_as_card(found.sessions[session_id], number)
        for session_id, number in best_bare(known, covered, _QUOTES)
        if replies or found.sessions[session_id].turn(number).role == "user"
    ]
