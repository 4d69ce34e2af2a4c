"""What memory holds on a subject: all of it, counted and in order, without a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from justmem.domain import About, Card, Citation, Kind, Passage, Session
from justmem.errors import InputError
from justmem.language.words import content_stems
from justmem.ports import CardFilter, Store
from justmem.subjects.user_name import USER, Names

# What holds now comes before what happened, and that before what was asked for.
_ORDER: tuple[Kind, ...] = (
    "state", "preference", "relation", "note", "fact", "measurement", "list", "event",
    "interaction",
)  # fmt: skip


async def about(store: Store, subject: str, names: Names, limit: int, offset: int) -> About:
    """`limit` and `offset` page through cards and turns alike; the sums are always of all."""
    subject = subject.strip()
    if not subject:
        raise InputError("The subject is empty: name a person or a thing.")
    cards = by_kind(names.cards(await cards_about(store, subject, names)))
    places = await places_naming(store, subject)
    sessions = {record.id: record for record in await store.sessions()}
    times = [card.said_at for card in cards]
    times += [sessions[id].at for id in {p.session_id for p in places} if id in sessions]
    places.sort(key=lambda p: (_instant(sessions[p.session_id].at), p.turn), reverse=True)
    page = places[offset : offset + limit]
    more = max(len(cards), len(places)) > offset + limit
    return About(
        subject=subject,
        cards=len(cards),
        kinds=dict(Counter(card.kind for card in cards)),
        turns=len(places),
        sessions=len({c.session_id for c in cards} | {p.session_id for p in places}),
        first=min(times, key=_instant, default=None),
        last=max(times, key=_instant, default=None),
        known=tuple(cards[offset : offset + limit]),
        said=tuple(map(names.citation, await _citations(store, page))),
        next=offset + limit if more else None,
    )


async def cards_about(store: Store, subject: str, names: Names) -> list[Card]:
    """As they are stored: those of which it is the subject, and those that name it."""
    wanted = [CardFilter(subject=subject), CardFilter(text=subject)]
    if names.include(subject):
        wanted.append(CardFilter(subject=USER))
    found = [card for where in wanted for card in await store.cards(where)]
    return list({(card.session_id, card.id): card for card in found}.values())


def by_kind(cards: Iterable[Card]) -> list[Card]:
    """States first; within a kind the latest first."""
    latest = sorted(cards, key=lambda card: _instant(card.said_at), reverse=True)
    return sorted(latest, key=lambda card: _ORDER.index(card.kind))


async def places_naming(store: Store, subject: str) -> list[Passage]:
    """One passage for each turn that names it, of sessions that are still there."""
    found: dict[tuple[str, int], Passage] = {}
    for passage in await store.mentions(subject):
        found.setdefault((passage.session_id, passage.turn), passage)
    return list(found.values())


async def named_waiting(store: Store, subject: str) -> dict[str, list[int]]:
    """The turns that name it in sessions that wait for their cards, by session. A turn of a
    changed text has the number that it has in the current text, where it is in both."""
    wanted = set(content_stems(subject))
    ids = [record.id for record in await store.sessions() if not record.state.settled]
    current = await store.texts(ids)
    found: dict[str, list[int]] = {}
    for id, newest in (await store.texts(ids, newest=True)).items() if wanted else ():
        known = [turn.text for turn in current[id].turns]
        for number, turn in enumerate(newest.turns, 1):
            if not wanted <= set(content_stems(turn.text)):
                continue
            if turn.text in known:
                found.setdefault(id, []).append(known.index(turn.text) + 1)
            elif number > len(known):
                found.setdefault(id, []).append(number)
    return found


async def _citations(store: Store, page: Sequence[Passage]) -> list[Citation]:
    sessions: dict[str, Session] = {}
    for passage in page:
        if passage.session_id not in sessions:
            sessions |= await store.texts([passage.session_id])
    return [_citation(sessions[passage.session_id], passage) for passage in page]


def _citation(session: Session, passage: Passage) -> Citation:
    turn = session.turn(passage.turn)
    return Citation(
        session_id=session.id,
        turn=passage.turn,
        speaker=turn.speaker,
        said_at=session.said_at(passage.turn),
        quote=turn.text[passage.start : passage.end],
        start=passage.start,
        end=passage.end,
    )


def _instant(at: datetime) -> float:
    """To sort by; a time without a zone counts as UTC, as everywhere."""
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
