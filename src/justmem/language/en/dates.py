"""Resolves phrases such as "last Friday" to dates.

`at` is when the words were said. The clock is never read. A phrase that is ambiguous stays unknown.
`date_phrases` has the patterns.
"""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from typing import NamedTuple

from justmem.domain import UNKNOWN_DATE, EventDate
from justmem.language.en.date_phrases import match_phrases, span


class DatePhrase(NamedTuple):
    """A date phrase at `text[start:end]`, and what it means."""

    start: int
    end: int
    date: EventDate


def resolve(text: str, at: date) -> EventDate:
    """The meaning of one phrase, said at `at`; unknown if it holds no date."""
    found = find(text, at)
    return max(found, key=lambda one: one.end - one.start).date if found else UNKNOWN_DATE


def find(text: str, at: date, *, future: bool | None = None) -> list[DatePhrase]:
    """Every date phrase in the text, in order, none inside another. `future` settles which
    Friday "Friday" is; if it is None, the last sign before the phrase in its clause settles it,
    or else the first one after it."""
    ends = [match.end() for match in _CLAUSE_END.finditer(text)]
    signs = [(match.end(), match["ahead"] is not None) for match in _DIRECTION.finditer(text)]

    def direction(place: int) -> bool | None:
        if future is not None:
            return future
        if _SINCE.search(text, max(0, place - 6), place + 6):
            return False
        start = max((end for end in ends if end <= place), default=0)
        stop = min((end for end in ends if end > place), default=len(text))
        near = [(end, ahead) for end, ahead in signs if start < end <= stop]
        before = [ahead for end, ahead in near if end <= place]
        return before[-1] if before else near[0][1] if near else None

    found = [DatePhrase(*hit) for hit in match_phrases(text, _day(at), direction)]
    found.sort(key=lambda one: (one.start - one.end, one.start))  # the longest first
    kept: list[DatePhrase] = []
    for hit in found[:_MOST]:
        if all(one.end <= hit.start or hit.end <= one.start for one in kept):
            kept.append(hit)
    return sorted(kept)


_MOST = 100  # phrases of a text that are compared with each other


def _day(at: date) -> date:
    return at.date() if isinstance(at, datetime) else at


_SINCE = re.compile(r"\bsince ", re.IGNORECASE)
_CLAUSE_END = re.compile(r"[.,;!?](?= )|\n")
# What shows whether a date lies ahead or behind. An arrangement lies ahead: "booked for Friday".
_DIRECTION = re.compile(
    r"(?P<ahead>(?:\b(?:have |has |had )?|['’](?:ve|s|d) )(?:just |already |finally )?"
    r"(?:booked|reserved|registered|enrolled|scheduled|arranged|planned|promised|agreed|invited"
    r"|signed (?:\w+ )?up|set (?:the|a) date|moved (?:it|that|them) to|postponed|due)\b"
    r"|\b(?:got|bought|made|have) (?:\w+ ){0,3}(?:tickets|tix|appointment|interview|place in the)\b"
    r"|\b(?:is|are)(?= (?:(?:on|in|at|from|now) )*(?:the )?(?:\d|"
    r"(?:mon|tues|wednes|thurs|fri|satur|sun)day|jan|feb|mar|apr|may|june?|july?|aug|sep|oct|nov|dec))"
    r"|\b(?:will|won['’]t|gonna|going to|plan(?:s|ning)?|next|tomorrow|upcoming|coming up"
    r"|looking forward|starts?|begins?|arrives|ends|leaves|opens|returns|turns|can['’]t wait"
    r"|hop(?:e|es|ing) to|about to|want to|wanna|need to|have to|intend"
    r"|shall|excited for|getting ready|preparing for|deadline|by the end of)\b"
    r"|['’]ll\b|['’]ve got\b|\b(?:have|has) (?:an?|the|my|our|his|her)\b"
    r"|(?:\b(?:am|is|are|im)|['’](?:m|s|re)) (?:\w+ly |also |just )?(?!being|having been)"
    r"(?-i:[a-z]+)ing\b)"
    r"|(?P<behind>\b(?:was|were|had|did|didn['’]t|ago|yesterday|since|been|last|ate|began|bought|broke"
    r"|brought|came|caught|chose|drank|drove|fed|fell|felt|flew|forgot|fought|found|gave|got|grew|heard"
    r"|held|hid|kept|knew|led|left|lent|lost|made|met|paid|quit|ran|rode|said|sang|sat|saw|sent"
    r"|slept|sold|spent|spoke|stole|stood|swam|taught|threw|told|took|tore|went|woke|won|wore|wrote"
    r"|(?!called|named|titled|based|excited|interested|married|supposed|need|speed|feed|indeed)"
    r"[a-z]{2,}[^e\W]ed)\b)",
    re.IGNORECASE,
)


def points_ahead(text: str) -> bool | None:
    """True: the first sign points ahead; False: behind; None: there is none."""
    match = _DIRECTION.search(text)
    return None if match is None else match["ahead"] is not None


# ---------------------------------------------------------------- the period of a question

_BETWEEN = re.compile(
    r"\b(?:between|from)\s+(?P<first>[\w ,'/-]{2,25}?)\s+(?:and|to|until|till|through)\s+"
    r"(?P<last>[\w ,'/-]{2,25})",
    re.IGNORECASE,
)
_LONG_AGO = date(1900, 1, 1)


def period(question: str, at: date) -> EventDate:
    """The time a question is about: "in May 2023", "before June", "between March and May"."""
    asked = _day(at)
    backward = points_ahead(question) is not True
    match = _BETWEEN.search(question)
    if match:
        first, last = (_bound(match[part], asked) for part in ("first", "last"))
        if first.start and last.end:
            if first.start > last.end:  # asked in April, "March to May" is last year's
                first = _bound(match["first"], last.end)
            if first.start and first.start <= last.end:
                return span(first.start, last.end)
    found = find(question, asked, future=not backward)
    if not found:
        return UNKNOWN_DATE
    one = found[0]
    start, end = one.date.start, one.date.end
    words = question[max(0, one.start - 9) : one.end].lower()
    if start is None or end is None:
        return UNKNOWN_DATE
    if re.search(r"\b(?:before|until|till|prior to|by)\b", words):
        if start <= _LONG_AGO:
            return UNKNOWN_DATE
        return span(_LONG_AGO, start - timedelta(days=1))
    if re.search(r"\bsince\b", words):
        return span(start, max(asked, end))
    if re.search(r"\bafter\b", words):
        return span(end + timedelta(days=1), max(asked, end + timedelta(days=1)))
    return one.date


def _bound(text: str, asked: date) -> EventDate:
    """One end of "between March and May", where a bare month is a date."""
    for phrase in (text, f"in {text}"):
        found = find(phrase, asked, future=False)
        if found and found[0].start == 0:
            return found[0].date
    return UNKNOWN_DATE
