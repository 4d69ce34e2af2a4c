"""From a card to the exact words it rests on.

A quotation is cut out of the turn by offsets, never copied from anywhere else, so that
`session.turn(n).text[start:end]` always is the quote.
"""

from __future__ import annotations

from justmem.domain import Card, Citation, Session
from justmem.language.words import best_passage


def cite(card: Card, session: Session | None) -> tuple[Citation, ...]:
    """One quotation per turn of the card. Turns the session does not have are left out. Of turns
    whose words are not kept, the places alone."""
    if session is None:
        return tuple(_place(card, number) for number in card.turns)
    hint = f"{card.subject} {card.fact}"
    return tuple(
        _place(card, number)
        if session.turn(number).forgotten
        else quote(hint, session, number, card_id=card.id)
        for number in card.turns
        if 1 <= number <= len(session.turns)
    )


def _place(card: Card, turn: int) -> Citation:
    return Citation(
        session_id=card.session_id,
        turn=turn,
        speaker="",
        said_at=card.said_at,
        quote="",
        start=0,
        end=0,
        card_id=card.id,
        kept=False,
    )


def quote(hint: str, session: Session, turn: int, *, card_id: str | None = None) -> Citation:
    """The one or two sentences of the turn that say most of what the hint says."""
    said = session.turn(turn)
    start, end = best_passage(hint, said.text)
    return Citation(
        session_id=session.id,
        turn=turn,
        speaker=said.speaker,
        said_at=said.at or session.at,
        quote=said.text[start:end],
        start=start,
        end=end,
        card_id=card_id,
    )
