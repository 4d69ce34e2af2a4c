"""A card by its id, and the words that it rests on."""

from __future__ import annotations

import asyncio

from justmem.domain import Card, Session, Source, quote_place, turn_as_card
from justmem.errors import NotInMemory
from justmem.language.citing import cite
from justmem.ports import Store, card_in, session_in
from justmem.runtime import tokens


async def card(store: Store, card_id: str) -> Card:
    """A card, or a turn as a quote: its id is as in `s12#3`."""
    if (place := quote_place(card_id)) is None:
        return await card_in(store, card_id)
    session_id, number = place
    session = await session_in(store, session_id)
    if not 1 <= number <= len(session.turns):
        raise NotInMemory(f"Session {session_id!r} has {len(session.turns)} turns.")
    if session.turn(number).forgotten:
        raise NotInMemory(f"Turn {card_id} was forgotten.")
    return turn_as_card(session, number)


async def source(store: Store, card_id: str) -> Source:
    """The turns that a card rests on, with one turn around them."""
    found = await card(store, card_id)
    session = await session_in(store, found.session_id)
    return await asyncio.to_thread(_source, found, session)


def _source(card: Card, session: Session) -> Source:
    first, last = max(1, min(card.turns) - 1), min(len(session.turns), max(card.turns) + 1)
    turns = tuple((n, session.turn(n)) for n in range(first, last + 1))
    return Source(
        session_id=session.id,
        at=session.at,
        turns=turns,
        whole=len(turns) == len(session.turns),
        tokens=sum(tokens.count(turn.text) for _, turn in turns),
        citations=cite(card, session),
    )
