"""Numbers and amounts as cards state them, and sums of money."""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from justmem.answering.sentences import ASKED, clauses
from justmem.answering.states import asked_now
from justmem.answering.support import ASKING, Supported
from justmem.domain import Card
from justmem.words import content, names, stem, words

_NEAR = 3  # words between a number and what it counts
_ONES = "one two three four five six seven eight nine"
_TEENS = "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen"
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_TO_NINE, _TO_NINETEEN, _BY_TEN = ("|".join(one.split()) for one in (_ONES, _TEENS, _TENS))
_DIGITS = r"\d[\d,.]*+"
_NUMBER = re.compile(
    rf"(?<![\w.,:/-])(?P<number>{_DIGITS}(?:\s?%)?(?![\w:-])"
    rf"|(?:(?:{_BY_TEN})(?:[- ](?:{_TO_NINE}))?|{_TO_NINETEEN}|{_TO_NINE}|an? hundred|a dozen"
    rf"|a couple of)\b(?!-))(?! of\b)",  # "one of the dogs" is no number of dogs
    re.IGNORECASE,
)
_MEASURE = re.compile(
    rf"(?<![\w.,:/-]){_DIGITS}\s?(?:%|(?:kg|kilos?|grams?|g|lbs?|pounds|stone|km|kilomet\w+|m|met(?:er|re)s?"
    r"|cm|miles?|feet|inches|lit(?:er|re)s?|ml|cups?|percent|degrees|°C|°F|calories)\b)",
    re.IGNORECASE,
)
_MONEY = re.compile(
    r"(?:(?P<before>[$€£¥₹])\s?|\b(?P<code>EUR|USD|GBP|CHF)\s)?(?P<value>(?<![\w.,])\d[\d,]*+(?:\.\d++)?)"
    r"\s?(?P<thousands>k\b|thousand\b|million\b)?\s?"
    r"(?P<after>(?:euros?|dollars?|bucks|pounds?|quid|EUR|USD|GBP|CHF)\b|[€£$])?",
    re.IGNORECASE,
)
_CURRENCIES = {"€": "euro euros eur", "$": "dollar dollars bucks usd", "£": "pound pounds quid gbp"}
_CURRENCY = {name: sign for sign, known in _CURRENCIES.items() for name in known.split()}
_TIMES = {"k": 1e3, "thousand": 1e3, "million": 1e6}
_WEIGHT = re.compile(r"\b(?:los[et]|gain\w*|weigh\w*|lift\w*|heav\w+)\b", re.IGNORECASE)
# A date written out is no number of anything.
_DATE = re.compile(
    rf"\b(?:\d{{1,2}} )?(?:{'|'.join(calendar.month_name[1:])})\b(?: \d{{1,2}}\b)?,?(?: \d{{4}})?"
    r"|\b(?:in|since|from|until|till|by|during|early|late|spring|summer|autumn|fall|winter)"
    r" (?:19|20)\d\d\b",
)
_COUNTED = re.compile(
    r"\b(?:how many|number of)(?: (?:different|total|more|of|other))*\s+"
    r"(?P<noun>[\w-]+(?: (?:and|or) [\w-]+| [\w-]+)?)",
    re.IGNORECASE,
)
_LINKING = "did do does has have had is are was were will can of in on at i we and or"
_NO_NOUNS = frozenset(_LINKING.split())
_COMES_TO = re.compile(r"\b(?:to|at|is|was|are|were)(?: now| about)? $", re.IGNORECASE)
_HOW_OFTEN = re.compile(r"\bhow many times\b|\bhow often\b", re.IGNORECASE)
_RATE = r"(?: (?:or \w+ )?(?:an?|per|each|every) \w+)"
_ONCE = re.compile(rf"\b(?P<number>once|twice)\b(?P<rate>{_RATE})?", re.IGNORECASE)
_EACH = re.compile(r"\b(?:a|per|each|every|how often)\b", re.IGNORECASE)
_TOTAL = re.compile(r"\b(?:total|altogether|in all|combined|sum|overall)\b", re.IGNORECASE)
_SPEND = re.compile(r"\bhow much (?:money )?(?:do|does|did|has|have)\b.*\bspen[dt]\b", re.I)
_SPENT = re.compile(r"\b(?:spen[dt]|pa(?:y|id)|costs?)\b", re.IGNORECASE)
_NOT_PAID = re.compile(
    r"\b(?:sold|earn\w*|receiv\w+|refund\w*|won|rais\w+|got paid|budget)\b", re.IGNORECASE
)
_SAVED = re.compile(r"\bsav(?:e[ds]?|ings?)\b", re.IGNORECASE)
# Two amounts are held against each other: neither is the answer.
_COMPARED = re.compile(
    r"\bhow much (?:more|less|cheaper)\b|\bdifference\b|\binstead of\b|\bcompared\b", re.IGNORECASE
)
_SPENDING = """spend spent pay cost money buy price expense sum altogether combined overall earn
save raise"""
_OF_MONEY = frozenset(map(stem, _SPENDING.split()))
_FOR_WHAT = re.compile(r"(?: \w+)? (?:for|on)\b")


