"""The date phrases of English: patterns, and what each means on the day it was said."""

from __future__ import annotations

import re
from calendar import day_abbr, month_abbr, monthrange
from collections.abc import Callable, Iterator
from datetime import date, timedelta

from justmem.domain import UNKNOWN_DATE, EventDate

Match = re.Match[str]
# `future`: whether the sentence is about the future. None: nothing shows it.
Resolver = Callable[[Match, date, bool | None], EventDate | None]

_MONTHS = {name.lower(): number for number, name in enumerate(month_abbr) if name}
_WEEKDAYS = {name.lower(): number for number, name in enumerate(day_abbr)}
_SEASONS = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}  # the first month
_COUNTING = "one two three four five six seven eight nine ten eleven twelve"
_NUMBERS = {word: (number, number) for number, word in enumerate(_COUNTING.split(), 1)} | {
    "a": (1, 1), "an": (1, 1), "couple": (2, 2), "few": (2, 5), "several": (3, 8), "some": (2, 8),
}  # fmt: skip
_DAYS = {  # the days from and to, counted from the day it is said
    "today": (0, 0),
    "tonight": (0, 0),
    "this morning": (0, 0),
    "this afternoon": (0, 0),
    "this evening": (0, 0),
    "yesterday": (-1, -1),
    "last night": (-1, -1),
    "the day before yesterday": (-2, -2),
    "tomorrow": (1, 1),
    "the day after tomorrow": (2, 2),
    "the other day": (-7, -1),
    "recently": (-30, 0),
}
_LAST = {"last", "past", "previous", "this past"}
_NEXT = {"next", "coming", "upcoming", "this coming"}


def span(first: date, last: date) -> EventDate:
    return EventDate.parse("/".join(dict.fromkeys((first.isoformat(), last.isoformat()))))


def _months(year: int, first: int, count: int = 1) -> EventDate:
    """So many months from the month `first`, which may lie outside of the year."""
    texts = []
    for month in (first, first + count - 1):
        at = year * 12 + month - 1
        texts.append(f"{at // 12:04d}-{at % 12 + 1:02d}")
    return EventDate.parse("/".join(dict.fromkeys(texts)))


def _week(at: date, first: int = 0, last: int = 6) -> EventDate:
    """Monday to Sunday, or some of these days."""
    monday = at - timedelta(days=at.weekday())
    return span(monday + timedelta(days=first), monday + timedelta(days=last))


def _shift(unit: str, first: int, last: int, at: date) -> EventDate:
    """So many units from `at`."""
    if unit == "weekend":
        return _week(at + timedelta(days=7 * first), 5, 6 + 7 * (last - first))
    if unit == "month":
        return _months(at.year, at.month + first, last - first + 1)
    if unit == "year":
        texts = dict.fromkeys(f"{at.year + step:04d}" for step in (first, last))
        return EventDate.parse("/".join(texts))
    size = 7 if unit == "week" else 1
    return span(at + timedelta(days=first * size), at + timedelta(days=last * size))


def _side(match: Match) -> str:
    return " ".join((match.groupdict().get("side") or "").lower().split())


# ---------------------------------------------------------------- dates of every year


# People name the year of a date that is farther away. A wrong date is worse than none.
_LONGEST_AGO = timedelta(days=330)  # in a sentence about the past
_NEAR = timedelta(days=120)  # in a sentence that shows no direction


def _yearly(build: Callable[[Match, int], EventDate]) -> Resolver:
    """Of a date that returns each year, the one meant: by an explicit year, by "last" or "next", by
    the direction of the sentence, else the nearest if it is near."""

    def resolve(match: Match, at: date, future: bool | None) -> EventDate:
        if named := match.groupdict().get("year"):
            return build(match, int(named) + (2000 if len(named) == 2 else 0))
        before, this, after = (build(match, at.year + step) for step in (-1, 0, 1))
        assert this.start is not None
        assert this.end is not None
        side = _side(match)
        if side in _LAST:
            return this if this.end < at else before
        if side in _NEXT:
            return this if this.start > at else after
        if side:
            return this
        if future:
            return this if this.end >= at else after
        if future is False:
            past = this if this.start <= at else before
            return past if at - (past.end or at) <= _LONGEST_AGO else UNKNOWN_DATE
        nearest = min((before, this, after), key=lambda one: abs((one.start or at) - at))
        return nearest if abs((nearest.start or at) - at) <= _NEAR else UNKNOWN_DATE

    return resolve


def _month_day(match: Match, year: int) -> EventDate:
    month, first = _MONTHS[match["month"].lower()[:3]], int(match["day"])
    last = int(match.groupdict().get("last") or first)
    return span(date(year, month, first), date(year, month, last))


