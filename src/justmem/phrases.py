"""The date phrases English speakers use: one row of `RULES` each, a pattern and the function
that resolves it against the day it was said."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta

from justmem.calendars import (
    HOLIDAYS,
    MONTH,
    MONTHS,
    SEASONS,
    WEEKDAY,
    WEEKDAYS,
    day,
    month,
    month_back,
    months,
    nth,
    season,
    span,
    week,
    weekend,
    year,
    years,
)
from justmem.domain import EventDate


@dataclass(frozen=True, slots=True)
class Said:
    """What resolving a phrase needs to know beside its words."""

    at: date
    future: bool | None  # the direction of the sentence; None where it shows none


_Match = re.Match[str]
_Resolver = Callable[[_Match, Said], EventDate | None]

_COUNTING = "one two three four five six seven eight nine ten eleven twelve"
_NUMBERS = {word: number for number, word in enumerate(_COUNTING.split(), 1)} | {
    "a": 1,
    "an": 1,
    "couple": 2,
    "fifteen": 15,
    "twenty": 20,
    "thirty": 30,
}
_VAGUE = {"few": (2, 5), "several": (3, 8), "some": (2, 8)}
_NUMBER = r"\d{1,3}|couple(?: of)?|few|several|some|" + "|".join(w for w in _NUMBERS if len(w) > 2)
_NUM = rf"(?:(?:an?|about|around|almost|nearly|roughly|over) )*(?P<num>{_NUMBER}|an?)"
_UNIT = r"(?P<unit>day|night|week|weekend|fortnight|month|year|decade|hour|minute)s?"
_YEAR = r"(?P<year>(?:19|20)\d\d)"
_ORDINAL = r"(?P<ordinal>first|second|third|fourth|last|1st|2nd|3rd|4th)"
_LAST, _THIS, _NEXT = (
    {"last", "past", "previous", "this past"},
    {"this", "the", "earlier this", "later this", "that"},
    {"next", "coming", "upcoming", "this coming", "following"},
)
_SIDE = (
    r"(?P<side>this past|this coming|earlier this|later this|last|past|previous|this|next|coming"
    r"|upcoming)"
)


# ---------------------------------------------------------------- numbers and sides


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
                when = resolver(match, said)
            except (ValueError, OverflowError):  # 31 June, the year 0: no such day
                continue
            if when is not None:
                yield match.start(), match.end(), when


def _range(match: _Match) -> tuple[int, int]:
    word = match["num"].lower().split()[0]
    if word in _VAGUE:
        return _VAGUE[word]
    number = int(word) if word.isdigit() else _NUMBERS[word]
    return number, number


def _step(match: _Match, said: Said) -> int:
    """-1, 0 or 1 for last, this, next; "this weekend" in the past tense stays 0."""
    side = " ".join(match["side"].lower().split())
    if side in _LAST:
        return -1
    return 1 if side in _NEXT else 0


def _pick(match: _Match, said: Said, build: Callable[[int], EventDate]) -> EventDate | None:
    """Of a date that returns each year, the one meant: by an explicit year, by last or next,
    by the direction of the sentence."""
    named = match.groupdict()
    if named.get("year"):
        return build(int(named["year"]))
    side = " ".join((named.get("side") or "").lower().split())
    this = build(said.at.year)
    assert this.start is not None
    assert this.end is not None
    if side in _LAST or (side not in _NEXT and said.future is False):
        begun = this.start <= said.at if side not in _LAST else this.end < said.at
        return this if begun else build(said.at.year - 1)
    if side in _NEXT or said.future:
        ahead = this.end >= said.at if side not in _NEXT else this.start > said.at
        return this if ahead else build(said.at.year + 1)
    if side in ("this", "earlier this", "later this"):
        return this
    # No direction: the occurrence nearest to when it was said.
    return min(
        (build(said.at.year + step) for step in (-1, 0, 1)),
        key=lambda one: abs((one.start or said.at) - said.at),
    )


# ---------------------------------------------------------------- resolvers


def _iso(match: _Match, said: Said) -> EventDate:
    return day(date(int(match["y"]), int(match["m"]), int(match["d"])))


def _slashed(match: _Match, said: Said) -> EventDate | None:
    """US order, unless only the other is a date."""
    first, second = int(match["a"]), int(match["b"])
    if first > 12:
        first, second = second, first
    text = match.groupdict().get("y")
    if text is None:
        return _pick(match, said, lambda y: day(date(y, first, second)))
    y = int(text) if len(text) == 4 else 2000 + int(text)
    return day(date(y, first, second))


def _month_day(match: _Match, said: Said) -> EventDate | None:
    number = MONTHS[match["month"].lower()[:3]]
    first = int(match["day"])
    last = int(match.groupdict().get("last") or first)
    return _pick(match, said, lambda y: span(date(y, number, first), date(y, number, last)))


def _month_only(match: _Match, said: Said) -> EventDate | None:
    number = MONTHS[match["month"].lower()[:3]]
    return _pick(match, said, lambda y: month(y, number))


def _year_only(match: _Match, said: Said) -> EventDate:
    return year(int(match["year"]))


def _season_of(match: _Match, said: Said) -> EventDate | None:
    return _pick(match, said, lambda y: season(y, match["season"].lower()))


def _holiday(match: _Match, said: Said) -> EventDate | None:
    name = match["holiday"].lower().replace("’", "'")
    return _pick(match, said, lambda y: day(HOLIDAYS[name](y)))


def _ago(match: _Match, said: Said) -> EventDate | None:
    near, far = _range(match)
    return _shift(match["unit"].lower(), -far, -near, said)


def _ahead(match: _Match, said: Said) -> EventDate | None:
    """ "In two weeks" is a date only of what is to come: "built it in two weeks" is a duration."""
    if said.future is not True and not match.group().lower().endswith(("now", "time")):
        return None
    near, far = _range(match)
    return _shift(match["unit"].lower(), near, far, said)


def _shift(unit: str, first: int, last: int, said: Said) -> EventDate | None:
    at = said.at
    if unit in ("day", "night", "week", "fortnight"):
        size = {"week": 7, "fortnight": 14}.get(unit, 1)
        return span(at + timedelta(days=first * size), at + timedelta(days=last * size))
    if unit == "weekend":
        # Two weekends ago, said on a weekend or not: the second one before this week's.
        start = weekend(at + timedelta(days=7 * first))
        end = weekend(at + timedelta(days=7 * last))
        return span(start[0], end[1])
    if unit == "month":
        return months(month_back(at, -first), month_back(at, -last))
    if unit in ("year", "decade"):
        size = 10 if unit == "decade" else 1
        return years(at.year + first * size, at.year + last * size)
    return day(at)  # hours and minutes


def _within(match: _Match, said: Said) -> EventDate | None:
    """ "In the last two weeks"; "for the last two weeks" is a duration."""
    _, far = _range(match) if match["num"] else (1, 1)
    if re.search(r"\bfor\b", match["lead"] or "", re.IGNORECASE):
        return None
    moved = _shift(match["unit"].lower(), -far, -far, said)
    start = moved.start if moved else None
    if start is None:
        return None
    if match["unit"].lower() in ("month", "year"):
        # The last month, counted back from the day it is said.
        back = far * (12 if match["unit"].lower() == "year" else 1)
        start = _same_day(date(*month_back(said.at, back), 1), said.at.day)
    return span(start, said.at)


def _same_day(in_month: date, number: int) -> date:
    """That day of the month, or its last one."""
    return in_month.replace(day=min(number, monthrange(in_month.year, in_month.month)[1]))


_WORDS: dict[str, tuple[int, int]] = {
    "today": (0, 0),
    "tonight": (0, 0),
    "this morning": (0, 0),
    "this afternoon": (0, 0),
    "this evening": (0, 0),
    "earlier today": (0, 0),
    "yesterday": (-1, -1),
    "last night": (-1, -1),
    "last evening": (-1, -1),
    "the day before yesterday": (-2, -2),
    "tomorrow": (1, 1),
    "the day after tomorrow": (2, 2),
    "the other day": (-7, -1),
    "the other night": (-7, -1),
    "recently": (-30, 0),
}


def _word(match: _Match, said: Said) -> EventDate:
    first, last = _WORDS[" ".join(match.group().lower().split())]
    return span(said.at + timedelta(days=first), said.at + timedelta(days=last))


def _weekday(match: _Match, said: Said) -> EventDate | None:
    number = WEEKDAYS[match["weekday"].lower()[:3]]
    side = " ".join((match.groupdict().get("side") or "").lower().split())
    back = (said.at.weekday() - number) % 7 or 7
    ahead = (number - said.at.weekday()) % 7
    if side in _LAST:
        return day(said.at - timedelta(days=back))
    if side == "next":
        # This week's Friday is "this Friday" while it lies ahead; "next" is the week after.
        return day(week(said.at)[0] + timedelta(days=7 + number))
    if side in _NEXT:
        return day(said.at + timedelta(days=ahead or 7))
    if said.future is False:
        return day(said.at - timedelta(days=back % 7 if side == "this" else back))
    return day(said.at + timedelta(days=ahead))


def _unit(match: _Match, said: Said) -> EventDate | None:
    """Last, this and next week, weekend, month, year."""
    step, unit, at = _step(match, said), match["unit"].lower(), said.at
    if match.groupdict().get("twice"):
        step *= 2
    if unit == "week":
        return span(*week(at + timedelta(days=7 * step)))
    if unit == "weekend":
        if step == 0 and said.future is False and at.weekday() < 5:
            step = -1
        return span(*weekend(at + timedelta(days=7 * step)))
    if unit == "month":
        return months(*[month_back(at, -step)] * 2)
    return year(at.year + step) if unit == "year" else None


def _nth_of(match: _Match, said: Said) -> EventDate | None:
    """The first weekend of August; the last Friday of next month."""
    inner = _anchor(match["inner"], said)
    if inner is None or inner.precision != "month" or inner.start is None:
        return None
    return nth(match["ordinal"].lower(), match["what"].lower(), inner.start)


def _beside(match: _Match, said: Said) -> EventDate | None:
    """The Sunday before 25 May 2023; two days after Christmas."""
    anchor = _anchor(match["inner"], said)
    if anchor is None or anchor.start is None or anchor.end is None:
        return None
    base, last = anchor.start, anchor.end
    back = match["way"].lower() in ("before", "prior to", "preceding")
    what = match["what"].lower()
    step = -1 if back else 1
    if match["num"]:
        near, far = _range(match)
        moved = Said(base if back else last, None)
        first, last_step = sorted((near * step, far * step))
        return _shift(what, first, last_step, moved)
    if what[:3] in WEEKDAYS:
        number = WEEKDAYS[what[:3]]
        gap = (base.weekday() - number) % 7 or 7 if back else (number - last.weekday()) % 7 or 7
        return day((base if back else last) + timedelta(days=gap * step))
    if what == "weekend" and back and base.weekday() >= 5:
        return span(*weekend(base - timedelta(days=7)))
    if what == "weekend":
        return span(*weekend(base + timedelta(days=-7 if back else 0)))
    return _shift_unit(what, base if back else last, step)


def _week_of(match: _Match, said: Said) -> EventDate | None:
    anchor = _anchor(match["inner"], said)
    return span(*week(anchor.start)) if anchor and anchor.start else None


def _anchor(text: str, said: Said) -> EventDate | None:
    """The date that a phrase inside another begins with; there, a bare month or holiday is one."""
    for lead in ("", "in ", "on "):
        hits = [(end, when) for start, end, when in matches(lead + text, said) if start == 0]
        if hits:
            return max(hits, key=lambda hit: hit[0])[1]
    return None


def _weekday_then(match: _Match, said: Said) -> EventDate | None:
    """The Wednesday two months ago; Friday of last week: the such day nearest to that."""
    anchor = _anchor(match["inner"], said)
    if anchor is None or anchor.start is None or anchor.end is None:
        return None
    number = WEEKDAYS[match["weekday"].lower()[:3]]
    if anchor.precision == "range":
        return day(week(anchor.start)[0] + timedelta(days=number))
    near = anchor.start
    if anchor.precision == "month":
        near = _same_day(anchor.start, said.at.day)
    return day(near + timedelta(days=(number - near.weekday() + 3) % 7 - 3))


def _half_ago(match: _Match, said: Said) -> EventDate:
    back = 18 if match["unit"].lower() == "year" else 1
    return months(*[month_back(said.at, back)] * 2)


def _shift_unit(unit: str, base: date, step: int) -> EventDate | None:
    if unit == "week":
        return span(*week(base + timedelta(days=7 * step)))
    return _shift(unit, step, step, Said(base, None))


# ---------------------------------------------------------------- the rules


def _rule(pattern: str, resolver: _Resolver) -> tuple[re.Pattern[str], _Resolver]:
    return re.compile(pattern.replace(" ", r"\s+"), re.IGNORECASE), resolver


_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_END = r"(?:\s*(?:-|–|to|and)\s*(?P<last>\d{1,2})(?:st|nd|rd|th)?)?"
_PRE = (
    r"\b(?:in|since|during|of|by|until|till|from|around|before|after|through|throughout|early|late"
    r"|mid)(?: early| late| mid| the month of)?[ -]"
)
_DATED = r"(?P<inner>(?:last|this|next|the)?\s*[\w/,.' -]{3,30})"

RULES: tuple[tuple[re.Pattern[str], _Resolver], ...] = (
    _rule(r"\b(?P<y>(?:19|20)\d\d)[-/](?P<m>\d{1,2})[-/](?P<d>\d{1,2})\b", _iso),
    _rule(r"(?<![\d/])(?P<a>\d{1,2})[/.](?P<b>\d{1,2})[/.](?P<y>\d{4}|\d{2})(?![\d/])", _slashed),
    _rule(r"\bon (?P<a>\d{1,2})/(?P<b>\d{1,2})(?![\d/])", _slashed),
    _rule(rf"(?<![\d.$]){_DAY}{_END}(?: of)? {MONTH}(?:,? {_YEAR})?", _month_day),
    _rule(rf"{MONTH} (?:the )?{_DAY}{_END}(?![\d:%]|\s?[ap]\.?m\b)(?:,? {_YEAR})?", _month_day),
    _rule(rf"(?<!\d\s){MONTH},?(?: of)? {_YEAR}", _month_only),
    _rule(rf"(?:{_PRE}|\b{_SIDE} ){MONTH}(?! (?:the )?\d)", _month_only),
    _rule(
        rf"\b(?:in|since|during|of|from|by|until|back in|around|before|after|early|late|mid)"
        rf"(?: early| late| mid)?[ -]{_YEAR}\b(?![-/]\d)",
        _year_only,
    ),
    _rule(
        rf"\b(?:(?:in|over|during|since|by|for)(?: the)? |{_SIDE} |the )?{SEASONS}(?: of)? {_YEAR}",
        _season_of,
    ),
    _rule(rf"\b(?:(?:in|over|during|since|by|until) (?:the )?|{_SIDE} ){SEASONS}\b", _season_of),
    _rule(
        rf"\b(?:(?:on|at|over|for|around|since|before|after|by|during) |{_SIDE} )"
        rf"(?P<holiday>{'|'.join(HOLIDAYS)})(?: day)?(?:,? {_YEAR})?\b",
        _holiday,
    ),
    _rule(rf"\b{_NUM} {_UNIT} (?:ago|back|earlier)\b", _ago),
    _rule(r"\ba (?P<unit>year|month) and a half ago\b", _half_ago),
    _rule(rf"\bin {_NUM} {_UNIT}(?:['’]s?)?(?: time)?\b(?! of\b)", _ahead),
    _rule(rf"\b{_NUM} {_UNIT} from now\b", _ahead),
    _rule(
        rf"\b(?P<lead>(?:for|in|over|during|within|of) )the (?:last|past) "
        rf"(?:(?P<num>{_NUMBER}) )?"
        rf"(?P<unit>day|week|month|year)s?\b",
        _within,
    ),
    _rule(r"\b(?:" + "|".join(sorted(_WORDS, key=len, reverse=True)) + r")\b", _word),
    _rule(rf"(?<!every\s)(?<!each\s)\b(?:{_SIDE} )?{WEEKDAY}\b", _weekday),
    _rule(
        rf"\b{WEEKDAY},? (?:of )?(?P<inner>(?:last|this|next) week|\w+ (?:weeks?|months?) ago)\b",
        _weekday_then,
    ),
    _rule(rf"\bweek of {_DATED}", _week_of),
    _rule(rf"\b{_SIDE} (?P<unit>weekend|week|month|year)\b(?!['’-]?(?:long|s\b))", _unit),
    _rule(
        r"\bthe (?P<unit>weekend|week|month|year) (?:before (?P<side>last)|after (?P<side2>next))"
        r"(?P<twice>)\b",
        lambda match, said: _twice(match, said),
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


def _twice(match: _Match, said: Said) -> EventDate | None:
    unit, step = match["unit"].lower(), -2 if match["side"] else 2
    if unit == "week":
        return span(*week(said.at + timedelta(days=7 * step)))
    return _shift(unit, step, step, said)
