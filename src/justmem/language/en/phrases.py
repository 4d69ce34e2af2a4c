"""The date phrases English speakers use: one row of `RULES` each, a pattern and the function
that resolves it against the day it was said."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import NamedTuple

from justmem.domain import UNKNOWN_DATE, EventDate
from justmem.language.en import reckoning
from justmem.language.en.calendars import (
    HOLIDAYS,
    MONTH,
    ORDINALS,
    SEASONS,
    WEEKDAY,
    WEEKDAYS,
    day,
    nth,
    span,
    week,
    weekend,
)
from justmem.language.en.reckoning import NUMBERS, WORDS, Match, Resolver, Said

_NUMBER = r"\d{1,3}|couple(?: of)?|few|several|some|" + "|".join(w for w in NUMBERS if len(w) > 2)
_NUM = rf"(?:(?:an?|about|around|almost|nearly|roughly|over) )*(?P<num>{_NUMBER}|an?)"
_UNIT = r"(?P<unit>day|night|week|weekend|fortnight|month|year|decade|hour|minute)s?"
_YEAR = r"(?P<year>(?:19|20)\d\d)"
_ORDINAL = r"(?P<ordinal>first|second|third|fourth|last|1st|2nd|3rd|4th)"
_SIDE = (
    r"(?P<side>this past|this coming|earlier this|later this|last|past|previous|this|next|coming"
    r"|upcoming)"
)

# Most sentences hold no date: one look for any word that every rule needs one of.
_ANY = re.compile(
    r"\d|\b(?:ago|back|earlier|last|past|previous|this|next|coming|upcoming|now|today|tonight"
    r"|yesterday|tomorrow|recently|the other|in an?|in (?:one|two|three|four|five|six|seven|eight"
    r"|nine|ten|few|several)|before|after|\w+day|mon|tues?|wed|thurs?|fri|spring|summer|autumn|fall"
    r"|winter|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|christmas|new year|halloween|easter"
    r"|thanksgiving|valentine|memorial|labor|mother's|father's|independence)",
    re.IGNORECASE,
)


def matches(text: str, said: Said) -> Iterator[tuple[int, int, EventDate]]:
    """Every phrase of every rule, overlapping or not."""
    if not _ANY.search(text):
        return
    for pattern, resolver in RULES:
        for match in pattern.finditer(text):
            try:
                when = resolver(match, said.near(match.start()))
            except (ValueError, OverflowError):  # 31 June, the year 0: no such day
                continue
            if when is not None:
                yield match.start(), _end(match, said), when


def _end(match: Match, said: Said) -> int:
    """Of a phrase around a date: where that date ends. What follows it is none of the phrase."""
    inner = match.groupdict().get("inner")
    anchor = _anchor(inner, said) if inner else None
    return match.start("inner") + anchor.length if anchor else match.end()


# ---------------------------------------------------------------- phrases around a date


def _nth_of(match: Match, said: Said) -> EventDate | None:
    """The first weekend of August; the last Friday of next month."""
    inner = _dated(match["inner"], said)
    if inner.precision != "month" or inner.start is None:
        return None
    return nth(match["ordinal"].lower(), match["what"].lower(), inner.start)


def _beside(match: Match, said: Said) -> EventDate | None:
    """The Sunday before 25 May 2023; two days after Christmas."""
    anchor = _dated(match["inner"], said)
    if anchor.start is None or anchor.end is None:
        return None
    base, last = anchor.start, anchor.end
    back = match["way"].lower() in ("before", "prior to", "preceding")
    what = match["what"].lower()
    step = -1 if back else 1
    if match["num"]:
        near, far = reckoning.range_of(match)
        moved = Said(base if back else last, None)
        first, last_step = sorted((near * step, far * step))
        return reckoning.shift(what, first, last_step, moved)
    if what[:3] in WEEKDAYS:
        number = WEEKDAYS[what[:3]]
        gap = (base.weekday() - number) % 7 or 7 if back else (number - last.weekday()) % 7 or 7
        return day((base if back else last) + timedelta(days=gap * step))
    if what == "weekend" and back and base.weekday() >= 5:
        return span(*weekend(base - timedelta(days=7)))
    if what == "weekend":
        return span(*weekend(base + timedelta(days=-7 if back else 0)))
    return reckoning.shift_unit(what, base if back else last, step)


def _week_of(match: Match, said: Said) -> EventDate | None:
    """The week of 8 May; that of May would be any of four."""
    anchor = _dated(match["inner"], said)
    return span(*week(anchor.start)) if anchor.start and anchor.precision == "day" else None


class _Anchor(NamedTuple):
    """A date that a text begins with, and how much of the text it takes."""

    length: int
    date: EventDate


def _anchor(text: str, said: Said) -> _Anchor | None:
    """The date that a phrase inside another begins with; there, a bare month or holiday is one."""
    for lead in ("", "in ", "on "):
        hits = [(end, when) for start, end, when in matches(lead + text, said) if start == 0]
        if hits:
            end, when = max(hits, key=lambda hit: hit[0])
            return _Anchor(end - len(lead), when)
    return None


def _dated(text: str, said: Said) -> EventDate:
    anchor = _anchor(text, said)
    return anchor.date if anchor else UNKNOWN_DATE


def _weekday_then(match: Match, said: Said) -> EventDate | None:
    """The Wednesday two months ago; Friday of last week: the such day nearest to that."""
    anchor = _dated(match["inner"], said)
    if anchor.start is None or anchor.end is None:
        return None
    number = WEEKDAYS[match["weekday"].lower()[:3]]
    if anchor.precision == "range":
        return day(week(anchor.start)[0] + timedelta(days=number))
    near = anchor.start
    if anchor.precision == "month":
        near = reckoning.same_day(anchor.start, said.at.day)
    return day(near + timedelta(days=(number - near.weekday() + 3) % 7 - 3))


# ---------------------------------------------------------------- the rules


def _rule(pattern: str, resolver: Resolver) -> tuple[re.Pattern[str], Resolver]:
    return re.compile(pattern.replace(" ", r"\s+"), re.IGNORECASE), resolver


_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_SPELT = rf"(?P<day>{'|'.join(sorted(ORDINALS, key=len, reverse=True))})"
_END = r"(?:\s*(?:-|–|to|and)\s*(?P<last>\d{1,2})(?:st|nd|rd|th)?)?"
_PRE = (
    r"\b(?:in|since|during|of|by|until|till|from|around|before|after|through|throughout|early|late"
    r"|mid)(?: early| late| mid| the month of)?[ -]"
)
_DATED = r"(?P<inner>(?:last|this|next|the)?\s*[\w/,.' -]{3,30})"

RULES: tuple[tuple[re.Pattern[str], Resolver], ...] = (
    _rule(r"\b(?P<y>(?:19|20)\d\d)[-/](?P<m>\d{1,2})[-/](?P<d>\d{1,2})\b", reckoning.iso),
    _rule(
        r"(?<![\d/])(?P<a>\d{1,2})[/.](?P<b>\d{1,2})[/.](?P<y>\d{4}|\d{2})(?![\d/])",
        reckoning.slashed,
    ),
    _rule(r"\bon (?P<a>\d{1,2})/(?P<b>\d{1,2})(?![\d/])", reckoning.slashed),
    _rule(rf"(?<![\d.$]){_DAY}{_END}(?: of)? {MONTH}(?:,? {_YEAR})?", reckoning.month_day),
    _rule(
        rf"{MONTH} (?:the )?{_DAY}{_END}(?![\d:%]|\s?[ap]\.?m\b)(?:,? {_YEAR})?",
        reckoning.month_day,
    ),
    _rule(rf"\bthe {_SPELT} of {MONTH}(?:,? {_YEAR})?", reckoning.month_day),
    _rule(rf"{MONTH} the {_SPELT}\b(?:,? {_YEAR})?", reckoning.month_day),
    _rule(rf"(?<!\d\s){MONTH},?(?: of)? {_YEAR}", reckoning.month_only),
    _rule(rf"(?:{_PRE}|\b{_SIDE} ){MONTH}(?! (?:the )?\d)", reckoning.month_only),
    _rule(
        rf"\b(?:in|since|during|of|from|by|until|back in|around|before|after|early|late|mid)"
        rf"(?: early| late| mid)?[ -]{_YEAR}\b(?![-/]\d)",
        reckoning.year_only,
    ),
    _rule(
        rf"\b(?:(?:in|over|during|since|by|for)(?: the)? |{_SIDE} |the )?{SEASONS}(?: of)? {_YEAR}",
        reckoning.season_of,
    ),
    _rule(
        rf"\b(?:(?:in|over|during|since|by|until) (?:the )?|{_SIDE} ){SEASONS}\b",
        reckoning.season_of,
    ),
    _rule(
        rf"\b(?:(?:on|at|over|for|around|since|before|after|by|during) |{_SIDE} )"
        rf"(?P<holiday>{'|'.join(HOLIDAYS)})(?: day)?(?:,? {_YEAR})?\b",
        reckoning.holiday,
    ),
    _rule(
        r"\bon the (?P<day>\d{1,2})(?:st|nd|rd|th)\b(?! (?:of|floor|street|avenue)\b)",
        reckoning.day_of_month,
    ),
    _rule(rf"\b{_NUM} {_UNIT} (?:ago|back|earlier)\b(?! (?:than|each|every))", reckoning.ago),
    _rule(r"\ba (?P<unit>year|month) and a half ago\b", reckoning.half_ago),
    _rule(rf"\bin {_NUM} {_UNIT}(?:['’]s?)?(?: time)?\b(?! of\b)", reckoning.ahead),
    _rule(rf"\b{_NUM} {_UNIT} from now\b", reckoning.ahead),
    _rule(
        rf"\b(?P<lead>(?:for|in|over|during|within|of) )the (?:last|past) "
        rf"(?:(?P<num>{_NUMBER}) )?"
        rf"(?P<unit>day|week|month|year)s?\b",
        reckoning.within,
    ),
    _rule(r"\b(?:" + "|".join(sorted(WORDS, key=len, reverse=True)) + r")\b", reckoning.word),
    _rule(
        rf"\b(?:{_SIDE} )?{WEEKDAY}\b(?! (?:morning|afternoon|evening|night)s)", reckoning.weekday
    ),
    _rule(
        rf"\b{WEEKDAY},? (?:of )?(?P<inner>(?:last|this|next) week|\w+ (?:weeks?|months?) ago)\b",
        _weekday_then,
    ),
    _rule(rf"\bweek of {_DATED}", _week_of),
    _rule(rf"\b{_SIDE} (?P<unit>weekend|week|month|year)\b(?!['’-]?(?:long|s\b))", reckoning.unit),
    _rule(
        r"\bthe (?P<unit>weekend|week|month|year) (?:before (?P<side>last)|after (?P<side2>next))"
        r"(?P<twice>)\b",
        reckoning.twice,
    ),
    _rule(
        rf"\b{_ORDINAL} (?P<what>weekend|week|(?:mon|tues|wednes|thurs|fri|satur|sun)day)"
        rf" (?:of|in) (?P<inner>(?:last|this|next) month|{MONTH}(?:,? (?:19|20)\d\d)?)",
        _nth_of,
    ),
    _rule(
        rf"\b(?:the )?(?:{_NUM} )?(?P<what>(?:mon|tues|wednes|thurs|fri|satur|sun)day|day|weekend"
        rf"|week|month|year)s? (?P<way>before|after|prior to|preceding|following) {_DATED}",
        _beside,
    ),
)
