"""Answers of several statements: who somebody is, counts, lists, and things in order of time."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import date

from justmem.domain import Evidence
from justmem.language.data import english
from justmem.language.en.direct import date_told, full_statements, outdated
from justmem.language.en.own_name import own_name
from justmem.language.en.relevance import (
    QUOTED,
    Answered,
    Asked,
    Statement,
    covered,
    distinct,
    statement_of,
)
from justmem.language.en.states import NOT_SO, superseded
from justmem.language.words import content, stem, words

LISTED = 6  # of a list or a count
KNOWN = 8  # of what is known about somebody
_PROFILE = re.compile(
    r"^(?:so |and |please )*(?:who(?:['’]s| is| was)|what do (?:you|u) (?:know|remember)"
    r" (?:about|of|abt)|tell me (?:all |everything )?(?:you know )?about|describe|summari[sz]e)"
    r" (?P<who>[\w'’ -]{1,80}?)(?: again)?[?.! ]*$",
    re.IGNORECASE,
)
# "I live in York", "my name is Ada", "my wife": what describes the one who says it.
_OF_ONESELF = re.compile(
    r"\bi(?:['’]?m| am)(?: \w+){1,2}|\bi (?:live|work|have|love|like|enjoy|hate|own|play|study"
    r"|teach|speak|come from|moved|started|got)\b|\bmy (?:name|age|birthday|job|favou?rite|"
    + "|".join(english().relation) + r")\b",
    re.IGNORECASE,
)  # fmt: skip
_ME = frozenset(("me", "myself", "i", "my life", "my year"))
_NAME_ASKED = re.compile(r"\bwhat(?:['’]?s| is) my name\b|\bwho am i\b", re.IGNORECASE)
_NUMBERS = "two|three|four|five|six|seven|eight|nine|ten|eleven|twelve"
_COUNTED = re.compile(
    r"\bhow many (?:\w+ ){0,2}?(?P<noun>[\w-]+?s|people|children)\b", re.IGNORECASE
)
_VAGUE = re.compile(r"\bdid (?:\w+ ){1,2}(?:do|get|make|have)\b", re.IGNORECASE)


def profile(evidence: Evidence) -> Answered | None:
    """What was said about somebody, newest first."""
    match = _PROFILE.match(evidence.question.strip())
    if match is None:
        return None
    who = match["who"].lower().strip()
    if who in _ME:
        found = [statement_of(one, {}) for one in evidence.candidates or evidence.chosen]
        told = [one for one in found if _OF_ONESELF.search(one.text)]
    elif re.match(r"(?:my|our|the|an?|your)\b", who):
        return None
    else:
        wanted = {stem(word) for word in words(who)}
        found = [statement_of(one, {}) for one in evidence.chosen]
        told = [one for one in found if covered(wanted, one.stems) == 1]
    told = [one for one in told if one.card.kind != "interaction" and len(one.text.split()) > 2]
    newest = sorted(told[: 2 * KNOWN], key=lambda one: one.card.said_at, reverse=True)[:KNOWN]
    earlier = superseded((one.card for one in newest), evidence.at.date())
    return Answered("", newest, earlier, whole_turns=False) if newest else None


def own_name_asked(evidence: Evidence) -> Answered | None:
    """How the one who asks introduced themselves."""
    if not _NAME_ASKED.search(evidence.question):
        return None
    found = [statement_of(one, {}) for one in evidence.candidates or evidence.chosen]
    told = [(one, name) for one in found if (name := own_name(one.card))]
    if not told:
        return None
    one, name = max(told, key=lambda row: row[0].card.said_at)
    return Answered(f"{name}.", [one])


def counted(evidence: Evidence, asked: Asked, found: Sequence[Statement]) -> Answered | None:
    """The number that stands right before the counted noun. Otherwise the statements that have the
    noun and the verb are counted: there are at least that many."""
    match = _COUNTED.search(asked.text)
    if evidence.plan.mode != "count" or match is None:
        return None
    full = [
        one
        for one in full_statements(evidence, asked, found)
        if not NOT_SO.search(one.text) and one.card.status != "planned"
    ]
    number = rf"\b(?P<n>\d+|{_NUMBERS}) (?:\w+ )?{re.escape(match['noun'])}\b"
    told = [(one, m) for one in full for m in re.finditer(number, one.text, re.IGNORECASE)]
    if told and len({m["n"] for _, m in told}) == 1 and not _VAGUE.search(asked.text):
        one, said = told[0]
        if outdated(one, asked, found):
            return None
        return Answered(f"{said['n'].capitalize()}.", distinct([one, *found])[:QUOTED])
    items = distinct(full)
    days = {date_told(one).text if date_told(one).start else one.said for one in items}
    if len(asked.topic) > 1 and 1 < len(items) == len(days):
        return Answered(f"At least {len(items)} in memory:", _by_date(items)[:LISTED])
    return None


def listed(evidence: Evidence, asked: Asked, found: Sequence[Statement]) -> Answered | None:
    """More than the usual quotations, in order of time."""
    if evidence.plan.mode != "list":
        return None
    best = max(covered(asked.topic, one.stems) for one in found)
    near = [one for one in found if covered(asked.topic, one.stems) >= max(best, 0.5)]
    items = distinct(near)[:LISTED]
    return Answered("", _by_date(items)) if len(items) > QUOTED else None


def _by_date(found: Iterable[Statement]) -> list[Statement]:
    return sorted(found, key=lambda one: one.card.event_date.start or one.said)


def in_order(evidence: Evidence, found: Sequence[Statement]) -> Answered | None:
    """The things that a question lists, each by its best statement, in order of their dates. It is
    certain only if each statement has most words of its thing and a date of its own."""
    if evidence.plan.operation != "order" and "order" not in words(evidence.question):
        return None
    placed: list[tuple[date, str, Statement]] = []
    certain = True
    for item in _things(evidence.question) if found else []:
        wanted = set(content(item)) - {"new", "old"}
        shares = [covered(wanted, one.stems, least=3) for one in found]
        best = found[shares.index(max(shares))]
        if max(shares) > 0:
            placed.append((date_told(best).start or best.said, item, best))
        certain = certain and max(shares) >= 0.6 and best.card.status != "planned"
    if len(placed) < 2:
        return None
    placed.sort(key=lambda row: row[0])
    statements = [one for _, _, one in placed]
    if not certain or len({day for day, _, _ in placed}) < len(placed):
        return Answered("", distinct(statements), certain=False)
    lines = [f"{n}. {item} ({day.day} {day:%B %Y})" for n, (day, item, _) in enumerate(placed, 1)]
    return Answered("\n".join(lines), statements)


def _things(question: str) -> list[str]:
    """ "Which came first, the job or the car?" -> the job, the car."""
    _, colon, rest = question.partition(":")
    if not colon:
        match = re.search(r"\bfirst\b,?(?P<rest>.*\bor\b.*)", question, re.IGNORECASE)
        rest = match["rest"] if match else ""
    parts = re.split(r",| or | and ", rest.strip(" ?."))
    return [part.strip(" ,:") for part in parts if content(part)]
