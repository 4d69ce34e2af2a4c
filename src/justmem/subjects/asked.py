"""A question that asks who somebody is: the profile joins what was found."""

from __future__ import annotations

import asyncio

from justmem.domain import Candidate, Card, Evidence, Retention
from justmem.ports import CardFilter, Language, Store
from justmem.subjects.about import by_kind, cards_about
from justmem.subjects.history import profile_of
from justmem.subjects.names import Names

_TOKENS = 400
_MOST = 100  # cards that are compared with each other


async def with_profile(
    store: Store,
    language: Language,
    names: Names,
    retention: Retention,
    found: Evidence,
    limit: int,
) -> Evidence:
    """At most `limit` cards, those of the profile first. `found` has cards as they are stored."""
    subject = language.subject_asked(found.question)
    if subject is None:
        return found
    if subject:
        cards = await cards_about(store, subject, names)
    elif found.speaker:
        cards = list(await store.cards(CardFilter(subject=found.speaker)))
    else:
        return found
    holding = [card for card in cards if _holds(card, retention, found)]
    lines = await asyncio.to_thread(
        profile_of, subject, by_kind(holding)[:_MOST], language, found.at.date(), _TOKENS
    )
    ids = {card.id for card in lines.cards}
    scored = {one.card.id: one for one in found.candidates}
    first = [scored.get(card.id, Candidate(card=card)) for card in lines.cards]
    rest = [card for card in found.cards if card.id not in ids]
    return found.model_copy(
        update={
            "chosen": _joined(first, found.chosen)[:limit],
            "candidates": _joined(first, found.candidates),
            "cards": (*lines.cards, *rest)[:limit],
        }
    )


def _joined(first: list[Candidate], others: tuple[Candidate, ...]) -> tuple[Candidate, ...]:
    ids = {one.card.id for one in first}
    return (*first, *(one for one in others if one.card.id not in ids))


def _holds(card: Card, retention: Retention, asked: Evidence) -> bool:
    """Whether it was said by the day of the question and has not expired."""
    now = asked.at.replace(tzinfo=None)
    return (
        card.kind != "interaction"
        and card.said_at.date() <= asked.at.date()
        and not retention.card_expired(card, asked.at)
        and (card.until is None or card.until > now)
    )
