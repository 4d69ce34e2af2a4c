"""Plan -> Evidence: discover, select, recover."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

import numpy as np

from justmem import ranking
from justmem.domain import Access, Budget, Candidate, Card, Evidence, Plan, Profile, Source, Usage
from justmem.ports import Embedder, Hits, Place, Reranker, Store, Vectors, View
from justmem.ranking import Scores
from justmem.receipts import Tally
from justmem.recovery import recover
from justmem.voice import named

# What speaks for a card: its own vector, the words of it and of its turns, its turns' vectors.
_WEIGHTS = {"dense": 1.0, "lexical": 0.5, "turn": 0.5}
# Worth in standard deviations of the above.
_SUBJECT = 1.0  # the card is about whom the question names
_PERIOD = 0.6  # its event lies in the period asked about
_KIND = 0.2  # it is of a kind that the plan expects
_ALIKE = 0.92  # cosine from which two cards say the same thing


@dataclass(frozen=True, slots=True)
class Pool:
    """The candidate union, with what speaks for each."""

    cards: Sequence[Card]
    vectors: Vectors
    signals: Mapping[str, Scores]  # views by candidates


class Retrieval:
    def __init__(
        self,
        store: Store,
        embedder: Embedder,
        reranker: Reranker | None,
        budget: Budget,
        profile: Profile,
    ) -> None:
        self._store = store
        self._embedder = embedder
        self._reranker = reranker
        self._budget = budget
        self._profile = profile

    async def evidence(self, asked: Evidence, tally: Tally) -> Evidence:
        """`asked` with its chosen cards, its sources and the candidates they were chosen from."""
        plan, until = asked.plan, asked.at.date()
        with tally.stage("discover"):
            views = await self._views(asked, tally)
            pool = await self._discover(views, until)
        with tally.stage("select"):
            candidates, chosen = await self._select(views, pool, plan, tally)
        sources: tuple[Source, ...] = ()
        if plan.access is Access.REPLAY:
            with tally.stage("recover"):
                sources = await recover(
                    self._store, views, chosen, until, self._budget, self._profile
                )
        return asked.model_copy(
            update={"chosen": chosen, "sources": sources, "candidates": candidates}
        )

    async def _views(self, asked: Evidence, tally: Tally) -> list[View]:
        """The question and, where evidence may be spread, the rewrites (Eq. 2); the speaker, where
        known, by name, as the cards have it."""
        plan = asked.plan
        broad = plan.access is Access.COMPOSE or (
            plan.spans_sessions and self._profile.rewrites_under_replay
        )
        texts = [asked.question, *(plan.rewrites if broad else ())]
        if asked.speaker:
            texts = [named(text, asked.speaker) for text in texts]
        start = time.perf_counter()
        embedded = await self._embedder.embed(texts, query=True)
        tally.embedding.append(
            Usage(
                model=self._embedder.name,
                items=len(texts),
                tokens=embedded.tokens,
                seconds=round(time.perf_counter() - start, 6),
            )
        )
        return [View(text, vector) for text, vector in zip(texts, embedded.vectors, strict=True)]

    async def _discover(self, views: Sequence[View], until: date) -> Pool:
        """Cards near to a view, cards that share its words, and cards whose own turns do: the
        words of a turn find what its card says in others."""
        budget = self._budget
        near, spoken = await asyncio.gather(
            self._store.search(
                views, "cards", dense=budget.dense, lexical=budget.lexical, until=until
            ),
            self._store.search(views, "passages", dense=0, lexical=budget.lexical, until=until),
        )
        places = await self._places(spoken)
        found = {key for hits in near for key, _ in (*hits.dense, *hits.lexical)}
        cards = dict(await self._store.cards_at(sorted(found)))
        cards |= await self._store.cards_on(list({p for scores in places for p in scores}))
        keys = sorted(cards)
        held = [cards[key] for key in keys]
        vectors = await self._store.card_vectors(keys)
        queries = np.stack([view.vector for view in views])
        return Pool(
            cards=held,
            vectors=vectors,
            signals={
                "dense": queries @ vectors.reshape(len(keys), queries.shape[1]).T,
                "lexical": _lexical(keys, held, near, places),
                "turn": await self._turn_signal(held, queries),
            },
        )

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

    async def _turn_signal(self, cards: Sequence[Card], queries: Vectors) -> Scores:
        """The best of each card's turns, for each view."""
        places = {(card.session_id, turn) for card in cards for turn in card.turns}
        vectors = await self._store.turn_vectors(list(places))
        best = {place: (queries @ rows.T).max(axis=1) for place, rows in vectors.items()}
        signal = np.zeros((len(queries), len(cards)), np.float32)
        for column, card in enumerate(cards):
            found = [best[p] for turn in card.turns if (p := (card.session_id, turn)) in best]
            if found:
                signal[:, column] = np.max(found, axis=0)
        return signal

    async def _select(
        self, views: Sequence[View], pool: Pool, plan: Plan, tally: Tally
    ) -> tuple[tuple[Candidate, ...], tuple[Candidate, ...]]:
        """The best K of the pool, near-duplicates sharing a slot."""
        if not pool.cards:
            return (), ()
        remark = plan.mode == "reply"
        scores = ranking.over_views(ranking.combined(pool.signals, _WEIGHTS), any_view=remark)
        scores = scores + _SUBJECT * ranking.about(pool.cards, [view.text for view in views])
        scores = scores + _PERIOD * ranking.in_period(pool.cards, plan)
        scores = scores + _KIND * ranking.of_kind(pool.cards, plan)
        order = np.argsort(-scores, kind="stable")
        slots = ranking.distinct(order.tolist(), pool.cards, pool.vectors, alike=_ALIKE)

        def candidate(slot: Sequence[int]) -> Candidate:
            head, *rest = slot
            signals = {name: float(rows[:, head].max()) for name, rows in pool.signals.items()}
            return Candidate.model_construct(
                card=pool.cards[head],
                scores=signals,
                score=float(scores[head]),
                also=tuple(pool.cards[i] for i in rest),
            )

        candidates = tuple(candidate(slot) for slot in slots)
        return candidates, candidates[: self._budget.cards]


def _lexical(
    keys: Sequence[int],
    cards: Sequence[Card],
    near: Sequence[Hits],
    places: Sequence[Mapping[Place, float]],
) -> Scores:
    """What a card's own words score and the best of its turns', for each view."""
    signal = np.zeros((len(near), len(keys)), np.float32)
    column = {key: place for place, key in enumerate(keys)}
    for row, (hits, spoken) in enumerate(zip(near, places, strict=True)):
        for key, score in hits.lexical:
            if key in column:
                signal[row, column[key]] = score
        for index, card in enumerate(cards):
            turns = [spoken.get((card.session_id, turn), 0.0) for turn in card.turns]
            signal[row, index] += max(turns, default=0.0)
    return signal
