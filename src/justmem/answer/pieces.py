"""The reply to a question: by the answerer, unless nothing was found."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import replace

from justmem.domain import Evidence, Session
from justmem.ports import NOT_IN_MEMORY, Answerer, Reply, StreamingAnswerer

LEAST_TOKENS = 450  # that an answer call needs: planning leaves them

_FROM_CARDS = "The words themselves are not kept. From the cards: "
_NO_WORDS = "The words themselves are not kept, and the cards do not say."


async def replies(
    answerer: Answerer,
    evidence: Evidence,
    sessions: Mapping[str, Session],
    *,
    limit: int | None,
    streaming: bool,
) -> AsyncGenerator[str | Reply]:
    """Pieces of the text, if it is streamed and the answerer can stream. Last, the whole reply."""
    if not evidence.chosen and not evidence.sources:
        notes = ["nothing was found: no answer call was made"]
        yield Reply(NOT_IN_MEMORY, False, notes=notes)
        return
    if not streaming or not isinstance(answerer, StreamingAnswerer):
        yield _honest(await answerer.answer(evidence, sessions, limit=limit), evidence)
        return
    first = True
    async with aclosing(answerer.stream(evidence, sessions, limit=limit)) as pieces:
        async for piece in pieces:
            if isinstance(piece, Reply):
                yield _honest(piece, evidence)
            else:
                yield _FROM_CARDS + piece if first and not evidence.sources_kept else piece
                first = False


def _honest(reply: Reply, evidence: Evidence) -> Reply:
    """Says so if the question needs exact words that are not kept."""
    if evidence.sources_kept:
        return reply
    return replace(reply, text=_FROM_CARDS + reply.text if reply.sufficient else _NO_WORDS)
