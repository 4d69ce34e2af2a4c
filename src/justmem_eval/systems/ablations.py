"""The paper's ablations as other ways to choose from the same memory.

session_pack    all cards of the best session, and nothing else
session_first   sessions are ranked first; each of the best ten gives its best card
top1            compact reading, and the whole session behind the best card for every question
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from justmem import AsyncMemory
from justmem.domain import Candidate, Card, Evidence, Plan, Source
from justmem.ports import Embedder
from justmem_eval.switches import Switches
from justmem_eval.text import count as token_count

_ACCESS: Mapping[str, Mapping[str, Any]] = {
    "lookup": {"spans_sessions": False, "needs_source": False, "rewrites": ()},
    "compose": {"spans_sessions": True, "needs_source": False},
    "replay": {"spans_sessions": False, "needs_source": True, "rewrites": ()},
    "compact": {"needs_source": False},
}


def forced(plan: Plan, access: str) -> Plan:
    """The same plan under another access. Everything else that it says stays."""
    return plan.model_copy(update=_ACCESS[access])


async def vary(
    memory: AsyncMemory, embedder: Embedder, switches: Switches, evidence: Evidence
) -> Evidence:
    if switches.granularity == "session_pack":
        return await session_pack(memory, embedder, evidence)
    if switches.granularity == "session_first":
        return await session_first(memory, embedder, evidence, switches.budget.cards)
    if switches.reading == "top1":
        return await top1(memory, evidence)
    return evidence


async def session_pack(memory: AsyncMemory, embedder: Embedder, evidence: Evidence) -> Evidence:
    best = (await _ranked(memory, embedder, evidence))[:1]
    return _reading(evidence, [Candidate(card=card) for _, cards in best for card in cards])


async def session_first(
    memory: AsyncMemory, embedder: Embedder, evidence: Evidence, count: int
) -> Evidence:
    places = {c.card.id: place for place, c in enumerate(evidence.candidates)}
    by_id = {c.card.id: c for c in evidence.candidates}
    chosen = []
    for _, cards in (await _ranked(memory, embedder, evidence))[:count]:
        # A session whose cards discovery did not find gives its first one.
        best = min(cards, key=lambda card: places.get(card.id, len(places)))
        chosen.append(by_id.get(best.id) or Candidate(card=best))
    return _reading(evidence, chosen)


def _reading(evidence: Evidence, chosen: Sequence[Candidate]) -> Evidence:
    cards = tuple(candidate.card for candidate in chosen)
    return evidence.model_copy(update={"chosen": tuple(chosen), "cards": cards, "sources": ()})


async def _ranked(
    memory: AsyncMemory, embedder: Embedder, evidence: Evidence
) -> list[tuple[float, Sequence[Card]]]:
    """Sessions with their cards, the best first by the likeness of all their cards together."""
    packs: dict[str, list[Card]] = {}
    for card in await memory.cards(limit=10**9):
        if card.said_at.date() <= evidence.at.date():
            packs.setdefault(card.session_id, []).append(card)
    if not packs:
        return []
    texts = ["\n".join(card.text for card in cards) for cards in packs.values()]
    vectors = (await embedder.embed(texts)).vectors
    asked = (await embedder.embed([evidence.question], query=True)).vectors[0]
    scored = zip((vectors @ asked).tolist(), packs.values(), strict=True)
    return sorted(scored, key=lambda pair: -pair[0])


async def top1(memory: AsyncMemory, evidence: Evidence) -> Evidence:
    if not evidence.chosen:
        return evidence
    session = await memory.session(evidence.chosen[0].card.session_id)
    source = Source(
        session_id=session.id,
        at=session.at,
        turns=tuple(enumerate(session.turns, 1)),
        whole=True,
        tokens=sum(token_count(turn.text) + 8 for turn in session.turns),
    )
    return evidence.model_copy(update={"sources": (source,)})
