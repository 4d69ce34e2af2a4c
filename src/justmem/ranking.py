"""Pure scores: how signals of different origin become one ranking. No I/O.

A signal is a matrix of views by candidates; row 0 is the question (or the remark), the other rows
its rewrites.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta

import numpy as np
from numpy.typing import NDArray

from justmem.domain import Card, Plan
from justmem.language.en.calendars import names_day
from justmem.ports import Vectors
from justmem.reasons import reasons_in
from justmem.words import content

Scores = NDArray[np.float32]

# Of reciprocal rank fusion. The customary 60 makes the first rank worth hardly more than the
# tenth; where one place is sought, being first must count.
RRF_K = 10
_SHARP = 2.0
_LEAST_CHANCE = 1e-9
_NO_SPREAD = 1e-6
_TOLD, _TOLD_LONG = 0.6, 0.9
_LONG = timedelta(days=10)


def fuse(rankings: Iterable[Sequence[tuple[int, float]]]) -> dict[int, float]:
    """Reciprocal rank fusion: what several rankings agree on comes first, whatever scale each
    one's scores have."""
    fused: dict[int, float] = {}
    for ranking in rankings:
        for rank, (key, _) in enumerate(ranking, 1):
            fused[key] = fused.get(key, 0.0) + 1.0 / (RRF_K + rank)
    return fused


def standardised(signal: Scores) -> Scores:
    """Each view's scores in standard deviations over the candidates, so that signals of
    different origin can be added."""
    centred: Scores = signal - signal.mean(axis=1, keepdims=True)
    spread = np.sqrt(np.square(centred, dtype=np.float64).mean(axis=1, keepdims=True))
    spread[spread <= _NO_SPREAD] = 1
    standard: Scores = (centred / spread).astype(np.float32)
    return standard


def logits(read: Scores) -> Scores:
    """What a reranker says, whatever its scale: some give chances between 0 and 1, others the
    logits of them."""
    if read.min(initial=0.0) < 0 or read.max(initial=0.0) > 1:
        return read
    chance = np.clip(read.astype(np.float64), _LEAST_CHANCE, 1 - _LEAST_CHANCE)
    return np.log(chance / (1 - chance)).astype(np.float32)


def softened(logits: Scores) -> Scores:
    """Between 0 and 1, and never quite sure: a small cross-encoder errs."""
    chance: Scores = 1 / (1 + np.exp(-np.clip(logits, -50, 50) / np.float32(2)))
    return chance


def combined(signals: Mapping[str, Scores], weights: Mapping[str, float]) -> Scores:
    """One score for each view and candidate."""
    total = sum(weights.values())
    parts = [standardised(signals[name]) * np.float32(w / total) for name, w in weights.items()]
    whole: Scores = np.stack(parts).sum(axis=0)
    return whole


def over_views(scores: Scores, *, remark: bool) -> Scores:
    """One score for each candidate. For a question the mean over its views: evidence should fit
    all of its wordings. For a remark a soft maximum over the rewrites: they are guesses at what
    may lie behind it, so one that hits is enough, and the remark's own words only find what
    sounds like it."""
    if not remark:
        mean: Scores = scores.mean(axis=0)
        return mean
    guesses = scores[1:] if len(scores) > 1 else scores
    soft: Scores = np.log(np.exp(_SHARP * guesses).mean(axis=0)) / np.float32(_SHARP)
    return soft


def apart(vectors: Vectors) -> Scores:
    """How little a candidate is like the others, in standard deviations. Small talk is near to
    whatever one asks, and much of it is: among vectors this is what rarity is among words."""
    scores: Scores = -standardised((vectors @ vectors.mean(axis=0))[np.newaxis])[0]
    return scores


def about(cards: Sequence[Card], views: Sequence[str]) -> Scores:
    """1 where a card's subject is named in one of the views. It orders and never filters: a wrong
    filter is a miss that nothing downstream can repair."""
    said = set(content(" ".join(views)))
    named = {
        subject: not said.isdisjoint(content(subject))
        for subject in {card.subject for card in cards}
    }
    return np.array([named[card.subject] for card in cards], np.float32)


def in_period(cards: Sequence[Card], plan: Plan) -> Scores:
    """1 where a card's event lies in the period asked about; something less where it has no date
    and was told in that period: people mostly tell what is new. The longer the period, the more
    likely it happened in it too."""
    period = plan.period
    lasts = period.end - period.start if period.start and period.end else timedelta()
    told = _TOLD_LONG if lasts > _LONG else _TOLD

    def worth(card: Card) -> float:
        if card.event_date.start is None and card.kind == "event":
            return told * period.holds(card.said_at.date())
        return card.event_date.overlaps(period)

    return np.array([worth(card) for card in cards], np.float32)


def told_on(cards: Sequence[Card], plan: Plan, question: str) -> Scores:
    """1 where a card was told on the day that the question gives by its date: nobody remembers
    such dates, they are those of a conversation. "Last Friday" is when it happened."""
    day = plan.period.start
    if day is None or day != plan.period.end or not names_day(question, day):
        return np.zeros(len(cards), np.float32)
    return np.array([card.said_at.date() == day for card in cards], np.float32)


def dated(cards: Sequence[Card]) -> Scores:
    """1 where it is known when: what happened, rather than what somebody thinks of it."""
    return np.array([card.event_date.start is not None for card in cards], np.float32)


def of_kind(cards: Sequence[Card], plan: Plan) -> Scores:
    """1 where a card is of a kind that the plan expects to hold the answer."""
    return np.array([card.kind in plan.routes for card in cards], np.float32)


def telling_why(cards: Sequence[Card]) -> Scores:
    """1 or 2 where a card tells what may lie behind a remark."""
    return np.array([reasons_in(card.fact) for card in cards], np.float32)


def of_turns(scores: Scores, cards: Sequence[Card]) -> Scores:
    """The mean over all that was told in a card's turns. In a long turn some sentence is near to
    anything; what lies behind a remark is what a turn is about."""
    told: dict[tuple[str, int], list[int]] = {}
    for index, card in enumerate(cards):
        for turn in card.turns:
            told.setdefault((card.session_id, turn), []).append(index)
    return np.array(
        [
            scores[list({i for turn in card.turns for i in told[card.session_id, turn]})].mean()
            if card.turns
            else score
            for score, card in zip(scores, cards, strict=True)
        ],
        np.float32,
    )


def lifted(scores: Scores, cards: Sequence[Card]) -> Scores:
    """How much better than a card the best is that was told in the turn before or after one of
    its own: an answer stands next to its question, and a thing told in two breaths in two turns."""
    told: dict[tuple[str, int], float] = {}
    for score, card in zip(scores.tolist(), cards, strict=True):
        for turn in card.turns:
            place = (card.session_id, turn)
            told[place] = max(told.get(place, score), score)

    def lift(score: float, card: Card) -> float:
        near = (
            told.get((card.session_id, t + step), score) for t in card.turns for step in (-1, 1)
        )
        return max((*near, score)) - score

    pairs = zip(scores.tolist(), cards, strict=True)
    return np.array([lift(score, card) for score, card in pairs], np.float32)