def counted(question: str) -> set[str]:
    """What "how many" counts."""
    match = _COUNTED.search(question)
    if match is None:
        return set()
    # Euros are an amount, however they are asked for.
    nouns = [word for word in match["noun"].lower().split() if word not in _CURRENCY]
    return {stem(word) for word in nouns if word not in _NO_NOUNS}


def stated_number(question: str, found: Sequence[Supported]) -> tuple[str, Supported] | None:
    """A number that a card itself gives for what is counted, from the latest such card."""
    stated = stated_numbers(question, found)
    return max(stated, key=lambda row: row[1].card.said_at) if stated else None


def stated_numbers(question: str, found: Sequence[Supported]) -> list[tuple[str, Supported]]:
    """The cards that give a number for what is counted, each with its number."""
    nouns = counted(question)
    often = _HOW_OFTEN.search(question)
    stated = []
    for one in found:
        near = [
            (place, number)
            for number, around in _numbers(one.card.fact, one.card.subject)
            for place, word in enumerate(around)
            if word in nouns
        ]
        number = min(near)[1] if near else ""
        if often and not near:
            number = _once(question[often.end() :], one.card.fact)
        if number:
            stated.append((number, one))
    return stated


def _once(rest: str, fact: str) -> str:
    """ "Twice a year" does not say how many times it has been."""
    match = _ONCE.search(fact)
    if match is None or (match["rate"] and not _EACH.search(rest)):
        return ""
    return match[0]


def stated_amount(question: str, found: Sequence[Supported]) -> tuple[str, Supported] | None:
    """How much, as a card states it: of those that say most of what is asked the best, or, asked
    of the present, the one told last."""
    wanted = {one for one in content(question) if one not in ASKING}
    bare = not total_asked(question)  # a number without a unit is not all of something
    rated = []
    for one in found:
        amounts = [
            (len(wanted & set(content(clause))), amount)
            for clause in clauses(one.card.fact)
            for amount in _amounts(clause, one.card.subject, bare=bare)
        ]
        if amounts and not _not_paid(question, one.card):
            nearest = max(amounts, key=lambda row: row[0])[1]
            rated.append((len(wanted & set(content(one.card.text))), nearest, one))
    if not rated or _COMPARED.search(question):
        return None
    most = max(shared for shared, _, _ in rated)
    alike = [(amount, one) for shared, amount, one in rated if shared == most]
    told = max(alike, key=lambda row: row[1].card.said_at) if asked_now(question) else alike[0]
    # Of several amounts that could not be added, one is not the total.
    several = len(rated) > 1 or len(_money(told[1].card.fact)) > 1
    return None if several and total_asked(question) else told


def _amounts(clause: str, subject: str, *, bare: bool) -> list[str]:
    money = [match[0].strip() for match in _money(clause)]
    measures = [match[0] for match in _MEASURE.finditer(clause)]
    return money or measures or [number for number, _ in _numbers(clause, subject) if bare]


