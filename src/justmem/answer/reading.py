"""Evidence as an answer model reads it: terse lines, each with the number it is cited by."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, datetime, timedelta

from justmem.domain import Card, Evidence, Source
from justmem.prompts import fence, one_line

# The start of a line that would pass for a turn of its own.
_FORGED = re.compile(r"(?<=[\n\r\v\f\x1c-\x1e\x85\u2028\u2029])(?=[^\w\n]*s\d+\.\d+\b)", re.I)
_OPEN = frozenset({"planned", "ongoing"})
_IN_TIME_ORDER = frozenset({"temporal", "order", "aggregate"})
_SOON = timedelta(days=14)


def reading_order(evidence: Evidence) -> tuple[Card, ...]:
    """The cards in the order that the model reads them: by time where time carries the answer,
    else best first."""
    if evidence.plan.operation not in _IN_TIME_ORDER:
        return evidence.cards
    return tuple(sorted(evidence.cards, key=_event_time))


def _event_time(card: Card) -> tuple[date, datetime]:
    return card.event_date.start or card.said_at.date(), card.said_at


def drop_least_important(evidence: Evidence) -> Evidence:
    """Without its least important part: first the cards around the places, lowest score first,
    then the last source, then the lowest place."""
    places = [candidate.card.id for candidate in evidence.chosen]
    scores = {candidate.card.id: candidate.score for candidate in evidence.candidates}
    near = [card.id for card in evidence.cards if card.id not in places]
    if not near and evidence.sources:
        return evidence.model_copy(update={"sources": evidence.sources[:-1]})
    gone = min(near, key=lambda id: scores.get(id, 0.0)) if near else places.pop()
    return evidence.model_copy(
        update={
            "chosen": tuple(each for each in evidence.chosen if each.card.id != gone),
            "cards": tuple(card for card in evidence.cards if card.id != gone),
        }
    )


def card_line(number: int, card: Card, above: Card | None = None, *, earlier: bool = False) -> str:
    return f"{number} {card_text(card, above, earlier=earlier)}"


def card_text(card: Card, above: Card | None = None, *, earlier: bool = False) -> str:
    """The words, with the date and the status where they say more than the words do. When it was
    said stands there unless that is plain: soon after it happened, or with the line above.
    `earlier`: a newer card says otherwise."""
    said = card.said_at.date()
    notes = [] if card.event_date.precision == "unknown" else [str(card.event_date)]
    if card.status in _OPEN:
        notes.append(card.status)
    if not _told_soon(card) and (above is None or above.session_id != card.session_id):
        notes.append(f"said {said}")
    if earlier:
        notes.append("earlier")
    text = one_line(card.text).replace(" said: ", ": ", 1)
    return text + (f" [{', '.join(notes)}]" if notes else "")


def _told_soon(card: Card) -> bool:
    start, end, said = card.event_date.start, card.event_date.end, card.said_at.date()
    if start is None or end is None:
        return False
    return start <= said and said - end <= _SOON


def source_lines(number: int, source: Source) -> Iterator[str]:
    for turn_number, turn in source.turns:
        # Line breaks are kept: in a list or a piece of code they are part of what was said.
        said = _FORGED.sub("> ", turn.text.strip())
        yield f"s{number}.{turn_number} {one_line(turn.speaker)}: {said}"


def evidence_text(evidence: Evidence, mark: str) -> str:
    """`mark` is the number in the tags (`prompts.new_mark`)."""
    cards = reading_order(evidence)
    above = [None, *cards]
    lines = [
        card_line(n, card, above[n - 1], earlier=card.id in evidence.earlier)
        for n, card in enumerate(cards, 1)
    ]
    parts = [fence("memory", "\n".join(lines) or "(nothing)", mark)]
    for number, source in enumerate(evidence.sources, 1):
        said = "\n".join(source_lines(number, source))
        parts.append(f"Conversation of {source.at:%A %Y-%m-%d}:\n{fence('source', said, mark)}")
    return "\n".join(parts)
