"""Answers to when and how long: dates, durations, ages."""

from __future__ import annotations

import re
from collections.abc import Sequence

from justmem.answering.sentences import Said, capital, closed, plain, sentence, stated, to_the_point
from justmem.answering.spans import (
    age_in,
    ago,
    day_of,
    durations_in,
    length,
    told_of_both,
    unit_asked,
)
from justmem.answering.support import Supported, asked_words, relevant, shares
from justmem.domain import Card, Evidence
from justmem.language.en.dates import say
from justmem.words import content

_DATED = 2.5  # support that a card may lack for its date
_LESS = 0.34  # of the asked words: how many fewer it may have
_PAST = re.compile(r"\b(?:did|was|were|had)\b", re.IGNORECASE)
_PUT_OFF = re.compile(
    r"\b(?:moved to|rescheduled|postponed|put off|pushed (?:back|to)|brought forward|delayed)\b",
    re.IGNORECASE,
)
_AGO = re.compile(r"\bago\b", re.IGNORECASE)
_OLD = re.compile(r"\bhow old\b", re.IGNORECASE)
_UNTIL_NOW = re.compile(r"\bhow long (?:has|have)\b", re.IGNORECASE)


def when(evidence: Evidence, found: Sequence[Supported]) -> Said:
    near = relevant(found)
    dated = _dated(evidence.question, near)
    if dated is not None:
        day = say(dated.event_date)
        text = closed(capital(to_the_point(plain(dated), evidence.question)))
        # Rules write dates into their facts: said once is enough.
        return Said(text if day in text else f"{capital(day)}: {text}", [dated])
    card = near[0].card
    day = f"{card.said_at.day} {card.said_at:%B %Y}"
    return Said(f"No date was given; it was told on {day}: {sentence(card, dated=False)}", [card])


def _dated(question: str, near: Sequence[Supported]) -> Card | None:
    """The best card with a date, unless a better one without says more of what is asked. Of cards
    that say as much of it, what happened comes before a plan, and a plan or a new date told later
    before the one that it replaces."""
    wanted, best = asked_words(question), near[0]
    share = shares(best.card.text, wanted)
    dated = [
        one.card
        for one in near
        if one.card.event_date.start is not None
        and one.support >= best.support - _DATED
        and (one is best or shares(one.card.text, wanted) >= share - _LESS)
    ]
    if not dated:
        return None
    first = dated[0]
    least = shares(first.text, wanted)
    alike = [card for card in dated if shares(card.text, wanted) >= least]
    later = [card for card in alike if card.said_at > first.said_at]
    if first.status == "planned":
        done = [card for card in later if card.status != "planned"]
        if done and _PAST.search(question):
            return done[0]
        later = [card for card in later if card.status == "planned"]
    else:
        later = [card for card in later if _PUT_OFF.search(card.fact)]
    return max([first, *later], key=lambda card: card.said_at)


def how_long(evidence: Evidence, found: Sequence[Supported]) -> Said:
    question, near = evidence.question, relevant(found)
    unit = unit_asked(question)
    if _AGO.search(question):
        card = next((one.card for one in near if one.card.event_date.start), found[0].card)
        return stated(ago(card, evidence.at, unit), card)
    both = told_of_both(question, found) if evidence.plan.spans_sessions else None
    if both is not None:
        between = length(day_of(both[0]), day_of(both[1]), unit)
        return Said(f"{between}: {sentence(both[0])} {sentence(both[1])}", both)
    told = _age(near) if _OLD.search(question) else None
    told = told or _duration(question, near)
    if told is not None:
        return stated(*told)
    card = found[0].card
    if card.event_date.start and _UNTIL_NOW.search(question):
        span = length(day_of(card), evidence.at.date(), unit)
        return stated(f"{span}, since {say(card.event_date)}", card)
    return Said(sentence(card), [card])


def _age(near: Sequence[Supported]) -> tuple[str, Card] | None:
    """As it was told last: people grow older."""
    told = [(age, one.card) for one in near if (age := age_in(one.card.fact))]
    return max(told, key=lambda row: row[1].said_at) if told else None


def _duration(question: str, near: Sequence[Supported]) -> tuple[str, Card] | None:
    """A length of time said of what is asked: in a clause that speaks of it, else in the best
    card."""
    wanted = asked_words(question)
    told = [
        (*max(spans, key=lambda row: row[0]), one.card)
        for one in near
        if (spans := [(len(wanted & set(content(c))), s) for s, c in durations_in(one.card.fact)])
    ]
    of_it = [(span, card) for shared, span, card in told if shared]
    of_best = [(span, card) for _, span, card in told if card is near[0].card]
    return next(iter([*of_it, *of_best]), None)
