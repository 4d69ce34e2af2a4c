"""Answers to how many and how much: a sum or a number that memory states, or the distinct things
that it tells of."""

from __future__ import annotations

from collections.abc import Sequence

from justmem.answering.amounts import (
    counted,
    several_asked,
    stated_amount,
    stated_number,
    stated_numbers,
    summed,
)
from justmem.answering.sentences import Said, listed, stated
from justmem.answering.support import Supported, relevant
from justmem.domain import Card, EventDate, Evidence
from justmem.words import content

_SAME = 0.6  # cards that share this much of their words tell of the same thing
MOST_LISTED = 8


def distinct(found: Sequence[Supported], question: str) -> list[Supported]:
    """Without those that repeat a better one. What the question itself says (all of them visited
    a museum) does not make two alike."""
    asked = set(content(question))
    kept: list[tuple[set[str], Supported]] = []
    for one in found:
        stems = (set(content(one.card.fact)) - asked) or set(content(one.card.fact))
        if all(len(stems & other) < _SAME * min(len(stems), len(other)) for other, _ in kept):
            kept.append((stems, one))
    return [one for _, one in kept]


def how_many(evidence: Evidence, found: Sequence[Supported]) -> Said:
    near, question = in_period(relevant(found), evidence.plan.period), evidence.question
    nouns, several = counted(question), several_asked(question)
    much = how_much(evidence, found) if not nouns else None
    if much is not None:
        return much
    # "Three courses here" and "two courses there" are neither three nor two cards in total.
    parts = {number.lower() for number, _ in stated_numbers(question, near)} if several else set()
    told = stated_number(question, near) if len(parts) < 2 else None
    if told is not None:
        return stated(told[0], told[1].card)
    items = distinct(near, question)[: MOST_LISTED if nouns or several else 1]
    cards = [one.card for one in items]
    # An amount is never the number of cards; nor is one card a count.
    if not nouns or len(items) == 1 or len(parts) > 1:
        return Said(listed(items), cards)
    return Said(f"{len(items)}: {listed(items)}", cards)


def how_much(evidence: Evidence, found: Sequence[Supported]) -> Said | None:
    """A sum where a total is asked for, else an amount that a card states."""
    near, question = in_period(relevant(found), evidence.plan.period), evidence.question
    whole = summed(question, distinct(near, question))
    if whole is not None:
        return Said(
            f"{whole.total} in total: {listed(whole.parts)}", [one.card for one in whole.parts]
        )
    told = stated_amount(question, near)
    return stated(told[0], told[1].card) if told is not None else None


def in_period(near: Sequence[Supported], period: EventDate) -> Sequence[Supported]:
    """Without what surely happened at another time than is asked about."""
    if period.start is None:
        return near
    then = [one for one in near if not _elsewhen(one.card, period)]
    return then or near


def _elsewhen(card: Card, period: EventDate) -> bool:
    return card.event_date.start is not None and not card.event_date.overlaps(period)
