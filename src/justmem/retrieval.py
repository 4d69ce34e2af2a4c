"""Plan -> Evidence: discover, select, recover."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime

import numpy as np
from numpy.typing import NDArray

from justmem import ranking
from justmem.domain import (
    Access,
    Budget,
    Candidate,
    Card,
    Evidence,
    Plan,
    Profile,
    Source,
    Usage,
)
from justmem.ports import Embedder, Hits, Reranker, Store, Vectors, View
from justmem.receipts import Tally
from justmem.recovery import recover

# Boosts are small against the fused score's own spread: they break ties, they do not decide.
_BOOST = {"entity": 0.010, "date": 0.005, "kind": 0.003}
_ALIKE = 0.95  # cosine from which two cards say the same thing


@dataclass(frozen=True, slots=True)
class Pool:
    """The candidate union, best first by the fused score."""

    cards: Sequence[Card]
    vectors: Vectors
    fused: NDArray[np.float32]
    signals: Sequence[Mapping[str, float]]


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

    async def evidence(self, question: str, at: datetime, plan: Plan, tally: Tally) -> Evidence:
        with tally.stage("discover"):
            views = await self._views(question, plan, tally)
            pool = await self._discover(views, plan, at.date())
        with tally.stage("select"):
            candidates, chosen = await self._select(views, pool, tally)
        sources: tuple[Source, ...] = ()
        if plan.access is Access.REPLAY:
            with tally.stage("recover"):
                sources = await recover(
                    self._store, views, chosen, at.date(), self._budget, self._profile
                )
        return Evidence(
            question=question,
            at=at,
            plan=plan,
            chosen=chosen,
            sources=sources,
            candidates=candidates,
        )

    async def _views(self, question: str, plan: Plan, tally: Tally) -> list[View]:
        """The question and, where evidence may be spread, the rewrites (Eq. 2)."""
        broad = plan.access is Access.COMPOSE or (
            plan.spans_sessions and self._profile.rewrites_under_replay
        )
        texts = [question, *(plan.rewrites if broad else ())]
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

    async def _discover(self, views: Sequence[View], plan: Plan, until: date) -> Pool:
        found = await self._store.search(
            views,
            "cards",
            dense=self._budget.dense,
            lexical=self._budget.lexical,
            until=until,
        )
        fused = ranking.fuse(r for hits in found for r in (hits.dense, hits.lexical))
        cards = await self._store.cards_at(list(fused))
        entities = ranking.entity_words(plan)
        signals = {key: ranking.bonuses(card, plan, entities) for key, card in cards.items()}
        scores = {
            key: fused[key] + sum(_BOOST[name] * value for name, value in signals[key].items())
            for key in cards
        }
        keys = sorted(scores, key=lambda key: (-scores[key], key))
        return Pool(
            cards=[cards[key] for key in keys],
            vectors=await self._store.card_vectors(keys),
            fused=np.array([scores[key] for key in keys], np.float32),
            signals=[{**signals[key], **_origin(key, found)} for key in keys],
        )

    async def _select(
        self, views: Sequence[View], pool: Pool, tally: Tally
    ) -> tuple[tuple[Candidate, ...], tuple[Candidate, ...]]:
        """The best K of the pool, against all views (or, as printed in the paper's Eq. 3, against
        the question alone), near-duplicates sharing a slot."""
        scores, reranked = pool.fused, np.zeros(0, np.float32)
        if self._reranker is not None and len(pool.cards) > 1:
            reranked = await self._rerank(self._reranker, views, pool, tally)
            # What the reranker did not read stays below what it did.
            scores = np.concatenate([reranked, pool.fused[len(reranked) :] - 1e6])
        order = np.argsort(-scores, kind="stable")
        slots = ranking.distinct(order.tolist(), pool.vectors, alike=_ALIKE)

        def candidate(slot: Sequence[int]) -> Candidate:
            head, *rest = slot
            signals = {**pool.signals[head], "fused": float(pool.fused[head])}
            if head < len(reranked):
                signals["rerank"] = float(reranked[head])
            return Candidate(
                card=pool.cards[head],
                scores=signals,
                score=float(scores[head]),
                also=tuple(pool.cards[i] for i in rest),
            )

        candidates = tuple(candidate(slot) for slot in slots)
        return candidates, candidates[: self._budget.cards]

    async def _rerank(
        self, reranker: Reranker, views: Sequence[View], pool: Pool, tally: Tally
    ) -> NDArray[np.float32]:
        texts = [card.text for card in pool.cards[: self._budget.rerank]]
        against = views if self._profile.select_by == "views" else views[:1]
        start = time.perf_counter()
        results = await asyncio.gather(*(reranker.rerank(view.text, texts) for view in against))
        tally.reranking.append(
            Usage(
                model=reranker.name,
                items=len(texts) * len(against),
                tokens=sum(result.tokens for result in results),
                seconds=round(time.perf_counter() - start, 6),
            )
        )
        mean: NDArray[np.float32] = np.stack([r.scores for r in results]).mean(axis=0)
        return mean


def _origin(key: int, found: Sequence[Hits]) -> dict[str, float]:
    """The best dense and lexical score a candidate had in any view, for whoever asks why."""
    best: dict[str, float] = {}
    for name in ("dense", "lexical"):
        scores = [s for hits in found for k, s in getattr(hits, name) if k == key]
        if scores:
            best[name] = max(scores)
    return best
