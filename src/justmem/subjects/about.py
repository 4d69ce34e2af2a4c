"""What memory holds about a subject or a card, without a model.

about      all cards of a subject, and the turns that name it
history    what was true when: the cards of a subject, each with the time that it held
profile    short lines about a subject, what holds now first
card       a card by its id
source     the turns that a card rests on

A newer statement of the same thing ends an older one. The language decides which statements are
about the same thing (`superseded`), as for answers.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import date
from textwrap import shorten

import numpy as np

from justmem.domain import (
    About,
    Card,
    Citation,
    Evidence,
    HistoryEntry,
    Kind,
    Passage,
    Session,
    Source,
    SubjectProfile,
    corrections_of,
    quote_place,
    turn_as_card,
)
from justmem.errors import InputError, NotInMemory
from justmem.language.citing import cite
from justmem.language.words import content_stems
from justmem.ports import (
    CardFilter,
    Filter,
    Language,
    Place,
    SearchLimits,
    Store,
    View,
    card_in,
    session_in,
    texts_of,
)
from justmem.runtime import tokens
from justmem.subjects.user_name import USER, Names, cards_of, read_names

# What holds now comes before what happened, and that before what was asked for.
_ORDER: tuple[Kind, ...] = (
    "state", "preference", "relation", "note", "fact", "measurement", "list", "event",
    "interaction",
)  # fmt: skip
_MOST = 1000  # cards of a subject that are read
_ASKED_TOKENS = 400  # of a profile that a question asks for
_LINE = 200  # characters of a profile's line


def as_subject(subject: str) -> str:
    if not subject.strip():
        raise InputError("The subject is empty: name a person or a thing.")
    return subject.strip()


# ---------------------------------------------------------------- everything


async def about(store: Store, subject: str, names: Names, limit: int, offset: int) -> About:
    """`limit` and `offset` page through cards and turns alike; the sums are always of all."""
    subject = as_subject(subject)
    cards = names.shown(await cards_about(store, subject, names))
    cards.sort(key=lambda card: card.said_at, reverse=True)
    cards.sort(key=lambda card: _ORDER.index(card.kind))
    at = {record.id: record.at for record in await store.sessions()}
    found = await places_naming(store, subject)
    places = [place for place in found if place.session_id in at]
    places.sort(key=lambda place: (at[place.session_id], place.turn), reverse=True)
    times = [*(card.said_at for card in cards), *(at[place.session_id] for place in places)]
    page = places[offset : offset + limit]
    texts = await texts_of(store, list({place.session_id for place in page}))
    quotes = [_quote(texts[place.session_id], place) for place in page if place.session_id in texts]
    more = max(len(cards), len(places)) > offset + limit
    return About(
        subject=subject,
        cards=len(cards),
        kinds=dict(Counter(card.kind for card in cards)),
        turns=len(places),
        sessions=len({c.session_id for c in cards} | {p.session_id for p in places}),
        first=min(times, default=None),
        last=max(times, default=None),
        known=tuple(cards[offset : offset + limit]),
        said=tuple(names.shown(quotes)),
        next=offset + limit if more else None,
    )


def _quote(session: Session, place: Passage) -> Citation:
    turn = session.turn(place.turn)
    return Citation(
        session_id=session.id,
        turn=place.turn,
        speaker=turn.speaker,
        said_at=session.said_at(place.turn),
        quote=turn.text[place.start : place.end],
        start=place.start,
        end=place.end,
    )


async def cards_about(store: Store, subject: str, names: Names) -> list[Card]:
    """As they are stored: those of which it is the subject, and those that name it."""
    wanted = [CardFilter(subject=subject), CardFilter(text=subject)]
    if names.include(subject):
        wanted.append(CardFilter(subject=USER))
    found = [card for where in wanted for card in await store.cards(where)]
    return list({(card.session_id, card.id): card for card in found}.values())


async def places_naming(store: Store, subject: str) -> list[Passage]:
    """One passage for each turn that names it."""
    view = View(subject, np.zeros(0, np.float32))
    named = await store.find([view], SearchLimits(mentions=True))
    return list({(one.session_id, one.turn): one for one in named.passages.values()}.values())


async def named_waiting(store: Store, subject: str) -> list[Place]:
    """The turns that name it in sessions that wait for their cards."""
    wanted = set(content_stems(subject))
    ids = [record.id for record in await store.sessions() if wanted and not record.state.finished]
    return [
        (id, number)
        for id, session in (await texts_of(store, ids)).items()
        for number, turn in enumerate(session.turns, 1)
        if wanted <= set(content_stems(turn.text))
    ]


# ---------------------------------------------------------------- one card


async def card(store: Store, card_id: str) -> Card:
    """A card, or a turn as a quote: its id is as in `s12#3`."""
    if (place := quote_place(card_id)) is None:
        return await card_in(store, card_id)
    session_id, number = place
    session = await session_in(store, session_id)
    if not 1 <= number <= len(session.turns):
        raise NotInMemory(f"Session {session_id!r} has {len(session.turns)} turns.")
    if session.turn(number).forgotten:
        raise NotInMemory(f"Turn {card_id} was forgotten.")
    return turn_as_card(session, number)


async def source(store: Store, card_id: str) -> Source:
    """The turns that a card rests on, with one turn around them."""
    found = await card(store, card_id)
    session = await session_in(store, found.session_id)
    return await asyncio.to_thread(_source, found, session)


def _source(card: Card, session: Session) -> Source:
    first, last = max(1, min(card.turns) - 1), min(len(session.turns), max(card.turns) + 1)
    turns = tuple((n, session.turn(n)) for n in range(first, last + 1))
    return Source(
        session_id=session.id,
        at=session.at,
        turns=turns,
        whole=len(turns) == len(session.turns),
        tokens=sum(tokens.count(turn.text) for _, turn in turns),
        citations=cite(card, session),
    )


# ---------------------------------------------------------------- what was true when


async def history(
    store: Store, language: Language, *, subject: str | None, card_id: str | None, on: date
) -> list[HistoryEntry]:
    """The cards of a subject, or a card with those that it replaced and that replaced it. What
    begins after the day `on` is left out."""
    if (subject is None) == (card_id is None):
        raise InputError("Give history either a subject or a card.")
    names = await read_names(store, language)
    if card_id is None:
        cards, _ = await _cards_of(store, subject or "", names)
        return await asyncio.to_thread(_entries, cards, language, on)
    own = corrections_of(card_id, (await store.look()).corrections)
    card = names.shown(await card_in(store, own[-1].after.id if own else card_id))
    # A note has no subject: no other statement ends it.
    cards = [] if card.kind == "note" else (await _cards_of(store, card.subject, names))[0]
    if card not in cards:
        cards.append(card)
    earlier = [
        HistoryEntry(
            card=names.shown(each.before),
            since=each.before.since,
            replaced_by=each.after.id,
            corrected_at=each.at,
            corrected_by=each.by,
        )
        for each in reversed(own)
        if each.before != each.after
    ]
    return [*_linked(card, await asyncio.to_thread(_entries, cards, language, on)), *earlier]


async def _cards_of(store: Store, subject: str, names: Names) -> tuple[list[Card], str]:
    """The cards of which it is the subject, else those that name it, without what an assistant was
    asked for. Also returns the person that the cards describe, as for `Language.describes`."""
    subject, person = as_subject(subject), ""
    found = await cards_of(store, CardFilter(subject=subject), names)
    if not found:
        found, person = names.shown(await cards_about(store, subject, names)), subject
    if not found:
        raise NotInMemory(f"Memory holds no cards about {subject!r}.")
    return [card for card in found if card.kind != "interaction"], person


def _entries(cards: Sequence[Card], language: Language, on: date) -> list[HistoryEntry]:
    """Newest first. What begins after the day `on` is left out."""
    begun = [card for card in cards if card.since <= on]
    known = sorted(begun, key=lambda card: (card.since, card.said_at, card.id))[-_MOST:]
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


def _newer(card: Card, known: Sequence[Card], language: Language) -> Card | None:
    """The first statement that ended this one."""
    later = (other for other in known if other.since > card.since)
    return next((o for o in later if card.id in language.superseded([card, o], o.since)), None)


def _linked(card: Card, all: Sequence[HistoryEntry]) -> list[HistoryEntry]:
    """The entries that a card replaced, one after another, and those that replaced it."""
    ids = {one.card.id for one in all if one.card.text == card.text}
    for _ in all:  # each round adds at least one, or it is complete
        ids |= {one.card.id for one in all if one.replaced_by in ids}
        ids |= {one.replaced_by for one in all if one.card.id in ids and one.replaced_by}
    return [one for one in all if one.card.id in ids]


# ---------------------------------------------------------------- profiles


async def profile(
    store: Store, language: Language, subject: str | None, on: date, limit: int
) -> SubjectProfile:
    """Short lines about a subject, what holds now first, within `limit` tokens. Default: the
    person whom most cards are about."""
    names = await read_names(store, language)
    who = subject if subject is not None else (await store.look()).main_subject
    if who is None:
        raise NotInMemory("Memory is not about one person: name the subject.")
    cards, person = await _cards_of(store, who, names)
    shown = names.all[0] if who == USER and names.all else who
    return await asyncio.to_thread(_profile, shown, cards, person, language, on, limit)


async def profile_asked(
    store: Store, language: Language, names: Names, asked: Evidence, where: Filter
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
    shown = [card for card in cards if where.holds(card.session_id, card.said_at, card.until)]
    on, limit = where.as_of, _ASKED_TOKENS
    return (await asyncio.to_thread(_profile, person, shown, person, language, on, limit)).cards


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
    lines: dict[str, str] = {}  # by their words, so that a thing is said once
    chosen: list[Card] = []
    left = limit
    for card in ordered:
        text = shorten(card.words, _LINE, placeholder=" …")
        line = f"- {text} ({card.since}) [{card.id}]"
        size = tokens.count(line) + 1
        if text.casefold() not in lines and size <= left:
            lines[text.casefold()] = line
            chosen.append(card)
            left -= size
    return SubjectProfile(
        subject=subject,
        cards=tuple(chosen),
        text="\n".join(lines.values()),
        tokens=limit - left,
    )
