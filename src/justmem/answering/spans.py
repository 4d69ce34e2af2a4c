"""Time between events: how long ago, how long for, which came first."""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterator, Sequence
from datetime import date, datetime

from justmem.answering.sentences import clauses
from justmem.answering.support import Supported, asked_words, shares
from justmem.domain import Card
from justmem.words import content

_MONTHS = "|".join(calendar.month_name[1:])
_UNIT = re.compile(r"\bhow many (?:\w+ )?(day|week|month|year|hour|minute)s?\b", re.IGNORECASE)
_MANY = (
    r"(?:\d[\d.,]*|an?|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fifteen|twenty"
    r"|thirty|a few|several|a couple of)"
)
_LASTING = r"(?:second|minute|hour|day|week|month|year|decade)s?"
_FOR = re.compile(
    r"\b((?:(?:about|around|over|nearly|almost|the last|the past) )*"
    rf"{_MANY}(?:-\d+)? (?:and a half )?{_LASTING}(?: and {_MANY} {_LASTING})?)\b(?! ago)",
    re.IGNORECASE,
)
_DAY = rf"\d{{1,2}} (?:{_MONTHS}) \d{{4}}"
_DAYS = re.compile(rf"\bfrom ({_DAY}) (?:to|until|till) ({_DAY})\b")
# "Twice a week", "950 pounds a month" and "5 km a day" say how often or how much.
_OFTEN = re.compile(r"\b(?:once|twice|times|every|each|per)\s*$|\d\s*x\s*$", re.IGNORECASE)
_RATE = re.compile(r"\d[\d.,]*\s?[^\W\d]*[%$€£]?\s*$")
_SINCE = re.compile(
    rf"\bsince ((?:\w+ )?(?:19|20)\d\d|(?:{_MONTHS})\b|(?:I|he|she|they) (?:was|were) \w+|childhood"
    r"|high school|college)",
    re.IGNORECASE,
)
_YEARS = re.compile(
    r"\b(?:from|between) (?:\w+ )?((?:19|20)\d\d) (?:to|until|till|and) (?:\w+ )?((?:19|20)\d\d)\b"
    r"|\b((?:19|20)\d\d) ?[-–] ?((?:19|20)\d\d)\b",
    re.IGNORECASE,
)
_AGE = re.compile(
    r"\b(?:is|turned|turns|turning|aged?|was|became|nearly|almost)"
    r"(?: \w+ly| about| only| now| just)? "
    r"(?P<age>\d{1,3}|[a-z]+teen|(?:twen|thir|for|fif|six|seven|eigh|nine)ty(?:-[a-z]+)?|one|two"
    r"|three|four|five|six|seven|eight|nine|ten|eleven|twelve)"
    # "Is two blocks away" and "was 20 minutes late" are no ages.
    r"(?= (?:years? old|now|today|yesterday|already|in|on|this|next|last|when|and|but)\b"
    r"|[.,;!)](?!\d)|$)"
    r"|\b(?P<old>\d{1,3}|[a-z]+)[- ](?P<unit>years?|months?|weeks?)[- ]old\b",
    re.IGNORECASE,
)


def durations_in(fact: str) -> Iterator[tuple[str, str]]:
    """The lengths of time a card states, each with the clause that states it: "5 years",
    "since 2016"."""
    for clause in clauses(fact):
        years = _YEARS.search(clause)
        if years:
            first, last = (int(year) for year in years.groups() if year)
            if last > first:
                yield f"{last - first} year{'' if last - first == 1 else 's'}", clause
        days = _DAYS.search(clause)
        if days:
            first_day, last_day = (datetime.strptime(day, "%d %B %Y") for day in days.groups())
            yield length(first_day.date(), last_day.date(), ""), clause
        for match in _FOR.finditer(clause):
            before = clause[: match.start()]
            rate = _RATE.search(before) if match[0].lower().startswith(("a ", "an ")) else None
            if not rate and not _OFTEN.search(before):
                yield match[1].strip(), clause
        since = _SINCE.search(clause)
        if since:
            yield f"since {since[1]}", clause


def age_in(fact: str) -> str:
    """How old a card says that somebody is."""
    match = _AGE.search(fact)
    if match is None:
        return ""
    return match["age"] or f"{match['old']} {match['unit']}"


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


_THAN = re.compile(r"\b(?:after|before|when|until|since)\b(?=.)", re.IGNORECASE | re.DOTALL)
_BETWEEN = re.compile(r"\bbetween\b", re.IGNORECASE)
_AND = re.compile(r"\band\b(?=.)", re.IGNORECASE | re.DOTALL)
_WHICH = re.compile(r"\b(?:first|last|earlier|later),?\s++", re.IGNORECASE)
_OR = re.compile(r"(?<!\s)\s++or\s++(?=.)", re.IGNORECASE | re.DOTALL)


def two_events(question: str) -> tuple[str, str] | None:
    """The two things a question holds against each other."""
    text = question.rstrip("? ")
    between, than = _pair(text, _BETWEEN, _AND), _THAN.search(text, 1)
    if than is not None and not (between and between[0] == 0):
        return text[: than.start()].strip(" ,"), text[than.end() :].strip(" ,")
    pairs = (between, _pair(text, _WHICH, _OR))
    found = min((pair for pair in pairs if pair is not None), default=None)
    return (found[1].strip(" ,"), found[2].strip(" ,")) if found else None


def _pair(
    text: str, opening: re.Pattern[str], joint: re.Pattern[str]
) -> tuple[int, str, str] | None:
    """Where the opening stands, what follows it up to the joint, and what follows the joint."""
    first = opening.search(text)
    second = joint.search(text, first.end() + 1) if first else None
    if first is None or second is None:
        return None
    return first.start(), text[first.end() : second.start()], text[second.end() :]


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
