"""Time between events: how long ago, how long for, which came first."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, datetime

from justmem.answering.support import Supported, asked_words, shares
from justmem.domain import Card
from justmem.words import content

_UNIT = re.compile(r"\bhow many (?:\w+ )?(day|week|month|year|hour|minute)s?\b", re.IGNORECASE)
_FOR = re.compile(
    r"\b((?:(?:about|around|over|nearly|almost|the last|the past) )*"
    r"(?:\d[\d.,]*|an?|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|a few|several"
    r"|a couple of)(?:-\d+)? (?:and a half )?(?:second|minute|hour|day|week|month|year|decade)s?)\b"
    r"(?! ago)",
    re.IGNORECASE,
)
_SINCE = re.compile(
    r"\bsince ((?:\w+ )?(?:19|20)\d\d|I was \w+|childhood|high school|college)", re.I
)


def duration_in(text: str) -> str:
    """The length of time a card states: "5 years", "since 2016"; empty if it states none."""
    match = _FOR.search(text)
    if match:
        return match[1].strip()
    since = _SINCE.search(text)
    return f"since {since[1]}" if since else ""


def day_of(card: Card) -> date:
    """When it happened, or, failing that, when it was said."""
    return card.event_date.start or card.said_at.date()


def unit_asked(question: str) -> str:
    match = _UNIT.search(question)
    return match[1].lower() if match else ""


def length(first: date, last: date, unit: str) -> str:
    """The time between two days, in the unit asked for or the one that reads best."""
    days = abs((last - first).days)
    unit = unit or (
        "day" if days < 14 else "week" if days < 60 else "month" if days < 700 else "year"
    )
    if unit in ("hour", "minute"):
        unit = "day"
    months = abs((last.year - first.year) * 12 + last.month - first.month)
    number = {"day": days, "week": round(days / 7), "month": months or round(days / 30.4)}.get(
        unit, abs(last.year - first.year) if days > 300 else 0
    )
    return f"{number} {unit}{'' if number == 1 else 's'}"


_PARTS = re.compile(
    r"\bbetween\b(?P<a1>.+?)\band\b(?P<b1>.+)"
    r"|(?P<a2>.+?)\b(?:after|before|when|until|since)\b(?P<b2>.+)"
    r"|\b(?:first|last|earlier|later),?\s+(?P<a3>.+?)(?:,)?\s+or\s+(?P<b3>.+)",
    re.IGNORECASE | re.DOTALL,
)


def two_events(question: str) -> tuple[str, str] | None:
    """The two things a question holds against each other."""
    match = _PARTS.search(question.rstrip("? "))
    if match is None:
        return None
    for number in "123":
        if match[f"a{number}"]:
            return match[f"a{number}"].strip(" ,"), match[f"b{number}"].strip(" ,")
    return None


def told_of_both(question: str, found: Sequence[Supported]) -> tuple[Card, Card] | None:
    """The cards that speak of the two things, where there is one for each."""
    pair = two_events(question)
    first = _best_for(pair[0], found) if pair else None
    second = _best_for(pair[1], found, but=first.card) if pair and first else None
    return (first.card, second.card) if first and second else None


def surely_both(question: str, found: Sequence[Supported]) -> bool:
    """Whether those two cards say enough by themselves: neither need answer the whole question."""
    pair, cards = two_events(question), told_of_both(question, found)
    if pair is None or cards is None:
        return False
    told = zip(pair, cards, strict=True)
    return all(shares(card.text, _words_of(part)) >= _SURELY for part, card in told)


_SURELY = 0.6  # the share of its words that a card must have to tell of a thing for sure


def _best_for(part: str, found: Sequence[Supported], but: Card | None = None) -> Supported | None:
    """The card that speaks of one of the two things."""
    wanted = _words_of(part)
    rated = [
        (shares(one.card.text, wanted) + 0.02 * one.support, -index, one)
        for index, one in enumerate(found)
        if but is None or one.card.id != but.id
    ]
    rated = [row for row in rated if row[0] >= 0.35]
    return max(rated)[2] if rated else None


def _words_of(part: str) -> set[str]:
    """What it is about; the names in it where it has nothing else ("the Coastal Cleanup")."""
    return asked_words(part) or set(content(part))


def ago(card: Card, at: datetime, unit: str) -> str:
    return f"{length(day_of(card), at.date(), unit)} ago"
