"""What each date phrase means: pure functions from its match and the day it was said."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date, timedelta

from justmem.domain import EventDate
from justmem.language.en.calendars import (
    HOLIDAYS,
    MONTHS,
    ORDINALS,
    WEEKDAYS,
    day,
    month,
    month_back,
    months,
    season,
    span,
    week,
    weekend,
    year,
    years,
)


@dataclass(frozen=True, slots=True)
class Said:
    """What resolving a phrase needs to know beside its words."""

    at: date
    future: bool | None  # whether the date lies ahead; None: nothing shows it
    signs: tuple[tuple[int, bool], ...] = ()  # where signs of direction end, and what they show

    def near(self, place: int) -> Said:
        """The same with the direction that holds at this place of the text."""
        if not self.signs:
            return self
        before = [ahead for end, ahead in self.signs if end <= place]
        return replace(self, future=before[-1] if before else self.signs[0][1])


Match = re.Match[str]
Resolver = Callable[[Match, Said], EventDate | None]

_COUNTING = "one two three four five six seven eight nine ten eleven twelve"
NUMBERS = {word: number for number, word in enumerate(_COUNTING.split(), 1)} | {
    "a": 1,
    "an": 1,
    "couple": 2,
    "fifteen": 15,
    "twenty": 20,
    "thirty": 30,
}
_VAGUE = {"few": (2, 5), "several": (3, 8), "some": (2, 8)}
_LAST = {"last", "past", "previous", "this past"}
_NEXT = {"next", "coming", "upcoming", "this coming", "following"}
WORDS: dict[str, tuple[int, int]] = {
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


def range_of(match: Match) -> tuple[int, int]:
    word = match["num"].lower().split()[0]
    if word in _VAGUE:
        return _VAGUE[word]
    number = int(word) if word.isdigit() else NUMBERS[word]
    return number, number


def step_of(match: Match, said: Said) -> int:
    """-1, 0 or 1 for last, this, next; "this weekend" in the past tense stays 0."""
    side = " ".join(match["side"].lower().split())
    if side in _LAST:
        return -1
    return 1 if side in _NEXT else 0


def pick(match: Match, said: Said, build: Callable[[int], EventDate]) -> EventDate | None:
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


def iso(match: Match, said: Said) -> EventDate:
    return day(date(int(match["y"]), int(match["m"]), int(match["d"])))


def slashed(match: Match, said: Said) -> EventDate | None:
    """US order, unless only the other is a date."""
    first, second = int(match["a"]), int(match["b"])
    if first > 12:
        first, second = second, first
    text = match.groupdict().get("y")
    if text is None:
        return pick(match, said, lambda y: day(date(y, first, second)))
    y = int(text) if len(text) == 4 else 2000 + int(text)
    return day(date(y, first, second))


def month_day(match: Match, said: Said) -> EventDate | None:
    number = MONTHS[match["month"].lower()[:3]]
    said_day = match["day"].lower()
    first = ORDINALS.get(said_day) or int(said_day)
    last = int(match.groupdict().get("last") or first)
    return pick(match, said, lambda y: span(date(y, number, first), date(y, number, last)))


def day_of_month(match: Match, said: Said) -> EventDate | None:
    """ "On the 20th": the next or the last one, if it is known which."""
    if said.future is None:
        return None
    number, step = int(match["day"]), 1 if said.future else -1
    for back in range(3):
        in_month = date(*month_back(said.at, -step * back), 1)
        if number <= monthrange(in_month.year, in_month.month)[1]:
            on = in_month.replace(day=number)
            if (on - said.at).days * step >= 0:
                return day(on)
    return None


def month_only(match: Match, said: Said) -> EventDate | None:
    number = MONTHS[match["month"].lower()[:3]]
    return pick(match, said, lambda y: month(y, number))


def year_only(match: Match, said: Said) -> EventDate:
    return year(int(match["year"]))


def season_of(match: Match, said: Said) -> EventDate | None:
    return pick(match, said, lambda y: season(y, match["season"].lower()))


def holiday(match: Match, said: Said) -> EventDate | None:
    name = match["holiday"].lower().replace("’", "'")
    return pick(match, said, lambda y: day(HOLIDAYS[name](y)))


def ago(match: Match, said: Said) -> EventDate | None:
    near, far = range_of(match)
    unit = match["unit"].lower()
    if unit in ("hour", "minute") and not match.group().lower().endswith("ago"):
        return None  # "an hour earlier" than usual
    return shift(unit, -far, -near, said)


def ahead(match: Match, said: Said) -> EventDate | None:
    """ "In two weeks" is a date only of what is to come: "built it in two weeks" is a duration."""
    if said.future is not True and not match.group().lower().endswith(("now", "time")):
        return None
    near, far = range_of(match)
    return shift(match["unit"].lower(), near, far, said)


def shift(unit: str, first: int, last: int, said: Said) -> EventDate | None:
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


def within(match: Match, said: Said) -> EventDate | None:
    """ "In the last two weeks"; "for the last two weeks" is a duration."""
    _, far = range_of(match) if match["num"] else (1, 1)
    if re.search(r"\bfor\b", match["lead"] or "", re.IGNORECASE):
        return None
    moved = shift(match["unit"].lower(), -far, -far, said)
    start = moved.start if moved else None
    if start is None:
        return None
    if match["unit"].lower() in ("month", "year"):
        # The last month, counted back from the day it is said.
        back = far * (12 if match["unit"].lower() == "year" else 1)
        start = same_day(date(*month_back(said.at, back), 1), said.at.day)
    return span(start, said.at)


def same_day(in_month: date, number: int) -> date:
    """That day of the month, or its last one."""
    return in_month.replace(day=min(number, monthrange(in_month.year, in_month.month)[1]))


def word(match: Match, said: Said) -> EventDate:
    first, last = WORDS[" ".join(match.group().lower().split())]
    return span(said.at + timedelta(days=first), said.at + timedelta(days=last))


# "A Saturday", "my Saturday class": no day in particular. "Black Friday", "the Taco Tuesday menu":
# a name.
_ANY_SUCH_DAY = re.compile(
    r"(?:\b(?:every|each|the|an?|any|some|most|one|that|my|our|your|his|its|their|first|second|third"
    r"|fourth|entire|whole|black|cyber|easter|palm|good|super bowl)|['’]s)\s+$",
    re.IGNORECASE,
)
_NAME_BEFORE = re.compile(r"(?:\w,?\s+[A-Z]\w+|\bher)\s+$")
_NOUN_AFTER = re.compile(
    r"\s+(?!(?:and|or|but|at|in|on|with|to|for|from|by|of|as|so|because|when|while|after|before|which"
    r"|that|since|until|i|we|he|she|they|it|you|the|a|an|is|was|will|about|morning|afternoon|evening"
    r"|night)\b)[a-z]"
)


_DAY_NAME = r"(?:mon|tues?|wed(?:nes)?|thu(?:rs?)?|fri|sat(?:ur)?|sun)(?:day)?\b"
_TO = r"\s*(?:to|through|thru|till|until|[-–])\s*"
_DAY_BEFORE = re.compile(rf"\b(?P<first>{_DAY_NAME}){_TO}$", re.IGNORECASE)
_DAY_AFTER = re.compile(rf"{_TO}(?P<last>{_DAY_NAME})", re.IGNORECASE)
_EVERY_WEEK = re.compile(
    r"[^,.;!?]{0,40}?\b(?:(?:every|each) week|weekly|(?:once|twice|times) (?:a|per) week)\b",
    re.IGNORECASE,
)


def _before(match: Match) -> str:
    """A few words: to look through all that was said would take forever in a long text."""
    return match.string[max(0, match.start() - 30) : match.start()]


def _habitual(match: Match, said: Said) -> bool:
    """ "I work Monday to Friday", "I swim on Monday every week": those of any week. What is over,
    or will be, is one week's."""
    if said.future is not None:
        return False
    return bool(
        _DAY_BEFORE.search(_before(match))
        or _DAY_AFTER.match(match.string, match.end())
        or _EVERY_WEEK.match(match.string, match.end())
    )


