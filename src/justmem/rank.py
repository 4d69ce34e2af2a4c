"""How candidate cards are ranked: a few weighted signals, then ten places. Pure functions.

A signal has one number for each candidate. A card's score is the weighted sum of its signals.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from justmem.domain import Card, EventDate, Weights
from justmem.language.words import content_stems
from justmem.ports import Vectors

Scores = NDArray[np.float32]

_SUPPORT = 3  # cards of a session that lift each other
_LEAST_PLACES = 4  # cards that are chosen however low their scores are
_MOST_AROUND = 1.5  # cards around a place, on average over all places
_LEAST_CHANCE = 1e-9


# ---------------------------------------------------------------- signals


def similarity(queries: Vectors, vectors: Vectors) -> Scores:
    """Cosines after the candidates' mean is subtracted. What all candidates have in common, such as
    the tone of a chat, then does not count."""
    both = np.concatenate([queries, vectors]) - vectors.mean(axis=0)
    both /= np.maximum(np.linalg.norm(both, axis=1, keepdims=True), 1e-6)
    cosines: Scores = both[: len(queries)] @ both[len(queries) :].T
    return cosines


def averaged(near: Scores) -> Scores:
    """Scores of views by candidates as one signal. Each view's scores are put in standard
    deviations over the candidates, so that different scales can be added. Then the mean over all
    views is taken: evidence should fit every wording of the question."""
    centred = near - near.mean(axis=1, keepdims=True)
    spread = np.sqrt(np.square(centred, dtype=np.float64).mean(axis=1, keepdims=True))
    spread[spread <= 1e-6] = 1
    signal: Scores = (centred / spread).mean(axis=0).astype(np.float32)
    return signal


def names_subject(cards: Sequence[Card], views: Sequence[str]) -> Scores:
    """1 where a view names the card's subject. It orders and never filters."""
    said = set(content_stems(" ".join(views)))
    subjects = {card.subject for card in cards}
    named = {subject: not said.isdisjoint(content_stems(subject)) for subject in subjects}
    return np.array([named[card.subject] for card in cards], np.float32)


def in_period(cards: Sequence[Card], period: EventDate) -> Scores:
    """1 where the card's event lies in the period, or the card was said in it."""
    if period.start is None or period.end is None:
        return np.zeros(len(cards), np.float32)
    return np.array(
        [
            card.event_date.overlaps(period) or period.start <= card.said_at.date() <= period.end
            for card in cards
        ],
        np.float32,
    )


def scored(signals: Mapping[str, Scores], weights: Weights) -> Scores:
    """The weighted sum of the signals: one score for each candidate."""
    worth = weights.model_dump()
    return np.asarray(sum(worth[name] * signal for name, signal in signals.items()), np.float32)


def support(scores: Scores, cards: Sequence[Card]) -> Scores:
    """For each card, the mean of the best three scores of its session. What is asked about was
    mostly told in several sentences."""
    by_session: dict[str, list[float]] = defaultdict(list)
    for score, card in zip(scores.tolist(), cards, strict=True):
        by_session[card.session_id].append(score)
    best = {id: sum(sorted(each)[-_SUPPORT:]) / _SUPPORT for id, each in by_session.items()}
    return np.array([best[card.session_id] for card in cards], np.float32)


# ---------------------------------------------------------------- reranker


def logits(read: Scores) -> Scores:
    """A reranker's scores as logits. Some rerankers return probabilities instead."""
    if read.min(initial=0.0) < 0 or read.max(initial=0.0) > 1:
        return read
    chance = np.clip(read.astype(np.float64), _LEAST_CHANCE, 1 - _LEAST_CHANCE)
    return np.log(chance / (1 - chance)).astype(np.float32)


def probability(logits: Scores) -> Scores:
    """Between 0 and 1, and never quite sure: a small cross-encoder errs."""
    chance: Scores = 1 / (1 + np.exp(-np.clip(logits, -50, 50) / np.float32(2)))
    return chance


# ---------------------------------------------------------------- places


def choose(
    scores: Scores, cards: Sequence[Card], count: int, discount: float, far: float
) -> list[int]:
    """Chooses up to `count` cards, best first. Each card already chosen from a session lowers the
    score of its remaining cards by `discount`. After a few cards, those whose score is more than
    `far` below the best are not chosen. Skips a card whose turns all belong to one chosen card."""
    left = np.argsort(-scores, kind="stable").tolist()
    least = scores[left[0]] - far if left else 0.0
    chosen: list[int] = []
    times: Counter[str] = Counter()
    while left and len(chosen) < count:
        worth = {i: scores[i] - discount * times[cards[i].session_id] for i in left}
        best = max(left, key=lambda i: worth[i])
        if len(chosen) >= _LEAST_PLACES and worth[best] < least:
            break
        left.remove(best)
        session, turns = cards[best].session_id, set(cards[best].turns)
        if not any(cards[i].session_id == session and turns <= set(cards[i].turns) for i in chosen):
            chosen.append(best)
            times[session] += 1
    return chosen


def with_neighbours(
    chosen: Sequence[int], scores: Scores, cards: Sequence[Card], least_score: float, turns: int
) -> list[int]:
    """Each chosen card, followed by other cards that score at least `least_score` and are at most
    `turns` turns away, best first. They are at most 1.5 times as many as the chosen cards."""
    neighbours: dict[int, list[int]] = {place: [place] for place in chosen}
    left = int(_MOST_AROUND * len(chosen))
    for index in np.argsort(-scores, kind="stable").tolist():
        if scores[index] < least_score or not left:
            break
        place = min(chosen, key=lambda one: _turns_apart(cards[one], cards[index]))
        if index not in neighbours and _turns_apart(cards[place], cards[index]) <= turns:
            neighbours[place].append(index)
            left -= 1
    return [index for each in neighbours.values() for index in each]


def _turns_apart(one: Card, other: Card) -> float:
    if one.session_id != other.session_id:
        return float("inf")
    return min((abs(a - b) for a in one.turns for b in other.turns), default=float("inf"))
