"""Quotations of the words that a card rests on.

A quotation is cut out of its turn by offsets: `session.turn(n).text[start:end]` is the quote.
"""

from __future__ import annotations

from datetime import datetime
from functools import partial

from justmem.domain import Card, Citation, Session, Source, Turn
from justmem.language.words import best_passage


def cite(card: Card, session: Session | None) -> tuple[Citation, ...]:
    """One citation for each turn of the card that the session has. If the words of a turn are not
    kept, its citation has no quotation."""
    without_words = partial(
        _cite_without_words, card.session_id, said_at=card.said_at, card_id=card.id
    )
    if session is None:
        return tuple(without_words(number) for number in card.turns)
    hint = f"{card.subject} {card.fact}"
    return tuple(
        without_words(number)
        if session.turn(number).forgotten
        else cite_turn(hint, session, number, card_id=card.id)
        for number in card.turns
        if 1 <= number <= len(session.turns)
    )


def cite_source(hint: str, source: Source, turn: int, session: Session | None) -> Citation:
    """The words of a recovered turn. If they were forgotten since, there is no quotation."""
    if session is None or turn > len(session.turns) or session.turn(turn).forgotten:
        return _cite_without_words(source.session_id, turn, said_at=source.at)
    return cite_turn(hint, session, turn)


def _cite_without_words(
    session_id: str, turn: int, *, said_at: datetime, card_id: str | None = None
) -> Citation:
    return Citation(
        session_id=session_id,
        turn=turn,
        speaker="",
        said_at=said_at,
        quote="",
        start=0,
        end=0,
        card_id=card_id,
        kept=False,
    )


def cite_turn(hint: str, session: Session, turn: int, *, card_id: str | None = None) -> Citation:
    """The one or two sentences of the turn that share most words with the hint."""
    said = session.turn(turn)
    span = best_passage(hint, said.text)
    return quote_range(session.id, session.at, turn, said, span, card_id=card_id)


def show_correction(card: Card, date: str, line: str) -> str:
    """A card that somebody corrected by hand. `line` quotes the words that it rests on."""
    words = card.line.rstrip(".")
    return f"{words}{date}. Corrected by hand. The words were: {line}"


def quote_range(
    session_id: str,
    session_at: datetime,
    number: int,
    turn: Turn,
    span: tuple[int, int],
    *,
    card_id: str | None = None,
) -> Citation:
    """The words of a turn from `span[0]` to `span[1]`."""
    start, end = span
    return Citation(
        session_id=session_id,
        turn=number,
        speaker=turn.speaker,
        said_at=turn.at or session_at,
        quote=turn.text[start:end],
        start=start,
        end=end,
        card_id=card_id,
    )
