"""Sessions without cards yet: their turns are searched by their words."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from justmem.budget.ledger import Tally
from justmem.domain import Candidate, Evidence, Retention, Session, quote
from justmem.language.words import content_stems, overlap
from justmem.ports import Filter, Store
from justmem.runtime.text import both_ends

_MOST_PENDING = 100  # sessions without cards that are searched, the latest ones
_PENDING_TURNS = 3  # of their turns that join the evidence
_SHARED_WORDS = 0.3  # share of the question's words that such a turn must have


async def sessions(store: Store, where: Filter) -> list[Session]:
    """The latest sessions without cards that the filter allows."""
    waiting = (await store.look(waiting=_MOST_PENDING)).waiting
    return [session for session in waiting if where.holds(session)]


async def add_turns(
    store: Store,
    waiting: Sequence[Session],
    found: Evidence,
    retention: Retention,
    tally: Tally,
) -> Evidence:
    """The evidence with the turns that share most words with the question, as quotes. If a session
    has cards already, only the turns that were appended since are quoted."""
    if not waiting:
        return found
    tally.notes.append(_pending_note(len(waiting)))
    shown = [
        session
        for session in waiting
        if session.at.date() <= found.at.date()
        and not retention.session_expired(session.at, found.at)
    ]
    # In a thread: other work of this event loop does not wait for it.
    rows = await asyncio.to_thread(_by_shared_words, shown, found.question)
    current = await store.texts(list({session.id for _, session, _ in rows}))
    score = max((one.score for one in found.chosen), default=0.0)
    known = {card.id for card in found.cards}
    more = [
        Candidate(card=quote(session, number), scores={"lexical": share}, score=score)
        for share, session, number in rows
        if session.id in current
        and number > _turns_with_cards(current[session.id], session)
        and f"{session.id}#{number}" not in known
    ][:_PENDING_TURNS]
    return found.model_copy(
        update={
            "chosen": (*found.chosen, *more),
            "cards": (*found.cards, *(one.card for one in more)),
        }
    )


def _turns_with_cards(current: Session, waiting: Session) -> int:
    """How many of the first turns have cards: all of them if an earlier turn was changed."""
    if current.digest == waiting.digest:
        return 0
    return waiting.grown_from(current) or len(waiting.turns)


def _pending_note(count: int) -> str:
    if count == 1:
        return "1 session waits for its cards: its turns were searched by their words"
    some = f"{count}" if count < _MOST_PENDING else f"{_MOST_PENDING} or more"
    return f"{some} sessions wait for their cards: their turns were searched by their words"


def _by_shared_words(
    sessions: Sequence[Session], question: str
) -> list[tuple[float, Session, int]]:
    """Turns by the share of the question's words that they have, best first."""
    wanted = set(content_stems(both_ends(question)))
    found = [
        (overlap(wanted, content_stems(both_ends(turn.text))), session, number)
        for session in sessions
        for number, turn in session.user_side
    ]
    return sorted((row for row in found if row[0] >= _SHARED_WORDS), key=lambda row: -row[0])
