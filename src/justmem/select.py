"""Candidates -> the ten chosen cards, and all cards that an answer reads."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from justmem import rank
from justmem.budget import Tally
from justmem.domain import Card, Evidence, Plan
from justmem.language.words import words
from justmem.parts import Parts
from justmem.ports import Filter, Store
from justmem.rank import Pool, Scores


class Selection:
    def __init__(self, store: Store, parts: Parts) -> None:
        self._store = store
        self._reranker = parts.reranker
        self._language = parts.language
        self._budget = parts.budget
        self._retention = parts.retention
        self._weights = parts.profile.weights
        self._is_paper = parts.profile.is_paper

    async def select(
        self,
        asked: Evidence,
        pool: Pool,
        tally: Tally,
        where: Filter,
        also: Sequence[Card] = (),
    ) -> Evidence:
        """Adds the chosen cards, all cards for the answer, and all candidates to `asked`. The cards
        in `also` are for the answer too."""
        with tally.stage("select"):
            scores, reranked = await self._scores(pool, tally)
            count = where.limit or self._budget.cards
            chosen, read = self._choose(scores, pool, asked.plan, count)
            if where.limit:  # no more cards than that
                read = chosen
        rest = [i for i in np.argsort(-scores, kind="stable").tolist() if i not in chosen]
        cards = tuple(dict.fromkeys([*(pool.cards[i] for i in read), *also]))
        return asked.model_copy(
            update={
                "chosen": tuple(pool.candidate(i, scores, reranked) for i in chosen),
                "cards": cards,
                "repeats": {c.id: pool.repeats[c.id] for c in cards if c.id in pool.repeats},
                "candidates": tuple(pool.candidate(i, scores, reranked) for i in (*chosen, *rest)),
            }
        )

    async def add_pinned(self, found: Evidence, where: Filter) -> Evidence:
        """Adds the pinned cards whose subject the question names, and the ids of the cards that
        were corrected."""
        latest = {each.original: each for each in await self._store.corrections()}
        pinned = self._pinned(found, where, [each.after for each in latest.values() if each.pinned])
        corrected = {each.after.id for each in latest.values() if each.after.id != each.original}
        cards = tuple(dict.fromkeys([*found.cards, *pinned]))
        return found.model_copy(
            update={
                "cards": cards,
                "corrected": tuple(card.id for card in cards if card.id in corrected),
            }
        )

    def _pinned(self, asked: Evidence, where: Filter, cards: Sequence[Card]) -> list[Card]:
        question = asked.question
        if asked.speaker:
            question = self._language.name_speaker(question, asked.speaker)
        named = set(words(question))
        return [
            card
            for card in cards
            if not named.isdisjoint(words(card.subject))
            and where.holds(card.session_id, card.said_at.date())
            and card.since <= (where.as_of or asked.at.date())
            and not self._retention.card_expired(card, asked.at)
        ]

    async def _scores(self, pool: Pool, tally: Tally) -> tuple[Scores, dict[int, float]]:
        """The score of each candidate, and the reranker's logits of those it read. In the paper
        (Eq. 3) the reranker reads all candidates and decides alone. By default it reads the best
        few, and its probability is one more signal."""
        scores = rank.scored(pool.signals, self._weights)
        if self._reranker is None or len(pool.cards) < 2:
            return scores, {}
        count = len(pool.cards) if self._is_paper else self._budget.rerank
        head = np.argsort(-scores, kind="stable")[:count].tolist()
        texts = [pool.cards[i].dated for i in head]
        read = rank.logits(await tally.rerank(self._reranker, pool.views[0].text, texts))
        if self._is_paper:
            scores[head] = read
        else:
            scores[head] += np.float32(self._weights.rerank) * rank.probability(read)
        return scores, dict(zip(head, read.tolist(), strict=True))

    def _choose(
        self, scores: Scores, pool: Pool, plan: Plan, count: int
    ) -> tuple[list[int], list[int]]:
        """The places, best first, and all cards read: each place with the cards around it."""
        if self._is_paper:
            chosen = read = np.argsort(-scores, kind="stable")[:count].tolist()
        else:
            chosen = rank.places(scores, pool.cards, count, self._weights.session)
            gap = self._weights.around_spread if plan.spans_sessions else self._weights.around
            near = rank.around(chosen, scores, pool.cards, count, gap)
            read = [i for place, cards in near.items() for i in (place, *cards)]
        return chosen, read
