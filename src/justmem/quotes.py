"""Quotes: turns that no card rests on, shown as cards so that they can compete with them.

A quote is made when it is needed and never stored. Its id names its turn, as in `s12#3`.
"""

from __future__ import annotations

from justmem.domain import UNKNOWN_DATE, Card, Session
from justmem.ports import Place

_LONGEST = 300  # characters


def quote(session: Session, number: int) -> Card:
    turn = session.turn(number)
    return Card.trusted(
        id=f"{session.id}#{number}",
        subject=turn.speaker,
        fact=f"said: {' '.join(turn.text.split())[:_LONGEST]}",
        event_date=UNKNOWN_DATE,
        kind="interaction",
        status="completed",
        session_id=session.id,
        said_at=session.at,
        turns=(number,),
    )


def quoted(card_id: str) -> Place | None:
    """The turn that a quote's id names; None for the id of a card."""
    session_id, hash, number = card_id.rpartition("#")
    counts = number.isascii() and number.isdigit() and len(number) < 10  # of longer ones, none
    return (session_id, int(number)) if hash and counts else None