def _named(match: Match) -> bool:
    """Whether the weekday belongs to what stands beside it."""
    before = _before(match)
    if _ANY_SUCH_DAY.search(before):
        return True
    return bool(_NAME_BEFORE.search(before) and _NOUN_AFTER.match(match.string, match.end()))


def weekday(match: Match, said: Said) -> EventDate | None:
    number = WEEKDAYS[match["weekday"].lower()[:3]]
    side = " ".join((match.groupdict().get("side") or "").lower().split())
    if not side and (_named(match) or _habitual(match, said)):
        return None
    back = (said.at.weekday() - number) % 7 or 7
    ahead = (number - said.at.weekday()) % 7
    if side in _LAST:
        return day(said.at - timedelta(days=back))
    if side == "next":
        # This week's Friday is "this Friday" while it lies ahead; "next" is the week after.
        return day(week(said.at)[0] + timedelta(days=7 + number))
    if side in _NEXT:
        return day(said.at + timedelta(days=ahead or 7))
    # "From Monday to Wednesday" is within a week: the Monday before that Wednesday.
    if said.future is False:
        if until := _DAY_AFTER.match(match.string, match.end()):
            last = (said.at.weekday() - WEEKDAYS[until["last"].lower()[:3]]) % 7 or 7
            back += 7 * (back < last)
        return day(said.at - timedelta(days=back % 7 if side == "this" else back))
    if said.future is None and not side:
        return None  # nothing shows which one
    if since := _DAY_BEFORE.search(_before(match)):
        first = (WEEKDAYS[since["first"].lower()[:3]] - said.at.weekday()) % 7
        ahead += 7 * (ahead < first)
    return day(said.at + timedelta(days=ahead))


def unit(match: Match, said: Said) -> EventDate | None:
    """Last, this and next week, weekend, month, year."""
    step, unit, at = step_of(match, said), match["unit"].lower(), said.at
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


def half_ago(match: Match, said: Said) -> EventDate:
    back = 18 if match["unit"].lower() == "year" else 1
    return months(*[month_back(said.at, back)] * 2)


def shift_unit(unit: str, base: date, step: int) -> EventDate | None:
    if unit == "week":
        return span(*week(base + timedelta(days=7 * step)))
    return shift(unit, step, step, Said(base, None))


def twice(match: Match, said: Said) -> EventDate | None:
    unit, step = match["unit"].lower(), -2 if match["side"] else 2
    if unit == "week":
        return span(*week(said.at + timedelta(days=7 * step)))
    return shift(unit, step, step, said)
