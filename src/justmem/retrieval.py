"""Plan -> Evidence: discover, select, recover."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from justmem import ranking, slots
from justmem.discovery import Discovery, Pool
from justmem.domain import Access, Budget, Candidate, Evidence, Plan, Profile, Retention
from justmem.language.en.first_person import named
from justmem.ports import Embedder, Reranker, Store, View
from justmem.ranking import Scores
from justmem.receipts import Tally
from justmem.recovery import Recovered, recover
from justmem.words import both_ends, words

_ALIKE = 0.92  # cosine from which two cards say the same thing


class Retrieval:
    def __init__(
        self,
        store: Store,
        embedder: Embedder,
        reranker: Reranker | None,
        budget: Budget,
        profile: Profile,
        retention: Retention,
    ) -> None:
        self._store = store
        self._discovery = Discovery(store, budget, profile, retention)
        self._retention = retention
        self._embedder = embedder
        self._reranker = reranker
        self._budget = budget
        self._profile = profile

    async def evidence(self, asked: Evidence, tally: Tally) -> Evidence:
        """`asked` with its chosen cards, its sources and the candidates they were chosen from."""
        plan = asked.plan
        with tally.stage("discover"):
            views = await self._views(asked, tally)
            pool = await self._discovery.pool(views, plan, asked.at)
        with tally.stage("select"):
            candidates, least = await self._select(views, pool, plan, tally)
            chosen = candidates[: self._budget.cards]
        found = Recovered()
        if plan.access is Access.REPLAY:
            with tally.stage("recover"):
                found = await recover(
                    self._store,
                    views,
                    chosen,
                    asked.at,
                    self._retention,
                    self._budget,
                    self._profile,
                )
            tally.notes += found.notes
        return asked.model_copy(
            update={
                "chosen": chosen,
                "least": least,
                "sources": found.sources,
                "sources_kept": found.kept,
                "candidates": candidates,
            }
        )

    async def _views(self, asked: Evidence, tally: Tally) -> list[View]:
        """The question and, where evidence may be spread, the rewrites (Eq. 2); the speaker, where
        known, by name, as the cards have it."""
        plan = asked.plan
        broad = plan.access is Access.COMPOSE or (
            plan.spans_sessions and self._profile.rewrites_under_replay
        )
        texts = [_meant(asked), *(plan.rewrites if broad else ())]
        if asked.speaker and self._profile.speaker:
            texts = [named(text, asked.speaker) for text in texts]
        vectors = await tally.embed(self._embedder, texts, query=plan.mode != "reply")
        return [View(text, vector) for text, vector in zip(texts, vectors, strict=True)]

    async def _select(
        self, views: Sequence[View], pool: Pool, plan: Plan, tally: Tally
    ) -> tuple[tuple[Candidate, ...], float | None]:
        """The pool in slots, best first, each a card that leads to a place of its own; and the
        score of the K-th best card."""
        if not pool.cards:
            return (), None
        scores = self._fused(views, pool, plan)
        reranked: dict[int, float] = {}
        if self._reranker is not None and len(pool.cards) > 1:
            scores, reranked = await self._reranked(
                self._reranker, views, pool, plan, scores, tally
            )
        if plan.mode == "reply" and self._profile.reasons:
            whole = np.float32(self._profile.weights.remark_whole)
            scores = (1 - whole) * scores + whole * ranking.of_turns(scores, pool.cards)
        if self._profile.beside:
            worth = np.float32(self._profile.weights.neighbour)
            scores = scores + worth * ranking.lifted(scores, pool.cards)
        order = np.argsort(-scores, kind="stable").tolist()
        filled = self._slots(order, scores, pool, plan)
        count = self._budget.cards
        least = float(scores[order[count - 1]]) if len(order) > count else None
        near: dict[int, list[int]] = {}
        if self._profile.beside and least is not None:
            nearly = least - self._nearly(plan)
            near = slots.beside(filled[:count], order, scores, pool.cards, least=nearly)

        names = list(pool.signals)
        best = np.stack([rows.max(axis=0) for rows in pool.signals.values()], axis=1).tolist()

        def candidate(slot: Sequence[int]) -> Candidate:
            head, *rest = slot
            signals = dict(zip(names, best[head], strict=True))
            if head in reranked:
                signals["rerank"] = reranked[head]
            return Candidate.trusted(
                card=pool.cards[head],
                scores=signals,
                score=float(scores[head]),
                also=tuple(candidate([index]) for index in rest),
                beside=tuple(candidate([index]) for index in near.get(head, ())),
            )

        return tuple(candidate(slot) for slot in slots.without(filled, near)), least

    def _slots(
        self, order: Sequence[int], scores: Scores, pool: Pool, plan: Plan
    ) -> list[list[int]]:
        profile, count = self._profile, self._budget.cards
        filled = [[index] for index in order]
        if profile.merge:
            filled = slots.distinct(order, pool.cards, pool.vectors, alike=_ALIKE, depth=4 * count)
        if profile.spread and plan.mode != "reply":
            weights = profile.weights
            again = weights.span_again if plan.spans_sessions else weights.again
            filled = slots.spread(filled, scores, pool.cards, again=again, count=count)
        return filled

    def _nearly(self, plan: Plan) -> float:
        """How far below the last chosen what was told beside one may score: farther where
        evidence is spread. What lies behind a remark is one thing."""
        weights = self._profile.weights
        spread = plan.spans_sessions and plan.mode != "reply"
        return weights.span_beside if spread else weights.beside

    def _fused(self, views: Sequence[View], pool: Pool, plan: Plan) -> Scores:
        weights = self._profile.weights
        remark = plan.mode == "reply"
        near = {
            "dense": weights.dense,
            "lexical": weights.remark_lexical if remark else weights.lexical,
            "turn": weights.remark_turn if remark else weights.turn,
        }
        worth_of = {name: near[name] for name in pool.signals}
        fused = ranking.over_views(ranking.combined(pool.signals, worth_of), remark=remark)
        more = [
            (weights.subject, ranking.about(pool.cards, [view.text for view in views])),
            (weights.period, ranking.in_period(pool.cards, plan)),
            (weights.kind, ranking.of_kind(pool.cards, plan)),
            (weights.quote, np.array(pool.quotes, np.float32)),
        ]
        if plan.spans_sessions and not remark:
            more.append((weights.dated, ranking.dated(pool.cards)))
        if self._profile.told:
            more.append((weights.told, ranking.told_on(pool.cards, plan, views[0].text)))
        if self._profile.apart:
            worth = weights.remark_apart if remark else weights.apart
            more.append((worth, ranking.apart(pool.vectors)))
        if remark and self._profile.reasons:
            more.append((weights.remark_reason, ranking.telling_why(pool.cards)))
        for worth, holds in more:
            fused = fused + np.float32(worth) * holds
        return fused

    async def _reranked(
        self,
        reranker: Reranker,
        views: Sequence[View],
        pool: Pool,
        plan: Plan,
        scores: Scores,
        tally: Tally,
    ) -> tuple[Scores, dict[int, float]]:
        """The scores after a reranker has read the best candidates, and what it said of each.

        In the paper (Eq. 3) its word on every candidate, against the question, decides. By
        default it reads only the head, and its word is one more signal: against the question, or
        against each view of a remark."""
        paper = self._profile.select_by == "question"
        remark = plan.mode == "reply"
        head = np.argsort(-scores, kind="stable")[: None if paper else self._budget.rerank].tolist()
        texts = [pool.cards[i].dated for i in head]
        against = views if remark and not paper else views[:1]
        read = ranking.logits(await tally.rerank(reranker, [v.text for v in against], texts))
        if paper:
            after = scores - np.float32(1e6)
            after[head] = read[0]
        else:
            after = scores.copy()
            worth = np.float32(self._profile.weights.rerank)
            after[head] += worth * ranking.over_views(ranking.softened(read), remark=remark)
        return after, dict(zip(head, read[0].tolist(), strict=True))


def _meant(asked: Evidence) -> str:
    """The question with the entities of its plan that it shares no word with."""
    question = both_ends(asked.question)
    said = set(words(question))
    more = [name for name in asked.plan.entities if said.isdisjoint(words(name))]
    return f"{question} ({', '.join(more)})" if more else question
