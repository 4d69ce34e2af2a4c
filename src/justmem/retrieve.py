"""Plan -> views -> candidates -> relevant? -> the ten cards, and all that an answer reads."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from math import log2

import numpy as np

from justmem import rank
from justmem.budget import Tally
from justmem.domain import (
    Access,
    Candidate,
    Card,
    Correction,
    EventDate,
    Evidence,
    Plan,
    turn_as_card,
)
from justmem.language.words import asks_the_same, content_stems, overlap, stems_of_names, words
from justmem.memory_parts import Parts
from justmem.ports import CardFilter, Filter, Found, SearchLimits, Store, Vectors, View
from justmem.rank import Scores
from justmem.runtime.validation import both_ends

# Ten cards are chosen of these candidates.
_DENSE, _LEXICAL = 80, 40  # candidates of a view by meaning and by words
_RERANKED = 14  # candidates that the reranker reads, which takes most of the time of a recall
_QUOTES = 4  # turns without a card that may become candidates
_REMARK = 2  # factor of _DENSE for a remark
_NEIGHBOUR_TURNS = 6  # turns between a chosen card and a card that is read with it
_NEIGHBOUR_TURNS_REMARK = 1  # the same for a remark
_SOON = timedelta(days=7)  # most events are told within this time
_YEAR = timedelta(days=366)

# A question is relevant if (best cosine of any card or turn) + 0.1 x (largest share of the
# question's words in one card) reaches the embedder's `relevance_bound`.
# `justmem-eval run --benchmark harm` measures it.
_WORDS = 0.1
_PERSONAL = 0.02  # the bound is lower for a question about who asks or about a subject of the cards
# The bound is lower for few candidates: the highest of many similarities is higher by chance.
_FEW, _MANY = 0.02, 64
_STRANGER = 0.1  # the bound is higher if the question has names, but no card has any of them


@dataclass(frozen=True, slots=True)
class Pool:
    """What the views found: the candidates and their signals, each named after its weight.
    `cosines`: the similarity of each card, or of its nearest turn, to the nearest view, not
    centred."""

    views: Sequence[View]
    cards: Sequence[Card]
    signals: Mapping[str, Scores]
    cosines: Scores
    repeats: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # as in Evidence


class Retrieval:
    """Finds candidates and chooses cards. With the profile `paper`, only what the paper describes:
    no quotes, no signals but vectors and words, and the reranker decides alone (Eq. 3)."""

    def __init__(self, store: Store, parts: Parts) -> None:
        self._store = store
        self._parts = parts
        self._weights = parts.profile.weights
        self._is_paper = parts.profile.is_paper

    # ------------------------------------------------------------ views and candidates

    async def discover(self, asked: Evidence, where: Filter, tally: Tally) -> Pool:
        """The candidates: cards found by vector or words, cards whose turns match by words, and the
        best matching turns without a card."""
        with tally.stage("discover"):
            views = await self._views(asked, tally)
            found = await self._store.find(views, self._limits(asked, where))
            cards = {
                key: card
                for key, card in found.cards.items()
                if where.holds(card.session_id, card.said_at, card.until)
            }
            if self._is_paper:
                return _pool(asked, views, replace(found, turns={}), cards, (), {})
            quotes = [
                card
                for card in _quotes(found, views[0].text, replies=asked.plan.needs_source)
                if where.holds(card.session_id, card.said_at, card.until)
            ]
            cards, repeats = _last_said(cards)
            return _pool(asked, views, found, cards, quotes[:_QUOTES], repeats)

    async def _views(self, asked: Evidence, tally: Tally) -> list[View]:
        """The question with the entities that it shares no word with and, where the evidence is
        spread, its rewrites (Eq. 2). "I" becomes the speaker's name, as in the cards."""
        plan = asked.plan
        broad = plan.access is Access.COMPOSE if self._is_paper else plan.spans_sessions
        texts = [_with_entities(asked), *(plan.rewrites if broad else ())]
        if not self._is_paper:
            texts = [self._with_speaker(text, asked.speaker) for text in texts]
        vectors = await tally.embed(self._parts.embedder, texts, query=not plan.is_remark)
        return [View(text, vector) for text, vector in zip(texts, vectors, strict=True)]

    def _with_speaker(self, text: str, speaker: str | None) -> str:
        return self._parts.language.name_speaker(text, speaker) if speaker else text

    def _limits(self, asked: Evidence, where: Filter) -> SearchLimits:
        """A remark searches wider, because it shares few words with the memory behind it."""
        remark = asked.plan.is_remark
        limits = SearchLimits(
            dense=_REMARK * _DENSE if remark else _DENSE,
            lexical=_LEXICAL,
            since=where.since,
            until=where.until,
            sessions=where.sessions,
        )
        if self._is_paper:
            return limits
        turns, during = _LEXICAL // 2, _days_told(asked.plan.period)
        return replace(limits, spoken=turns, quotes=0 if remark else turns, during=during)

    # ------------------------------------------------------------ relevance

    @property
    def relevance_bound(self) -> float | None:
        """What a question must reach to be relevant. None: every question is."""
        return None if self._is_paper else getattr(self._parts.embedder, "relevance_bound", None)

    def is_relevant(self, asked: Evidence, pool: Pool) -> bool:
        bound = self.relevance_bound
        if not pool.cards or bound is None or asked.plan.is_remark:
            return bool(pool.cards)
        question = asked.question
        people = {word for card in pool.cards for word in content_stems(card.subject)}
        told = [set(content_stems(card.text)) for card in pool.cards]
        wanted, names = set(content_stems(question)), stems_of_names(question)
        if wanted & people or self._parts.language.name_speaker(question, "X") != question:
            bound -= _PERSONAL
        if names and not asked.plan.needs_source:
            known_words = {word for each in told for word in each}
            # A card may have a longer form of the name.
            known = any(word.startswith(name) for name in names for word in known_words)
            bound += 0.0 if known else _STRANGER
        bound -= _FEW * max(0.0, log2(_MANY / len(told)))
        shared = max(overlap(wanted - people, each) for each in told)
        return float(pool.cosines.max()) + _WORDS * shared >= bound

    # ------------------------------------------------------------ choice

    async def select(
        self, asked: Evidence, pool: Pool, tally: Tally, where: Filter, also: Sequence[Card] = ()
    ) -> Evidence:
        """Adds the chosen cards, all cards for the answer, and all candidates to `asked`. The cards
        in `also` are for the answer too."""
        with tally.stage("select"):
            scores, reranked = await self._scores(pool, asked.plan.is_remark, tally)
            chosen, read = self._selected(scores, pool.cards, asked.plan, where.limit)
        order = np.argsort(-scores, kind="stable").tolist()
        signals = {**pool.signals, "cosine": pool.cosines}
        ranked = [
            Candidate(
                card=pool.cards[i],
                scores={name: float(signal[i]) for name, signal in signals.items()}
                | ({"rerank": reranked[i]} if i in reranked else {}),
                score=float(scores[i]),
            )
            for i in dict.fromkeys([*chosen, *order])
        ]
        cards = tuple(dict.fromkeys([*(pool.cards[i] for i in read), *also]))
        return asked.model_copy(
            update={
                "chosen": tuple(ranked[: len(chosen)]),
                "cards": cards,
                "repeats": {c.id: pool.repeats[c.id] for c in cards if c.id in pool.repeats},
                "candidates": tuple(ranked),
            }
        )

    def _selected(
        self, scores: Scores, cards: Sequence[Card], plan: Plan, card_limit: int | None
    ) -> tuple[list[int], list[int]]:
        """The cards that take a place, and all cards that are read: also some around the places.
        With a limit, and in the paper, only the places are read."""
        weights, count = self._weights, card_limit or self._parts.budget.cards
        best = np.argsort(-scores, kind="stable")[:count].tolist()
        if self._is_paper or not best:
            return best, best
        chosen = rank.choose(scores, cards, count, weights.session, weights.far)
        if card_limit:
            return chosen, chosen
        below = weights.around_spread if plan.spans_sessions else weights.around
        least_score = max(scores[best[-1]] - below, scores[best[0]] - weights.far)
        turns = _NEIGHBOUR_TURNS_REMARK if plan.is_remark else _NEIGHBOUR_TURNS
        return chosen, rank.with_neighbours(chosen, scores, cards, least_score, turns)

    async def _scores(
        self, pool: Pool, remark: bool, tally: Tally
    ) -> tuple[Scores, dict[int, float]]:
        """The score of each candidate, and the reranker's logits of those it read. By default it
        reads the best few, and its probability is one more signal. In the paper (Eq. 3) it reads
        all candidates and decides alone."""
        scores = rank.scored(pool.signals, self._weights)
        if not self._is_paper and not remark:
            scores += np.float32(self._weights.support) * rank.support(scores, pool.cards)
        reranker = self._parts.reranker
        if reranker is None or not pool.cards:
            return scores, {}
        count = len(pool.cards) if self._is_paper else _RERANKED
        best = np.argsort(-scores, kind="stable")[:count].tolist()
        texts = [pool.cards[i].dated for i in best]
        logits = rank.logits(await tally.rerank(reranker, pool.views[0].text, texts))
        if self._is_paper:
            scores[best] = logits
        else:
            scores[best] += np.float32(self._weights.rerank) * rank.probability(logits)
        return scores, dict(zip(best, logits.tolist(), strict=True))

    async def add_pinned(
        self, found: Evidence, corrections: Sequence[Correction], where: Filter
    ) -> Evidence:
        """Adds the pinned cards whose subject the question names, and the ids of the cards that
        were corrected."""
        latest = {each.original: each for each in corrections}
        named = set(words(self._with_speaker(_with_entities(found), found.speaker)))
        pinned = [
            card
            for each in latest.values()
            if each.pinned
            for card in [each.after]
            if not named.isdisjoint(words(card.subject))
            and where.holds(card.session_id, card.said_at, card.until)
            and card.since <= where.as_of
            and await self._store.cards(CardFilter(id=card.id))  # it may have to be made again
        ]
        corrected = {each.after.id for each in latest.values() if each.after.id != each.original}
        cards = tuple(dict.fromkeys([*found.cards, *pinned]))
        ids = tuple(card.id for card in cards if card.id in corrected)
        kept = tuple(card.id for card in pinned)
        return found.model_copy(update={"cards": cards, "corrected": ids, "pinned": kept})