def _month(match: Match, year: int) -> EventDate:
    return _months(year, _MONTHS[match["month"].lower()[:3]])


def _season(match: Match, year: int) -> EventDate:
    """Winter of a year begins in its December."""
    return _months(year, _SEASONS[match["season"].lower()], 3)


# ---------------------------------------------------------------- dates counted from today


def _iso(match: Match, at: date, future: bool | None) -> EventDate:
    on = date(int(match["y"]), int(match["m"]), int(match["d"]))
    return span(on, on)


def _numeric(match: Match, at: date, future: bool | None) -> EventDate | None:
    """ "25.12.2022" begins with the day. With slashes, the month may come first."""
    first, second, year = int(match["a"]), int(match["b"]), int(match["year"])
    if match["mark"] == "/" and first != second and max(first, second) <= 12:
        return None
    month_first = match["mark"] == "/" and second > 12
    day, month = (second, first) if month_first else (first, second)
    on = date(year + (2000 if year < 100 else 0), month, day)
    return span(on, on)


def _year(match: Match, at: date, future: bool | None) -> EventDate:
    return EventDate.parse(match["year"])


def _day_of_month(match: Match, at: date, future: bool | None) -> EventDate | None:
    """ "On the 20th": the next or the last one, if it is known which."""
    if future is None:
        return None
    day, step = int(match["day"]), 1 if future else -1
    for count in range(3):
        year, month = divmod(at.year * 12 + at.month - 1 + step * count, 12)
        if day <= monthrange(year, month + 1)[1]:
            on = date(year, month + 1, day)
            if (on - at).days * step >= 0:
                return span(on, on)
    return None


def _count(match: Match) -> tuple[int, int]:
    word = match["num"].lower().split()[0]
    return (int(word), int(word)) if word.isdigit() else _NUMBERS[word]


def _ago(match: Match, at: date, future: bool | None) -> EventDate:
    near, far = _count(match)
    return _shift(match["unit"].lower(), -far, -near, at)


def _ahead(match: Match, at: date, future: bool | None) -> EventDate | None:
    """ "In two weeks" is a date only of what is to come: "built it in two weeks" is a duration."""
    if not future and not match[0].lower().endswith("time"):
        return None
    return _shift(match["unit"].lower(), *_count(match), at)


def _within(match: Match, at: date, future: bool | None) -> EventDate:
    """ "In the last two months", counted back from the day it is said."""
    count, unit = _count(match)[1] if match["num"] else 1, match["unit"].lower()
    if unit in ("day", "week"):
        return span(at - timedelta(days=count * (7 if unit == "week" else 1)), at)
    months = at.year * 12 + at.month - 1 - count * (12 if unit == "year" else 1)
    year, month = months // 12, months % 12 + 1
    return span(date(year, month, min(at.day, monthrange(year, month)[1])), at)


def _named_day(match: Match, at: date, future: bool | None) -> EventDate:
    return _shift("day", *_DAYS[match[0].lower()], at)


def _weekday(match: Match, at: date, future: bool | None) -> EventDate | None:
    """A bare weekday has a date only where the sentence shows whether it is past or to come."""
    number, side = _WEEKDAYS[match["weekday"].lower()[:3]], _side(match)
    if side == "next":  # this week's Friday is "this Friday" while it lies ahead
        return _week(at + timedelta(days=7), number, number)
    if side in _LAST or (side not in _NEXT and future is False):
        back = (at.weekday() - number) % 7
        on = at - timedelta(days=back if side == "this" else back or 7)
        return span(on, on)
    if future is None and not side:
        return None
    ahead = (number - at.weekday()) % 7
    on = at + timedelta(days=ahead or 7 if side in _NEXT else ahead)
    return span(on, on)


def _unit(match: Match, at: date, future: bool | None) -> EventDate:
    """Last, this and next week, weekend, month, year."""
    side, unit = _side(match), match["unit"].lower()
    step = -1 if side in _LAST else 1 if side in _NEXT else 0
    if unit == "weekend" and not step and future is False and at.weekday() < 5:
        step = -1
    return _week(at + timedelta(days=7 * step)) if unit == "week" else _shift(unit, step, step, at)


# ---------------------------------------------------------------- patterns

