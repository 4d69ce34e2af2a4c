"""Functions that turn a matched date phrase into a date. `phrases` has the patterns."""

from __future__ import annotations

import re
from calendar import day_abbr, month_abbr, monthrange
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date, timedelta

from justmem.domain import EventDate


@dataclass(frozen=True, slots=True)
class Utterance:
    """When the words were said, and whether they are about the future."""

    at: date
    future: bool | None  # None: nothing shows it
    signs: tuple[tuple[int, bool], ...] = ()  # where signs of direction end, and what they show

    def at_place(self, place: int) -> Utterance:
        """The same with the direction that holds at this place of the text: that of the last sign
        before it, else that of the first sign."""
        if not self.signs:
            return self
        before = [ahead for end, ahead in self.signs if end <= place]
        return replace(self, future=before[-1] if before else self.signs[0][1])


Match = re.Match[str]
Resolver = Callable[[Match, Utterance], EventDate | None]

MONTHS = {name.lower(): number for number, name in enumerate(month_abbr) if name}
WEEKDAYS = {name.lower(): number for number, name in enumerate(day_abbr)}
FIRST_MONTH = {"spring": 3, "summer": 6, "autumn": 9, "fall": 9, "winter": 12}
HOLIDAYS: dict[str, tuple[int, int]] = {
    "christmas eve": (12, 24),
    "christmas": (12, 25),
    "new year's eve": (12, 31),
    "new year's": (1, 1),
    "new year": (1, 1),
    "halloween": (10, 31),
    "valentine's": (2, 14),
    "independence": (7, 4),
    "thanksgiving": (11, 0),  # its fourth Thursday
}
_TO_TWENTIETH = """first second third fourth fifth sixth seventh eighth ninth tenth eleventh
twelfth thirteenth fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth twentieth"""
_NTH = _TO_TWENTIETH.split()
ORDINALS = {word: number for number, word in enumerate(_NTH, 1)} | {
    **{f"twenty-{word}": 20 + number for number, word in enumerate(_NTH[:9], 1)},
    "thirtieth": 30,
    "thirty-first": 31,
}
_COUNTING = "one two three four five six seven eight nine ten eleven twelve"
NUMBERS = {word: number for number, word in enumerate(_COUNTING.split(), 1)} | {
    "a": 1, "an": 1, "couple": 2, "fifteen": 15, "twenty": 20, "thirty": 30,
}  # fmt: skip
_VAGUE = {"few": (2, 5), "several": (3, 8), "some": (2, 8)}
_LAST = {"last", "past", "previous", "this past"}
_NEXT = {"next", "coming", "upcoming", "this coming"}
DAYS = {  # the days from and to, counted from the day it is said
    "today": (0, 0),
    "tonight": (0, 0),
    "this morning": (0, 0),
    "this afternoon": (0, 0),
    "this evening": (0, 0),
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


# ---------------------------------------------------------------- dates


def span(first: date, last: date) -> EventDate:
    if first == last:
        return EventDate(text=first.isoformat(), start=first, end=first, precision="day")
    return EventDate.parse(f"{first.isoformat()}/{last.isoformat()}")


def _months(first: tuple[int, int], last: tuple[int, int]) -> EventDate:
    texts = dict.fromkeys(f"{year:04d}-{month:02d}" for year, month in (first, last))
    return EventDate.parse("/".join(texts))


def _years(first: int, last: int) -> EventDate:
    return EventDate.parse("/".join(dict.fromkeys(f"{year:04d}" for year in (first, last))))


def _month_after(at: date, count: int) -> tuple[int, int]:
    months = at.year * 12 + at.month - 1 + count
    return months // 12, months % 12 + 1


def _week(at: date, first: int = 0, last: int = 6) -> EventDate:
    """Monday to Sunday, or some of these days."""
    monday = at - timedelta(days=at.weekday())
    return span(monday + timedelta(days=first), monday + timedelta(days=last))


def _shift(unit: str, first: int, last: int, at: date) -> EventDate:
    """So many units from `at`."""
    if unit == "weekend":
        start, end = (_week(at + timedelta(days=7 * each), 5) for each in (first, last))
        assert start.start is not None
        assert end.end is not None
        return span(start.start, end.end)
    if unit == "month":
        return _months(_month_after(at, first), _month_after(at, last))
    if unit in ("year", "decade"):
        size = 10 if unit == "decade" else 1
        return _years(at.year + first * size, at.year + last * size)
    size = {"week": 7, "fortnight": 14, "hour": 0, "minute": 0}.get(unit, 1)
    return span(at + timedelta(days=first * size), at + timedelta(days=last * size))


# ---------------------------------------------------------------- resolvers


def _side(match: Match) -> str:
    return " ".join((match.groupdict().get("side") or "").lower().split())


def _choose_year(match: Match, said: Utterance, build: Callable[[int], EventDate]) -> EventDate:
    """Of a date that returns each year, the one meant: by an explicit year, by "last" or "next", by
    the direction of the sentence, else the nearest."""
    if named := match.groupdict().get("year"):
        return build(int(named))
    side, at, this = _side(match), said.at, build(said.at.year)
    assert this.start is not None
    assert this.end is not None
    if side in _LAST:
        return this if this.end < at else build(at.year - 1)
    if side in _NEXT:
        return this if this.start > at else build(at.year + 1)
    if side:
        return this
    if said.future is False:
        return this if this.start <= at else build(at.year - 1)
    if said.future:
        return this if this.end >= at else build(at.year + 1)
    years = (build(at.year + step) for step in (-1, 0, 1))
    return min(years, key=lambda one: abs((one.start or at) - at))


def resolve_iso(match: Match, said: Utterance) -> EventDate:
    on = date(int(match["y"]), int(match["m"]), int(match["d"]))
    return span(on, on)


def resolve_slashed(match: Match, said: Utterance) -> EventDate:
    """Month first, unless only the other way is a date."""
    month, day = int(match["a"]), int(match["b"])
    if month > 12:
        month, day = day, month
    if text := match.groupdict().get("y"):
        on = date(int(text) + (2000 if len(text) == 2 else 0), month, day)
        return span(on, on)
    return _choose_year(
        match, said, lambda year: span(date(year, month, day), date(year, month, day))
    )


def resolve_month_day(match: Match, said: Utterance) -> EventDate:
    month = MONTHS[match["month"].lower()[:3]]
    first = ORDINALS.get(match["day"].lower()) or int(match["day"])
    last = int(match.groupdict().get("last") or first)
    return _choose_year(
        match, said, lambda year: span(date(year, month, first), date(year, month, last))
    )


def resolve_month(match: Match, said: Utterance) -> EventDate:
    month = MONTHS[match["month"].lower()[:3]]
    return _choose_year(match, said, lambda year: _months((year, month), (year, month)))


def resolve_day_of_month(match: Match, said: Utterance) -> EventDate | None:
    """ "On the 20th": the next or the last one, if it is known which."""
    if said.future is None:
        return None
    step = 1 if said.future else -1
    for count in range(3):
        year, month = _month_after(said.at, step * count)
        if int(match["day"]) <= monthrange(year, month)[1]:
            on = date(year, month, int(match["day"]))
            if (on - said.at).days * step >= 0:
                return span(on, on)
    return None


def resolve_year(match: Match, said: Utterance) -> EventDate:
    return _years(int(match["year"]), int(match["year"]))


def resolve_season(match: Match, said: Utterance) -> EventDate:
    """Winter of a year begins in its December."""
    first = FIRST_MONTH[match["season"].lower()]

    def of(year: int) -> EventDate:
        return _months((year, first), (year + 1, 2) if first == 12 else (year, first + 2))

    return _choose_year(match, said, of)


def resolve_holiday(match: Match, said: Utterance) -> EventDate:
    month, day = HOLIDAYS[match["holiday"].lower().replace("’", "'")]

    def of(year: int) -> EventDate:
        on = date(year, month, day or 22 + (3 - date(year, month, 1).weekday()) % 7)
        return span(on, on)

    return _choose_year(match, said, of)


def _count(match: Match) -> tuple[int, int]:
    word = match["num"].lower().split()[0]
    number = int(word) if word.isdigit() else NUMBERS.get(word, 0)
    return _VAGUE.get(word, (number, number))


def resolve_ago(match: Match, said: Utterance) -> EventDate | None:
    near, far = _count(match)
    return _shift(match["unit"].lower(), -far, -near, said.at)


def resolve_half_ago(match: Match, said: Utterance) -> EventDate:
    back = -18 if match["unit"].lower() == "year" else -1
    return _shift("month", back, back, said.at)


def resolve_ahead(match: Match, said: Utterance) -> EventDate | None:
    """ "In two weeks" is a date only of what is to come: "built it in two weeks" is a duration."""
    if said.future is not True and not match[0].lower().endswith(("now", "time")):
        return None
    return _shift(match["unit"].lower(), *_count(match), said.at)


def resolve_within(match: Match, said: Utterance) -> EventDate | None:
    """ "In the last two months", counted back from the day it is said."""
    count, unit, at = _count(match)[1] if match["num"] else 1, match["unit"].lower(), said.at
    if unit in ("day", "week"):
        return span(at - timedelta(days=count * (7 if unit == "week" else 1)), at)
    year, month = _month_after(at, -count * (12 if unit == "year" else 1))
    return span(date(year, month, min(at.day, monthrange(year, month)[1])), at)


def resolve_day(match: Match, said: Utterance) -> EventDate:
    first, last = DAYS[" ".join(match[0].lower().split())]
    return _shift("day", first, last, said.at)


def resolve_weekday(match: Match, said: Utterance) -> EventDate | None:
    """A bare weekday has a date only where the sentence shows whether it is past or to come."""
    number, side, at = WEEKDAYS[match["weekday"].lower()[:3]], _side(match), said.at
    back, ahead = (at.weekday() - number) % 7 or 7, (number - at.weekday()) % 7
    if side == "next":  # this week's Friday is "this Friday" while it lies ahead
        return _week(at + timedelta(days=7), number, number)
    if side in _LAST or (side not in _NEXT and said.future is False):
        on = at - timedelta(days=back % 7 if side == "this" else back)
        return span(on, on)
    if said.future is None and not side:
        return None
    on = at + timedelta(days=ahead or 7 if side in _NEXT else ahead)
    return span(on, on)


def resolve_unit(match: Match, said: Utterance) -> EventDate:
    """Last, this and next week, weekend, month, year."""
    side, unit = _side(match), match["unit"].lower()
    step = -1 if side in _LAST else 1 if side in _NEXT else 0
    if unit == "weekend" and not step and said.future is False and said.at.weekday() < 5:
        step = -1
    if unit == "week":
        return _week(said.at + timedelta(days=7 * step))
    return _shift(unit, step, step, said.at)
