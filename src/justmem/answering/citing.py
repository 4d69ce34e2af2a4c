"""From a card to the exact words it rests on.

A quotation is cut out of the turn by offsets, never copied from anywhere else, so that
`session.turn(n).text[start:end]` always is the quote.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from justmem.domain import Card, Citation, Session
from justmem.words import Sentence, content, sentences

SHORT = 160  # characters: a turn up to this long is quoted whole


def cite(card: Card, session: Session | None) -> tuple[Citation, ...]:
    """One quotation per turn of the card. Turns the session does not have are left out. Without a
    session, whose words are then not kept, the places alone."""
    if session is None:
        return tuple(_place(card, number) for number in card.turns)
    hint = f"{card.subject} {card.fact}"
    return tuple(
        quote(hint, session, number, card_id=card.id)
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
    start, end = best_stretch(hint, said.text)
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


def best_stretch(hint: str, text: str) -> tuple[int, int]:
    """Offsets of the best-matching one or two neighbouring sentences, or of the whole text if
    it is short. Of equals the earlier and shorter one."""
    whole = len(text) - len(text.lstrip()), len(text.rstrip())
    if len(text) <= SHORT or whole[0] >= whole[1]:
        return whole if whole[0] < whole[1] else (0, len(text))
    pieces = sentences(text)
    if len(pieces) < 2:
        return whole
    wanted = set(content(hint))
    stems = [content(piece.text) for piece in pieces]
    # A word that every second sentence has tells little about which one is meant.
    frequency = Counter(stem for found in stems for stem in set(found))
    weigh = {stem: 1.0 / math.sqrt(frequency[stem]) for stem in wanted if stem in frequency}

    def value(run: Sequence[int]) -> float:
        given = {stem for index in run for stem in stems[index]}
        return sum(weight for stem, weight in weigh.items() if stem in given)

    singles = [(value([index]), -index, (index, index)) for index in range(len(pieces))]
    best = max(singles)
    pairs = [(value([i, i + 1]), -i, (i, i + 1)) for i in range(len(pieces) - 1)]
    widest = max(pairs)
    # A second sentence must earn its place.
    first, last = widest[2] if widest[0] > best[0] * 1.3 + 0.3 else best[2]
    return _bounds(pieces, first, last)


def _bounds(pieces: Sequence[Sentence], first: int, last: int) -> tuple[int, int]:
    return pieces[first].start, pieces[last].end
