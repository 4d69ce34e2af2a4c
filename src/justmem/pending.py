"""Sessions whose cards are still to be made: their turns can be found by their words."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime

from justmem.domain import Candidate, Retention, Session, quote
from justmem.language.words import content, overlap
from justmem.ports import Store
from justmem.text import both_ends

MOST = 100  # sessions that are looked through, the latest ones
_TURNS = 3  # turns that join the evidence
_SHARE = 0.3  # of the question's words that a turn must have


def told(waiting: Sequence[Session]) -> str:
    """For the receipt."""
    if len(waiting) == 1:
        return "1 session waits for its cards: its turns were searched by their words"
    count = f"{len(waiting)}" if len(waiting) < MOST else f"{MOST} or more"
    return f"{count} sessions wait for their cards: their turns were searched by their words"


async def turns(
    store: Store,
    waiting: Sequence[Session],
    question: str,
    at: datetime,
    retention: Retention,
    score: float,
) -> list[Candidate]:
    """The turns that share most words with the question, as quotes. A session that has cards of
    an older text is left out: those serve until the new ones are made."""
    seen = [
        session
        for session in waiting
        if session.at.date() <= at.date() and not retention.session_expired(session.at, at)
    ]
    # In a thread: others of this event loop do not wait for it.
    found = await asyncio.to_thread(_sharing, seen, question)
    current = await store.sessions_at(list({session.id for _, session, _ in found}))
    usable = [
        row for row in found if row[1].id in current and current[row[1].id].digest == row[1].digest
    ]
    return [
        Candidate(card=quote(session, number), scores={"lexical": share}, score=score)
        for share, session, number in usable[:_TURNS]
    ]


def _sharing(sessions: Sequence[Session], question: str) -> list[tuple[float, Session, int]]:
    """Turns by the share of the question's words that they have, best first."""
    wanted = set(content(both_ends(question)))
    found = [
        (overlap(wanted, content(both_ends(turn.text))), session, number)
        for session in sessions
        for number, turn in session.user_side
    ]
    return sorted((row for row in found if row[0] >= _SHARE), key=lambda row: -row[0])