# ---------------------------------------------------------------- candidates


def _with_entities(asked: Evidence) -> str:
    """The question with the entities that it shares no word with."""
    question = both_ends(asked.question)
    said = set(words(question))
    more = [name for name in asked.plan.entities if said.isdisjoint(words(name))]
    return f"{question} ({', '.join(more)})" if more else question


def _days_told(period: EventDate) -> tuple[date, date] | None:
    """When events of the period are told: in it, or soon after. None where the period is unknown
    or longer than a year."""
    if period.start is None or period.end is None or period.end - period.start > _YEAR:
        return None
    after = max(period.end - period.start, _SOON)
    return period.start, period.end + min(after, date.max - period.end)


def _last_said(cards: Mapping[int, Card]) -> tuple[dict[int, Card], dict[str, tuple[str, ...]]]:
    """One card for each statement, the one that was said last. Also returns the other turns with
    that statement, by the id of the card."""
    groups: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    for key in sorted(cards, key=lambda key: cards[key].said_at):
        card = cards[key]
        groups[card.subject, card.fact, card.event_date.text].append(key)
    last = {keys[-1] for keys in groups.values()}
    repeats = {
        cards[keys[-1]].id: tuple(
            f"{cards[key].session_id}#{turn}" for key in keys[:-1] for turn in cards[key].turns
        )
        for keys in groups.values()
        if len(keys) > 1
    }
    return {key: card for key, card in cards.items() if key in last}, repeats