_MONTH = (
    r"\b(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\b\.?"
)
_WEEKDAY = (
    r"(?P<weekday>monday|tuesday|wednesday|thursday|friday|saturday|sunday"
    r"|(?:mon|tues?|wed|thurs?|fri)(?=\b(?!['’])))"
)
_NUMBER = rf"\d{{1,3}}|couple(?: of)?|few|several|some|{_COUNTING.replace(' ', '|')}"
_NUM = rf"(?:(?:an?|about|around|almost|nearly|roughly|over) )*(?P<num>{_NUMBER}|an?)"
_UNITS = r"(?P<unit>day|week|weekend|month|year)s?"
_YEAR = r"(?P<year>(?:19|20)\d\d)"
_OF_YEAR = rf"(?:,? {_YEAR})?"
_SIDES = (
    r"(?P<side>this past|this coming|earlier this|later this|last|past|previous|this|next|coming"
    r"|upcoming)"
)
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_UNTIL = r"(?:\s*(?:-|–|to|and)\s*(?P<last>\d{1,2})(?:st|nd|rd|th)?)?"
_SEASON = rf"(?P<season>{'|'.join(_SEASONS)})"
_IN = (
    r"\b(?:in|since|during|of|by|until|till|from|around|before|after|through|throughout|early|late"
    r"|mid)(?: early| late| mid| the month of)?[ -]"
)
# "Every Friday", "my Friday class": no day in particular.
_DETERMINERS = "every each the an a any some most one that my our black its it's"
_NO_DAY = "".join(rf"(?<!\b{word} )" for word in _DETERMINERS.split())

_PATTERNS: tuple[tuple[str, Resolver], ...] = (
    (r"\b(?P<y>(?:19|20)\d\d)[-/](?P<m>\d{1,2})[-/](?P<d>\d{1,2})\b", _iso),
    (r"(?<![\d/])(?P<a>\d{1,2})(?P<mark>[/.])(?P<b>\d{1,2})[/.](?P<year>\d{4}|\d{2})(?![\d/])",
     _numeric),
    (rf"(?<![\d.$]){_DAY}{_UNTIL}(?: of)? {_MONTH}{_OF_YEAR}", _yearly(_month_day)),
    (rf"{_MONTH} (?:the )?{_DAY}{_UNTIL}(?![\d:%]|\s?[ap]\.?m\b){_OF_YEAR}", _yearly(_month_day)),
    (rf"(?<!\d\s){_MONTH},?(?: of)? {_YEAR}", _yearly(_month)),
    (rf"(?:{_IN}|\b{_SIDES} ){_MONTH}(?! (?:the )?\d)", _yearly(_month)),
    (rf"(?:{_IN}|\bback in ){_YEAR}\b(?![-/]\d)", _year),
    (rf"\b(?:(?:in|over|during|since|by|until) (?:the )?|{_SIDES} ){_SEASON}(?: of)?{_OF_YEAR}\b",
     _yearly(_season)),
    (r"\bon the (?P<day>\d{1,2})(?:st|nd|rd|th)\b(?! (?:of|floor|street|avenue)\b)",
     _day_of_month),
    (rf"\b{_NUM} {_UNITS} (?:ago|back)\b", _ago),
    (rf"\bin {_NUM} {_UNITS}(?:['’]s?)?(?: time)?\b(?! of\b)", _ahead),
    (rf"\b(?:in|over|during|within|of) the (?:last|past) (?:(?P<num>{_NUMBER}) )?"
     r"(?P<unit>day|week|month|year)s?\b(?! of\b)", _within),
    (r"\b(?:" + "|".join(sorted(_DAYS, key=len, reverse=True)) + r")\b", _named_day),
    (rf"{_NO_DAY}\b(?:{_SIDES} )?{_WEEKDAY}\b(?! (?:morning|afternoon|evening|night)s"
     r"|,? (?:of )?(?:last|this|next) week| \w+ (?:weeks?|months?) ago|,? the \d)", _weekday),
    (rf"\b(?<!for the ){_SIDES} (?P<unit>weekend|week|month|year)\b(?!['’-]?(?:long|s\b)| of\b)",
     _unit),
)  # fmt: skip
_RULES = [(re.compile(pattern, re.IGNORECASE), resolver) for pattern, resolver in _PATTERNS]
# "Two days before Christmas", "the week of May 8": the date that follows is not the one meant.
_ELSEWHERE = re.compile(
    r"\b(?:\w*day|night|week|weekend|month|year)s? (?:before|after|prior to|following|of) $",
    re.IGNORECASE,
)


def match_phrases(
    text: str, at: date, direction: Callable[[int], bool | None]
) -> Iterator[tuple[int, int, EventDate]]:
    """Every phrase of every rule, overlapping or not. `direction` tells for a place of the text
    whether it is about the future."""
    text = re.sub(r"\s", " ", text)
    for pattern, resolver in _RULES:
        for match in pattern.finditer(text):
            try:
                when = resolver(match, at, direction(match.start()))
            except (ValueError, OverflowError):  # 31 June, the year 0: no such day
                continue
            before = text[max(0, match.start() - 30) : match.start()]
            if when is not None and not _ELSEWHERE.search(before):
                yield match.start(), match.end(), when
