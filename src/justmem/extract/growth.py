"""A session that grew: its new turns, with some earlier ones as context."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from justmem.domain import Card, Session, merge_repeated
from justmem.extract.drafts import with_replies
from justmem.ports import Extraction, StoredSession
from justmem.runtime import tokens

_CONTEXT_TURNS = 6
_CONTEXT_TOKENS = 400


def settled_turns(before: StoredSession | None, session: Session) -> int:
    """How many of the first turns have their cards, if the session only grew; else 0. The same
    text again is rebuilt."""
    if before is None or not before.derived.state.settled:
        return 0
    if len(session.turns) == len(before.session.turns):
        return 0
    return session.grown_from(before.session)


def with_kept(
    session: Session, extraction: Extraction, before: StoredSession | None, after: int
) -> Extraction:
    """A session that grew keeps its cards. In a changed one new cards replace the old ones. Cards
    whose turns were all forgotten stay, because they cannot be extracted again."""
    if before is None:
        return extraction
    made = before.derived
    if after:
        cards = [*kept_cards(made.cards, session), *extraction.cards]
        held = [*made.quarantined, *extraction.quarantined]
        return replace(extraction, cards=merge_repeated(cards), quarantined=held)
    gone = {number for number, turn in enumerate(session.turns, 1) if turn.forgotten}
    kept = [card for card in made.cards if gone.issuperset(card.turns)] if gone else []
    return replace(extraction, cards=[*kept, *extraction.cards])


def context_start(session: Session, after: int) -> int:
    """How many turns may be cut off: those before the last few that fit the context."""
    room, start = _CONTEXT_TOKENS, after
    while start and after - start < _CONTEXT_TURNS:
        room -= tokens.count(session.turn(start).text)
        if room < 0:
            break
        start -= 1
    return start


def tail(session: Session, after: int) -> tuple[Session, int]:
    """The turns after `after` with their context, and the number of turns cut off before them."""
    cut = context_start(session, after)
    return session.model_copy(update={"turns": session.turns[cut:]}), cut


def kept_cards(cards: Iterable[Card], session: Session) -> list[Card]:
    """The cards of the earlier turns. An interaction is anchored to a reply that came later."""
    return [
        card.model_copy(update={"turns": with_replies(card.turns, session)})
        if card.kind == "interaction"
        else card
        for card in cards
    ]


def new_cards(cards: Iterable[Card], cut: int, after: int) -> list[Card]:
    """Cards of a tail with the turn numbers of the whole session, without those that rest on
    earlier turns alone."""
    moved = [
        card.model_copy(update={"turns": tuple(n + cut for n in card.turns)}) for card in cards
    ]
    return [card for card in (moved if cut else cards) if max(card.turns, default=0) > after]