def _money(text: str) -> list[re.Match[str]]:
    found = [one for one in _MONEY.finditer(text) if one["before"] or one["code"] or one["after"]]
    if _WEIGHT.search(text):  # pounds of money, not of weight
        return [one for one in found if (one["after"] or "").lower() not in ("pound", "pounds")]
    return found


def _not_paid(question: str, card: Card) -> bool:
    """What was received, or set aside, is not what was paid; a price is not what was saved."""
    paid = _SPENT.search(question) and not _SPENT.search(card.fact)
    saved = _SAVED.search(question) and not _SAVED.search(card.fact)
    return bool(saved or (paid and _NOT_PAID.search(card.text)))


@dataclass(frozen=True, slots=True)
class Sum:
    total: str
    parts: Sequence[Supported]


def several_asked(question: str) -> bool:
    """Whether more than one amount is needed."""
    return total_asked(question) or bool(_COMPARED.search(question))


def total_asked(question: str) -> bool:
    """ "How much did I spend on the party?" asks for all of it."""
    return bool(_TOTAL.search(question) or _SPEND.search(question))


def summed(question: str, found: Sequence[Supported]) -> Sum | None:
    """Money over several cards, where a total is asked for: of one currency, spent or received on
    what is asked about. Where a card gives a total itself, nothing is added to it."""
    if not total_asked(question):
        return None
    parts: list[tuple[str, float, Supported]] = []
    for one in found:
        if not _belongs(question, one) or not (money := _to_add(one.card.fact)):
            continue
        if _TOTAL.search(one.card.fact):
            return None
        parts.extend((*_worth(match), one) for match in money)
    if len(parts) < 2 or len({sign for sign, _, _ in parts}) > 1:
        return None
    whole = sum(value for _, value, _ in parts)
    shown = f"{whole:,.0f}" if whole == int(whole) else f"{whole:,.2f}"
    cards = {one.card.id: one for _, _, one in parts}
    return Sum(f"{parts[0][0]}{shown}", list(cards.values()))


def _belongs(question: str, one: Supported) -> bool:
    """Whether an amount is of what is asked about: its place and its purpose, and no plan."""
    told, own = set(content(one.card.text)), set(map(stem, words(one.card.subject)))
    named = {stem(word) for name in names(question) for word in words(name)} - own
    things = set(content(question)) - ASKING - _OF_MONEY - named - own
    if one.card.status == "planned" or _not_paid(question, one.card):
        return False
    return named <= told and (not things or bool(things & told))


def _to_add(fact: str) -> list[re.Match[str]]:
    """One amount; or several that each say what they were for. "Down from 60 to 45" is neither."""
    money = _money(fact)
    return money if len(money) == 1 or all(_says_for_what(fact, one) for one in money) else []


def _says_for_what(fact: str, money: re.Match[str]) -> bool:
    """ "A desk for $420", "$420 for a desk"."""
    before, after = fact[: money.start()], fact[money.end() :]
    return before.endswith("for ") or bool(_FOR_WHAT.match(after))


def _worth(money: re.Match[str]) -> tuple[str, float]:
    sign = (money["before"] or money["code"] or money["after"]).lower()
    times = _TIMES.get((money["thousands"] or "").lower(), 1.0)
    sign = _CURRENCY.get(sign, f"{sign.upper()} " if sign.isalpha() else sign)
    return sign, float(money["value"].replace(",", "")) * times


def _numbers(fact: str, subject: str) -> Iterator[tuple[str, list[str]]]:
    """Numbers in a fact, each with the words of content that say what it is of: those after it
    ("32 species"), or those before where it comes after them ("the count of species is 32")."""
    told = _DATE.sub(" ", ASKED.sub("", fact))
    own = set(words(subject))
    for match in _NUMBER.finditer(told):
        around = _of_content(told[match.end() : match.end() + 60], own)[:_NEAR]
        before = told[max(0, match.start() - 60) : match.start()]
        if _COMES_TO.search(before):
            around += _of_content(before, own)[: -_NEAR - 1 : -1]
        yield match["number"].rstrip("., "), around


def _of_content(text: str, own: set[str]) -> list[str]:
    return [one for word in words(text) if word not in own for one in content(word)]
