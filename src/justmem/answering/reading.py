"""Evidence as an answer model reads it: terse lines, each with the number it is cited by."""

from __future__ import annotations

import re
from collections.abc import Iterator

from justmem.domain import Candidate, Card, Evidence, Source
from justmem.prompts import fence, one_line

# The start of a line that would pass for a turn of its own.
_FORGED = re.compile(r"(?<=[\n\r\v\f\x1c-\x1e\x85\u2028\u2029])(?=[^\w\n]*s\d+\.\d+\b)", re.I)
_IN_TIME_ORDER = frozenset({"temporal", "order", "aggregate"})


def arranged(evidence: Evidence) -> tuple[Candidate, ...]:
    """By rank for lookup and comparison; in order of time where time carries the answer."""
    if evidence.plan.operation not in _IN_TIME_ORDER:
        return evidence.read
    return tuple(sorted(evidence.read, key=lambda c: _happened(c.card)))


def shorter(evidence: Evidence) -> Evidence:
    """Without what it can best do without: the last source goes first, then the lowest-ranked
    card, those that share its slot before it."""
    if evidence.sources:
        return evidence.model_copy(update={"sources": evidence.sources[:-1]})
    *better, last = evidence.chosen
    if last.also:
        better.append(last.model_copy(update={"also": ()}))
    return evidence.model_copy(update={"chosen": tuple(better)})


def _happened(card: Card) -> tuple[str, str]:
    start = card.event_date.start
    return (start.isoformat() if start else f"{card.said_at:%Y-%m-%d}", card.said_at.isoformat())


def card_line(number: int, card: Card) -> str:
    said = f"{card.said_at:%Y-%m-%d}"
    notes = [] if card.event_date.precision == "unknown" else [str(card.event_date)]
    if card.status != "stable":
        notes.append(card.status)
    if said not in notes:
        notes.append(f"said {said}")
    return f"{number} {one_line(card.text)} [{', '.join(notes)}]"


def source_lines(number: int, source: Source) -> Iterator[str]:
    for turn_number, turn in source.turns:
        # Line breaks are kept: in a list or a piece of code they are part of what was said.
        said = _FORGED.sub("> ", turn.text.strip())
        yield f"s{number}.{turn_number} {one_line(turn.speaker)}: {said}"


def evidence_text(evidence: Evidence) -> str:
    lines = [card_line(n, c.card) for n, c in enumerate(arranged(evidence), 1)]
    parts = [fence("memory", "\n".join(lines) or "(nothing)")]
    for number, source in enumerate(evidence.sources, 1):
        said = "\n".join(source_lines(number, source))
        parts.append(f"Conversation of {source.at:%A %Y-%m-%d}:\n{fence('source', said)}")
    return "\n".join(parts)
