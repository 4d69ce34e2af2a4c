"""What was true when: the cards of a subject, each with the time that it held, and a profile.

A newer statement of the same thing ends an older one. The language decides which statements are
about the same thing (`superseded`), as for answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import date
from textwrap import shorten

from justmem.domain import Card, Evidence, HistoryEntry, Retention, SubjectProfile, corrections_of
from justmem.errors import InputError, NotInMemory
from justmem.ports import CardFilter, Filter, Language, Store, card_in
from justmem.runtime import tokens
from justmem.subjects.about import cards_about
from justmem.subjects.user_name import Names, cards_of, read_names

_MOST = 1000  # cards of a subject that are read
_ASKED_TOKENS = 400  # of a profile that a question asks for
_LINE = 200  # characters of a profile's line


async def history(
    store: Store, language: Language, *, subject: str | None, card_id: str | None, on: date
) -> list[HistoryEntry]:
    """The cards of a subject, or a card with those that it replaced and that replaced it. What
    begins after the day `on` is left out."""
    if (subject is None) == (card_id is None):
        raise InputError("Give history either a subject or card=.")
    called = await read_names(store, language)
    if card_id is None:
        cards = await _cards_of(store, subject or "", called)
        return await asyncio.to_thread(_entries, cards, language, on)
    known = await store.corrections()
    own = corrections_of(card_id, known)
    card = called.card(await card_in(store, own[-1].after.id if own else card_id))
    cards = await _cards_of(store, card.subject, called)
    if card not in cards:
        cards.append(card)
    earlier = [
        HistoryEntry(
            card=called.card(each.before),
            since=each.before.since,
            replaced_by=each.after.id,
            corrected_at=each.at,
            corrected_by=each.by,
        )
        for each in reversed(own)
        if each.before != each.after
    ]
    return [*_linked(card, await asyncio.to_thread(_entries, cards, language, on)), *earlier]


async def profile(
    store: Store, language: Language, subject: str | None, on: date, limit: int
) -> SubjectProfile:
    """Short lines about a subject, what holds now first, within `limit` tokens. Default: the
    person whom most cards are about."""
    called = await read_names(store, language)
    who = subject if subject is not None else (await store.look()).main_subject
    if who is None:
        raise NotInMemory("Memory is not about one person: name the subject.")
    cards = await _cards_of(store, who, called)
    return await asyncio.to_thread(_profile, called.of(who), cards, "", language, on, limit)


async def profile_asked(
    store: Store,
    language: Language,
    names: Names,
    retention: Retention,
    asked: Evidence,
    where: Filter,
) -> tuple[Card, ...]:
    """The cards of somebody's profile, if the question asks for it: "Who is Ines?" """
    person = language.person_asked(asked.question)
    if person is None or where.limit is not None:
        return ()
    cards: Sequence[Card] = ()
    if person:
        cards = await cards_about(store, person, names)
    elif asked.speaker:
        cards = await store.cards(CardFilter(subject=asked.speaker))
    on, now = where.as_of or asked.at.date(), asked.at.replace(tzinfo=None)
    shown = [
        card
        for card in cards
        if card.said_at.date() <= on
        and where.holds(card.session_id, card.said_at.date())
        and not retention.card_expired(card, asked.at)
        and (card.until is None or card.until > now)
    ]
    newest = sorted(shown, key=lambda card: card.said_at, reverse=True)[:_MOST]
    found = await asyncio.to_thread(_profile, person, newest, person, language, on, _ASKED_TOKENS)
    return found.cards


async def _cards_of(store: Store, subject: str, names: Names) -> list[Card]:
    """The cards of which it is the subject, without what an assistant was asked for."""
    subject = subject.strip()
    if not subject:
        raise InputError("The subject is empty: name a person or a thing.")
    found = await cards_of(store, CardFilter(subject=subject), names)
    if not found:
        raise NotInMemory(f"Memory holds no cards about {subject!r}.")
    return [card for card in found if card.kind != "interaction"][-_MOST:]


def _entries(cards: Sequence[Card], language: Language, on: date) -> list[HistoryEntry]:
    """Newest first. What begins after the day `on` is left out."""
    known = sorted((card for card in cards if card.since <= on), key=_order)
    ended = _ended(known, language, on)
    found: dict[tuple[str | None, ...], HistoryEntry] = {}
    for card in known:
        newer = _newer(card, known, language) if card.id in ended else None
        same = card.subject, card.fact, card.event_date.text, newer.id if newer else None
        if first := found.get(same):  # said again
            places = tuple(f"{card.session_id}#{turn}" for turn in card.turns)
            found[same] = first.model_copy(update={"repeats": (*first.repeats, *places)})
            continue
        found[same] = HistoryEntry(
            card=card,
            since=card.since,
            until=newer.since if newer else None,
            replaced_by=newer.id if newer else None,
        )
    return list(found.values())[::-1]


def _ended(known: Sequence[Card], language: Language, on: date) -> set[str]:
    """Ids of the cards that a newer one ended, also of those that were true again later: Graz,
    Vienna, Graz."""
    ended: set[str] = set()
    days, seen = [on], {on}
    while days:
        day = days.pop()
        ended |= language.superseded([card for card in known if card.since <= day], day)
        more = {card.since for card in known if card.id in ended} - seen
        seen |= more
        days += more
    return ended


def _linked(card: Card, all: Sequence[HistoryEntry]) -> list[HistoryEntry]:
    """The entries that a card replaced, one after another, and those that replaced it."""
    ids = {one.card.id for one in all if one.card.text == card.text}
    for _ in all:  # each round adds at least one, or it is complete
        more = {one.card.id for one in all if one.replaced_by in ids}
        more |= {one.replaced_by for one in all if one.card.id in ids and one.replaced_by}
        if more <= ids:
            break
        ids |= more
    return [one for one in all if one.card.id in ids]


def _newer(card: Card, known: Sequence[Card], language: Language) -> Card | None:
    """The first statement that ended this one."""
    later = (other for other in known if other.since > card.since)
    return next((o for o in later if card.id in language.superseded([card, o], o.since)), None)


def _order(card: Card) -> tuple[date, str, str]:
    return card.since, card.said_at.isoformat(), card.id


def _profile(
    subject: str, cards: Sequence[Card], person: str, language: Language, on: date, limit: int
) -> SubjectProfile:
    """`person`: as for `Language.describes`."""
    all = _entries(cards, language, on)
    changed = {one.replaced_by for one in all}
    now = [one.card for one in all if one.until is None]
    ranks = {card.id: language.describes(card, person) for card in now}
    told = [card for card in now if ranks[card.id] is not None]
    ordered = sorted(told, key=lambda card: (card.id not in changed, ranks[card.id]))
    lines: list[str] = []
    chosen: list[Card] = []
    seen: set[str] = set()
    left = limit
    for card in ordered:
        text = shorten(card.words, _LINE, placeholder=" …")
        line = f"- {text} ({card.since}) [{card.id}]"
        size = tokens.count(line) + 1
        if text.casefold() in seen or size > left:
            continue
        seen.add(text.casefold())
        left -= size
        lines.append(line)
        chosen.append(card)
    return SubjectProfile(
        subject=subject, cards=tuple(chosen), text="\n".join(lines), tokens=limit - left
    )
