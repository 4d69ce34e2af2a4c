"""The paper's ablations as other ways to choose from the same memory.

session_pack    all cards of the best session, and nothing else
session_first   sessions are ranked first; each of the best ten gives its best card
top1            compact reading, and the whole session behind the best card for every question
"""

from __future__ import annotations

from collections.abc import Sequence

from justmem import AsyncMemory
from justmem.domain import Candidate, Card, Evidence, Source
from justmem.ports import Embedder
from justmem_eval.settings import Switches
from justmem_eval.text import count


async def vary(
    memory: AsyncMemory, embedder: Embedder, switches: Switches, evidence: Evidence
) -> Evidence:
    if switches.granularity == "session_pack":
        best = (await _ranked(memory, embedder, evidence))[:1]
        return _reading(evidence, [Candidate(card=card) for cards in best for card in cards])
    if switches.granularity == "session_first":
        best = (await _ranked(memory, embedder, evidence))[: switches.budget.cards]
        places = {c.card.id: place for place, c in enumerate(evidence.candidates)}
        chosen = []
        for cards in best:  # a session whose cards discovery did not find gives its first one
            card = min(cards, key=lambda card: places.get(card.id, len(places)))
            known = card.id in places
            chosen.append(evidence.candidates[places[card.id]] if known else Candidate(card=card))
        return _reading(evidence, chosen)
    if switches.reading == "top1" and evidence.chosen:
        session = await memory.session(evidence.chosen[0].card.session_id)
        source = Source(
            session_id=session.id,
            at=session.at,
            turns=tuple(enumerate(session.turns, 1)),
            whole=True,
            tokens=sum(count(turn.text) + 8 for turn in session.turns),
        )
        return evidence.model_copy(update={"sources": (source,)})
    return evidence


def _reading(evidence: Evidence, chosen: Sequence[Candidate]) -> Evidence:
    cards = tuple(candidate.card for candidate in chosen)
    return evidence.model_copy(update={"chosen": tuple(chosen), "cards": cards, "sources": ()})


async def _ranked(
    memory: AsyncMemory, embedder: Embedder, evidence: Evidence
) -> list[Sequence[Card]]:
    """The cards of each session, best first by the likeness of all its cards together."""
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
    return [cards for _, cards in sorted(scored, key=lambda pair: -pair[0])]