def _quotes(found: Found, question: str, *, replies: bool) -> list[Card]:
    """The turns found that no card rests on, as cards, best first: the turns of users and, with
    `replies`, those of assistants. Turns that asked the same are left out: they hold no answer."""
    asked = set(content_stems(question))
    return [
        turn_as_card(session, number)
        for session, number in found.bare
        if (session.id, number) in found.turns
        and (replies or session.turn(number).role == "user")
        and not asks_the_same(session.turn(number).text, asked)
    ]


def _pool(
    asked: Evidence,
    views: Sequence[View],
    found: Found,
    kept: Mapping[int, Card],
    quotes: Sequence[Card],
    repeats: Mapping[str, tuple[str, ...]],
) -> Pool:
    """The kept cards and the quotes with their signals."""
    cards = [*kept.values(), *quotes]
    if not cards:
        return Pool(views, (), {}, np.zeros(0, np.float32))
    queries = np.stack([view.vector for view in views])
    is_kept = [key in kept for key in found.cards]
    of_cards = [found.vectors[is_kept]] if kept else []
    # The vector of a quote is that of the first passage of its turn.
    of_quotes = [found.turns[said.session_id, said.turns[0]][:1] for said in quotes]
    vectors = np.concatenate([*of_cards, *of_quotes])
    centred, raw = rank.similarity(queries, vectors), queries @ vectors.T
    of_turns = _turn_similarity(queries, cards, found) if found.turns else raw
    cosines = np.maximum(raw, of_turns).max(axis=0)
    if asked.plan.is_remark:  # it shares no words with the memory behind it
        guesses = centred[1:] if len(centred) > 1 else centred
        return Pool(views, cards, {"dense": rank.averaged(guesses)}, cosines, repeats)
    signals = {
        "dense": rank.averaged(centred),
        "lexical": rank.averaged(_lexical(found, kept, cards)),
        "subject": rank.names_subject(cards, [view.text for view in views]),
        "date": rank.in_period(cards, asked.plan.period),
    }
    if found.turns:
        signals["turn"] = rank.averaged(of_turns)
    return Pool(views, cards, signals, cosines, repeats)


def _lexical(found: Found, kept: Mapping[int, Card], cards: Sequence[Card]) -> Scores:
    """For each view, the score of the card's own words plus the best of its turns'."""
    signal = np.zeros((len(found.hits), len(cards)), np.float32)
    for row, hits, turns in zip(signal, found.hits, found.by_words, strict=True):
        own = dict(hits.lexical)
        row[: len(kept)] = [own.get(key, 0.0) for key in kept]
        row += [
            max((turns.get((card.session_id, turn), 0.0) for turn in card.turns), default=0.0)
            for card in cards
        ]
    return signal


def _turn_similarity(queries: Vectors, cards: Sequence[Card], found: Found) -> Scores:
    """For each view, its similarity to the nearest passage of the card's turns."""
    nearest = {place: (queries @ vectors.T).max(axis=1) for place, vectors in found.turns.items()}
    none = np.zeros(len(queries), np.float32)
    columns = [
        np.max(
            [nearest.get((card.session_id, turn), none) for turn in card.turns] or [none], axis=0
        )
        for card in cards
    ]
    return np.stack(columns, axis=1)
