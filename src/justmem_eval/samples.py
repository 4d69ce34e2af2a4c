"""Cards to look at: figures do not tell whether a person would accept them."""

from __future__ import annotations

from tempfile import TemporaryDirectory
from typing import Any

import justmem
from justmem.domain import Card, Session
from justmem.testing import HashEmbedder
from justmem_eval.benchmarks import Benchmark

_LONGEST = 160  # characters of what was said


async def samples(benchmark: Benchmark, count: int) -> list[str]:
    """Every card with the turn it rests on; of all cards of all sessions, those at even distances:
    nobody chose them."""
    sessions = {
        (session.id, session.digest): session
        for case in benchmark.cases
        for session in benchmark.history(case.history).sessions
    }
    made: list[tuple[Card, Session]] = []
    with TemporaryDirectory(prefix="justmem-eval-") as folder:
        for session in sessions.values():
            made += [(card, session) for card in await _cards(session, folder)]
    step = max(1.0, len(made) / max(1, count))
    taken = [made[int(place * step)] for place in range(min(count, len(made)))]
    return [line for card, session in taken for line in _lines(card, session)]


async def _cards(session: Session, folder: str) -> tuple[Card, ...]:
    """The cards as rules make them. Sessions of different histories may share an id, so each has
    a space of its own."""
    space = f"{session.id}-{session.digest}"
    own: dict[str, Any] = {"model": "rules", "embedder": HashEmbedder(8), "reranker": "none"}
    async with justmem.open_async(space, folder=folder, **own) as memory:
        return (await memory.remember(session)).cards


def _lines(card: Card, session: Session) -> list[str]:
    said = session.turn(card.turns[0])
    words = " ".join(said.text.split())
    cut = words if len(words) <= _LONGEST else words[: _LONGEST - 1] + "…"
    return [
        f"{card.kind}, {card.status}, {card.event_date}: {card.text}",
        f"    {said.speaker}: {cut}",
    ]
