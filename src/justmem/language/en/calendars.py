"""The calendar behind `dates`: months, seasons, holidays, ISO weeks, and EventDates built
from them. Pure arithmetic on days."""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable
from datetime import date, timedelta

from justmem.domain import EventDate

MONTHS = {name.lower(): number for number, name in enumerate(calendar.month_abbr) if name}
MONTH = (
    r"\b(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\b\.?"
)
_TO_NINETEENTH = """first second third fourth fifth sixth seventh eighth ninth tenth eleventh
twelfth thirteenth fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth"""
_NTH = _TO_NINETEENTH.split()
ORDINALS = {
    **{word: number for number, word in enumerate(_NTH, 1)},
    "twentieth": 20,
    **{f"twenty-{word}": 20 + number for number, word in enumerate(_NTH[:9], 1)},
    "thirtieth": 30,
    "thirty-first": 31,
}
WEEKDAYS = {name.lower(): number for number, name in enumerate(calendar.day_abbr)}
WEEKDAY = (
    r"(?P<weekday>monday|tuesday|wednesday|thursday|friday|saturday|sunday"
    r"|(?:mon|tues?|wed|thurs?|fri)(?=\b(?!['’])))"
)
SEASONS = r"(?P<season>spring|summer|autumn|fall|winter)"
_MONTH = re.compile(MONTH, re.IGNORECASE)
_SHORT = re.compile(r"(?<!\d)\d{1,2}(?!\d)")
_FIRST_MONTH = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}


# ---------------------------------------------------------------- EventDates


def day(on: date) -> EventDate:
    return EventDate(text=on.isoformat(), start=on, end=on, precision="day")


def span(first: date, last: date) -> EventDate:
    if first == last:
        return day(first)
    return EventDate.parse(f"{first.isoformat()}/{last.isoformat()}")


def month(in_year: int, number: int) -> EventDate:
    return EventDate.parse(f"{in_year:04d}-{number:02d}")


def months(first: tuple[int, int], last: tuple[int, int]) -> EventDate:
    if first == last:
        return month(*first)
    return EventDate.parse(f"{month(*first).text}/{month(*last).text}")


def year(number: int) -> EventDate:
    return EventDate.parse(f"{number:04d}")


def years(first: int, last: int) -> EventDate:
    return year(first) if first == last else EventDate.parse(f"{first:04d}/{last:04d}")


def season(in_year: int, name: str) -> EventDate:
    """Winter of a year begins in its December."""
    first = _FIRST_MONTH[name]
    ends = (in_year + 1, 2) if first == 12 else (in_year, first + 2)
    return months((in_year, first), ends)


def names_day(text: str, on: date) -> bool:
    """Whether the text gives this day by its date: 16 June, June 16th, 2023-06-16, 6/16."""
    numbers = [int(number) for number in _SHORT.findall(text)]
    if on.day not in numbers:
        return False
    numbers.remove(on.day)  # 6/6 is told by two of them
    named = {MONTHS[match["month"][:3].lower()] for match in _MONTH.finditer(text)}
    return on.month in named or on.month in numbers


# ---------------------------------------------------------------- weeks and months


def week(on: date) -> tuple[date, date]:
    """Monday to Sunday."""
    monday = on - timedelta(days=on.weekday())
    return monday, monday + timedelta(days=6)


def weekend(on: date) -> tuple[date, date]:
    """The Saturday and Sunday of the week that `on` lies in."""
    monday, sunday = week(on)
    return monday + timedelta(days=5), sunday


def month_back(on: date, back: int) -> tuple[int, int]:
    """The month `back` months before that of `on`; a negative number looks ahead."""
    count = on.year * 12 + on.month - 1 - back
    return count // 12, count % 12 + 1


def nth(ordinal: str, what: str, first_of_month: date) -> EventDate:
    """The first weekend, the last Friday, the second week of a month."""
    number = ORDINALS.get(ordinal)
    if number is None:
        number = -1 if ordinal == "last" else int(ordinal[0])
    wanted = {"weekend": 5, "week": 0}.get(what, WEEKDAYS.get(what[:3], 0))
    starts = _weekdays_of(first_of_month, wanted)
    start = starts[number - 1] if number > 0 else starts[-1]
    length = {"weekend": 1, "week": 6}.get(what, 0)
    return span(start, start + timedelta(days=length))


def _weekdays_of(first_of_month: date, weekday: int) -> list[date]:
    length = calendar.monthrange(first_of_month.year, first_of_month.month)[1]
    days = [first_of_month + timedelta(days=offset) for offset in range(length)]
    return [one for one in days if one.weekday() == weekday]


# ---------------------------------------------------------------- holidays


def _fixed(number: int, on: int) -> Callable[[int], date]:
    return lambda in_year: date(in_year, number, on)


def _floating(number: int, weekday: int, nth_one: int) -> Callable[[int], date]:
    def on(in_year: int) -> date:
        found = _weekdays_of(date(in_year, number, 1), weekday)
        return found[nth_one - 1] if nth_one > 0 else found[-1]

    return on


def _easter(in_year: int) -> date:
    """Gauss's rule, in the form of Meeus, Jones and Butcher."""
    a, b, c = in_year % 19, in_year // 100, in_year % 100
    d, e = divmod(b, 4)
    g = (8 * b + 13) // 25
    h = (19 * a + b - d - g + 15) % 30
    i, k = divmod(c, 4)
    ell = (32 + 2 * e + 2 * i - h - k) % 7
    m = (a + 11 * h + 19 * ell) // 433
    number = (h + ell - 7 * m + 90) // 25
    return date(in_year, number, (h + ell - 7 * m + 33 * number + 19) % 32)


HOLIDAYS: dict[str, Callable[[int], date]] = {
    "christmas eve": _fixed(12, 24),
    "christmas": _fixed(12, 25),
    "new year's eve": _fixed(12, 31),
    "new year's": _fixed(1, 1),
    "new year": _fixed(1, 1),
    "halloween": _fixed(10, 31),
    "valentine's": _fixed(2, 14),
    "st. patrick's": _fixed(3, 17),
    "thanksgiving": _floating(11, 3, 4),
    "black friday": lambda in_year: _floating(11, 3, 4)(in_year) + timedelta(days=1),
    "memorial": _floating(5, 0, -1),
    "labor": _floating(9, 0, 1),
    "mother's": _floating(5, 6, 2),
    "father's": _floating(6, 6, 3),
    "independence": _fixed(7, 4),
    "easter": _easter,
}
