"""Answers that rest on several statements: profiles, counts, lists and orders of events."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import date

from justmem.domain import Evidence
from justmem.language.data import english
from justmem.language.en.direct import date_of, full_statements, is_outdated
from justmem.language.en.relevance import (
    MOST_QUOTED,
    Findings,
    Question,
    Statement,
    coverage,
    one_per_turn,
    statement_from,
)
from justmem.language.en.speaker import own_name
from justmem.language.en.states import NOT_SO, superseded
from justmem.language.words import content_stems, stem, words

MOST_LISTED = 6  # of a list or a count
_MOST_KNOWN = 8  # of what is known about somebody
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


def find_profile(evidence: Evidence) -> Findings | None:
    """What was said about somebody, newest first."""
    match = _PROFILE.match(evidence.question.strip())
    if match is None:
        return None
    who = match["who"].lower().strip()
    if who in _ME:
        found = [statement_from(one, {}) for one in evidence.candidates or evidence.chosen]
        told = [one for one in found if _OF_ONESELF.search(one.text)]
    elif re.match(r"(?:my|our|the|an?|your)\b", who):
        return None
    else:
        wanted = {stem(word) for word in words(who)}
        found = [statement_from(one, {}) for one in evidence.chosen]
        told = [one for one in found if coverage(wanted, one.stems) == 1]
    told = [one for one in told if one.card.kind != "interaction" and len(one.text.split()) > 2]
    newest = sorted(told[: 2 * _MOST_KNOWN], key=lambda one: one.card.said_at, reverse=True)
    newest = newest[:_MOST_KNOWN]
    earlier = superseded((one.card for one in newest), evidence.at.date())
    return Findings("", newest, earlier, whole_turns=False) if newest else None


def find_own_name(evidence: Evidence) -> Findings | None:
    """How the one who asks introduced themselves."""
    if not _NAME_ASKED.search(evidence.question):
        return None
    found = [statement_from(one, {}) for one in evidence.candidates or evidence.chosen]
    told = [(one, name) for one in found if (name := own_name(one.card))]
    if not told:
        return None
    one, name = max(told, key=lambda row: row[0].card.said_at)
    return Findings(f"{name}.", [one])


def find_count(evidence: Evidence, asked: Question, found: Sequence[Statement]) -> Findings | None:
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
        if is_outdated(one, asked, found):
            return None
        return Findings(f"{said['n'].capitalize()}.", one_per_turn([one, *found])[:MOST_QUOTED])
    items = one_per_turn(full)
    days = {date_of(one).text if date_of(one).start else one.said_on for one in items}
    if len(asked.topic) > 1 and 1 < len(items) == len(days):
        return Findings(f"At least {len(items)} in memory:", _sort_by_date(items)[:MOST_LISTED])
    return None


def find_list(evidence: Evidence, asked: Question, found: Sequence[Statement]) -> Findings | None:
    """More than the usual quotations, in order of time."""
    if evidence.plan.mode != "list":
        return None
    best = max(coverage(asked.topic, one.stems) for one in found)
    near = [one for one in found if coverage(asked.topic, one.stems) >= max(best, 0.5)]
    items = one_per_turn(near)[:MOST_LISTED]
    return Findings("", _sort_by_date(items)) if len(items) > MOST_QUOTED else None


def _sort_by_date(found: Iterable[Statement]) -> list[Statement]:
    return sorted(found, key=lambda one: one.card.event_date.start or one.said_on)


def find_order(evidence: Evidence, found: Sequence[Statement]) -> Findings | None:
    """The things that a question lists, each by its best statement, in order of their dates. It is
    certain only if each statement has most words of its thing and a date of its own."""
    if evidence.plan.operation != "order" and "order" not in words(evidence.question):
        return None
    placed: list[tuple[date, str, Statement]] = []
    certain = True
    for item in _things_to_order(evidence.question) if found else []:
        wanted = set(content_stems(item)) - {"new", "old"}
        shares = [coverage(wanted, one.stems, least=3) for one in found]
        best = found[shares.index(max(shares))]
        if max(shares) > 0:
            placed.append((date_of(best).start or best.said_on, item, best))
        certain = certain and max(shares) >= 0.6 and best.card.status != "planned"
    if len(placed) < 2:
        return None
    placed.sort(key=lambda row: row[0])
    statements = [one for _, _, one in placed]
    if not certain or len({day for day, _, _ in placed}) < len(placed):
        return Findings("", one_per_turn(statements), certain=False)
    lines = [f"{n}. {item} ({day.day} {day:%B %Y})" for n, (day, item, _) in enumerate(placed, 1)]
    return Findings("\n".join(lines), statements)


def _things_to_order(question: str) -> list[str]:
    """ "Which came first, the job or the car?" -> the job, the car."""
    _, colon, rest = question.partition(":")
    if not colon:
        match = re.search(r"\bfirst\b,?(?P<rest>.*\bor\b.*)", question, re.IGNORECASE)
        rest = match["rest"] if match else ""
    parts = re.split(r",| or | and ", rest.strip(" ?."))
    return [part.strip(" ,:") for part in parts if content_stems(part)]
