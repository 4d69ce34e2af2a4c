"""The date phrases of English. Each rule is a pattern and the resolver of its matches."""

from __future__ import annotations

import re
from collections.abc import Iterator

from justmem.domain import EventDate
from justmem.language.en import resolvers
from justmem.language.en.resolvers import (
    DAYS,
    FIRST_MONTH,
    HOLIDAYS,
    MONTHS,
    NUMBERS,
    ORDINALS,
    WEEKDAYS,
    Resolver,
    Utterance,
)

_MONTH = (
    r"\b(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\b\.?"
)
_WEEKDAY = (
    r"(?P<weekday>monday|tuesday|wednesday|thursday|friday|saturday|sunday"
    r"|(?:mon|tues?|wed|thurs?|fri)(?=\b(?!['’])))"
)
_SEASON = r"(?P<season>spring|summer|autumn|fall|winter)"
_NUMBER = r"\d{1,3}|couple(?: of)?|few|several|some|" + "|".join(w for w in NUMBERS if len(w) > 2)
_NUM = rf"(?:(?:an?|about|around|almost|nearly|roughly|over) )*(?P<num>{_NUMBER}|an?)"
_UNITS = r"(?P<unit>day|night|week|weekend|fortnight|month|year|decade|hour|minute)s?"
_YEAR = r"(?P<year>(?:19|20)\d\d)"
_OF_YEAR = rf"(?:,? {_YEAR})?"
_SIDES = (
    r"(?P<side>this past|this coming|earlier this|later this|last|past|previous|this|next|coming"
    r"|upcoming)"
)
_DAY_NUMBER = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_UNTIL = r"(?:\s*(?:-|–|to|and)\s*(?P<last>\d{1,2})(?:st|nd|rd|th)?)?"
_SPELT = rf"(?P<day>{'|'.join(sorted(ORDINALS, key=len, reverse=True))})"
_IN = (
    r"\b(?:in|since|during|of|by|until|till|from|around|before|after|through|throughout|early|late"
    r"|mid)(?: early| late| mid| the month of)?[ -]"
)
# "Every Friday", "my Friday class": no day in particular.
_DETERMINERS = "every each the an a any some most one that my our black its it's"
_NO_DAY = "".join(rf"(?<!\b{word} )" for word in _DETERMINERS.split())

_PATTERNS: tuple[tuple[str, Resolver], ...] = (
    (r"\b(?P<y>(?:19|20)\d\d)[-/](?P<m>\d{1,2})[-/](?P<d>\d{1,2})\b", resolvers.resolve_iso),
    (r"(?<![\d/])(?P<a>\d{1,2})[/.](?P<b>\d{1,2})[/.](?P<y>\d{4}|\d{2})(?![\d/])",
     resolvers.resolve_slashed),
    (r"\bon (?P<a>\d{1,2})/(?P<b>\d{1,2})(?![\d/])", resolvers.resolve_slashed),
    (rf"(?<![\d.$]){_DAY_NUMBER}{_UNTIL}(?: of)? {_MONTH}{_OF_YEAR}", resolvers.resolve_month_day),
    (rf"{_MONTH} (?:the )?{_DAY_NUMBER}{_UNTIL}(?![\d:%]|\s?[ap]\.?m\b){_OF_YEAR}",
     resolvers.resolve_month_day),
    (rf"\bthe {_SPELT} of {_MONTH}{_OF_YEAR}", resolvers.resolve_month_day),
    (rf"{_MONTH} the {_SPELT}\b{_OF_YEAR}", resolvers.resolve_month_day),
    (rf"(?<!\d\s){_MONTH},?(?: of)? {_YEAR}", resolvers.resolve_month),
    (rf"(?:{_IN}|\b{_SIDES} ){_MONTH}(?! (?:the )?\d)", resolvers.resolve_month),
    (rf"(?:{_IN}|\bback in ){_YEAR}\b(?![-/]\d)", resolvers.resolve_year),
    (rf"\b(?:(?:in|over|during|since|by|for)(?: the)? |{_SIDES} |the )?{_SEASON}(?: of)? {_YEAR}",
     resolvers.resolve_season),
    (rf"\b(?:(?:in|over|during|since|by|until) (?:the )?|{_SIDES} ){_SEASON}\b",
     resolvers.resolve_season),
    (rf"\b(?:(?:on|at|over|for|around|since|before|after|by|during) |{_SIDES} )"
     rf"(?P<holiday>{'|'.join(HOLIDAYS)})(?: day)?{_OF_YEAR}\b", resolvers.resolve_holiday),
    (r"\bon the (?P<day>\d{1,2})(?:st|nd|rd|th)\b(?! (?:of|floor|street|avenue)\b)",
     resolvers.resolve_day_of_month),
    (rf"\b{_NUM} {_UNITS} (?:ago|back)\b", resolvers.resolve_ago),
    (r"\ba (?P<unit>year|month) and a half ago\b", resolvers.resolve_half_ago),
    (rf"\bin {_NUM} {_UNITS}(?:['’]s?)?(?: time)?\b(?! of\b)", resolvers.resolve_ahead),
    (rf"\b{_NUM} {_UNITS} from now\b", resolvers.resolve_ahead),
    (rf"\b(?:in|over|during|within|of) the (?:last|past) (?:(?P<num>{_NUMBER}) )?"
     r"(?P<unit>day|week|month|year)s?\b(?! of\b)", resolvers.resolve_within),
    (r"\b(?:" + "|".join(sorted(DAYS, key=len, reverse=True)) + r")\b", resolvers.resolve_day),
    (rf"{_NO_DAY}\b(?:{_SIDES} )?{_WEEKDAY}\b(?! (?:morning|afternoon|evening|night)s"
     r"|,? (?:of )?(?:last|this|next) week| \w+ (?:weeks?|months?) ago)",
     resolvers.resolve_weekday),
    (rf"\b(?<!for the ){_SIDES} (?P<unit>weekend|week|month|year)\b(?!['’-]?(?:long|s\b)| of\b)",
     resolvers.resolve_unit),
)  # fmt: skip
_RULES = [(re.compile(pattern, re.IGNORECASE), resolver) for pattern, resolver in _PATTERNS]
# Most sentences have no date. Every rule needs one of these.
_ANY = re.compile(
    r"\d|\b(?:ago|back|now|time|day|night|today|tonight|yesterday|tomorrow|recently|other|in an?"
    r"|in (?:one|two|three|four|five|six|seven|eight|nine|ten|few|several)"
    rf"|last|past|previous|this|next|coming|upcoming|{'|'.join(FIRST_MONTH)}"
    rf"|{'|'.join(MONTHS)}|{'|'.join(WEEKDAYS)}|{'|'.join(HOLIDAYS)})",
    re.IGNORECASE,
)


# "Two days before Christmas", "the week of May 8": the date that follows is not the one meant.
_ELSEWHERE = re.compile(
    r"\b(?:\w*day|night|week|weekend|month|year)s? (?:before|after|prior to|following|of) $",
    re.IGNORECASE,
)


def match_phrases(text: str, said: Utterance) -> Iterator[tuple[int, int, EventDate]]:
    """Every phrase of every rule, overlapping or not."""
    text = re.sub(r"\s", " ", text)
    if not _ANY.search(text):
        return
    for pattern, resolver in _RULES:
        for match in pattern.finditer(text):
            try:
                when = resolver(match, said.at_place(match.start()))
            except (ValueError, OverflowError):  # 31 June, the year 0: no such day
                continue
            before = text[max(0, match.start() - 30) : match.start()]
            if when is not None and not _ELSEWHERE.search(before):
                yield match.start(), match.end(), when
