"""Corrections of cards by hand, and pins. They outlast the cards that extraction makes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from justmem.budget import Tally
from justmem.domain import (
    KINDS,
    STATUSES,
    Card,
    Correction,
    EventDate,
    Session,
    card_id,
    corrections_of,
    marks,
)
from justmem.errors import InputError, NotInMemory, StoreBusy
from justmem.intake.redaction import Redaction
from justmem.language.words import content_stems, overlap
from justmem.memory_parts import Parts
from justmem.ports import CardFilter, Store, StoredSession
from justmem.runtime import tokens
from justmem.runtime.validation import as_choice, as_text, clean

_SAME = 0.5  # share of its words that a card of the same turns has, if it states the same again
_LONGEST = 2000  # characters of a fact


async def correct(
    store: Store, parts: Parts, redaction: Redaction, id: str, fields: Mapping[str, object]
) -> Card:
    """The corrected card, which has replaced the one with that id."""
    whole, card = await _card(store, id)
    changes = _changes(fields)
    for name in {"fact", "subject"} & changes.keys():
        changes[name] = await redaction.name(changes[name])
    into = card.model_copy(update=changes)
    into = into.model_copy(update={"id": card_id(card.session_id, into.subject, into.fact)})
    if into == card:
        raise InputError("The correction changes nothing: give a field another value.")
    own = corrections_of(card.id, whole.derived.corrections)
    return await _correct(store, parts, whole, card, into, bool(own and own[-1].pinned))


async def pin(store: Store, parts: Parts, id: str, pinned: bool) -> Card:
    whole, card = await _card(store, id)
    own = corrections_of(card.id, whole.derived.corrections)
    if pinned == bool(own and own[-1].pinned):
        return card
    return await _correct(store, parts, whole, card, card, pinned)


async def undo(store: Store, parts: Parts, id: str) -> Card:
    """Takes the last correction or pin of a card back."""
    whole, card = await _card(store, id)
    before = whole.derived.corrections
    own = corrections_of(card.id, before)
    if not own:
        raise NotInMemory(f"The card {id!r} was never corrected or pinned.")
    into = own[-1].before.model_copy(update={"turns": card.turns, "said_at": card.said_at})
    after = [each for each in before if each is not own[-1]]
    return await _revise(store, parts, whole, card, into, after)


async def _card(store: Store, id: str) -> tuple[StoredSession, Card]:
    """The card, and everything that is stored of its session."""
    found = await store.cards(CardFilter(id=id, limit=1))
    if found and found[0].kind == "note":
        raise InputError(
            "A note cannot be corrected or pinned: store it again with `note` and the same key."
        )
    for whole in await store.read([card.session_id for card in found]):
        for card in whole.derived.cards:
            if card.id == id:
                return whole, card
    if own := corrections_of(id, (await store.look()).corrections):
        raise NotInMemory(f"The card {id!r} was corrected since: it is {own[-1].after.id!r} now.")
    raise NotInMemory(f"There is no card {id!r} in this space. It may have been forgotten.")


async def _correct(
    store: Store, parts: Parts, whole: StoredSession, card: Card, into: Card, pinned: bool
) -> Card:
    before = whole.derived.corrections
    own = corrections_of(card.id, before)
    author = store.author.acting if store.author else None
    assert author is not None, "a memory gives its store an author"
    made = Correction(
        original=own[-1].original if own else card.id,
        before=card,
        after=into,
        marks=tuple(marks.mark(whole.session, number) for number in card.turns),
        at=author.clock(),
        by=author.name,
        pinned=pinned,
    )
    return await _revise(store, parts, whole, card, into, [*before, made])


async def _revise(
    store: Store,
    parts: Parts,
    whole: StoredSession,
    card: Card,
    into: Card,
    after: Sequence[Correction],
) -> Card:
    made = whole.derived
    own = {card.id}.union(*(each.ids for each in corrections_of(card.id, made.corrections)))
    if any(into.id in each.ids for each in made.corrections if not own & each.ids):
        raise InputError("Another card of the session had these words: use other words.")
    others = {each.id for each in made.cards if each is not card}
    if into.id in others.union((await store.metadata()).forgotten):
        raise InputError("The session has, or had, another card with these words: use other words.")
    place = made.cards.index(card)
    cards, vectors = [*made.cards], made.card_vectors.copy()
    cards[place] = into
    if len(vectors):
        (vectors[place],) = await Tally().embed(
            parts.embedder, [parts.language.search_text(into.dated)]
        )
    changed = replace(
        made,
        cards=cards,
        card_vectors=vectors,
        corrections=after,
        card_tokens=tokens.count("\n".join(each.text for each in cards)),
    )
    if not await store.settle(whole, changed):
        raise StoreBusy(f"Session {whole.session.id!r} was changed at the same time: try again.")
    return into


def _changes(fields: Mapping[str, object]) -> dict[str, Any]:
    """The fields that are given, checked."""
    given: dict[str, Any] = {name: value for name, value in fields.items() if value is not None}
    if not given:
        raise InputError("Say what to correct: fact, subject, event_date, status or kind.")
    for name in ("fact", "subject"):
        if name in given:
            given[name] = clean(as_text(given[name], name)).strip()
            if not 1 <= len(given[name]) <= _LONGEST:
                raise InputError(f"The {name} must have 1 to {_LONGEST:,} characters.")
    if "status" in given:
        as_choice(given["status"], "status", STATUSES)
    if "kind" in given:
        as_choice(given["kind"], "kind", tuple(kind for kind in KINDS if kind != "note"))
    if "event_date" in given:
        try:
            given["event_date"] = EventDate.parse(str(given["event_date"]))
        except ValueError as error:
            raise InputError(f"event_date: {error}. Or write unknown.") from None
    return given


def applied(
    cards: Sequence[Card], corrections: Sequence[Correction], session: Session
) -> list[Card]:
    """The cards of a session as they were corrected: extraction repeats its errors."""
    found = list(cards)
    for original in dict.fromkeys(each.original for each in corrections):
        own = corrections_of(original, corrections)
        turns = sorted(marks.find_marked(session, own[-1].marks))
        wrong = _stated_again(found, own, turns)
        if not (turns or wrong):
            continue  # what it was about is gone
        place = found.index(wrong[0]) if wrong else len(found)
        after = own[-1].after.model_copy(
            update={
                "turns": tuple(turns) or wrong[0].turns,
                "said_at": wrong[0].said_at if wrong else own[-1].after.said_at,
            }
        )
        found.insert(place, after)
        found = [card for card in found if card is after or card not in wrong]
    return found


def _stated_again(
    cards: Sequence[Card], own: Sequence[Correction], turns: Sequence[int]
) -> list[Card]:
    """The versions of a corrected card among the cards. Else the card of the same turns that has
    most of its words; where the turns were changed, a card that has all of them."""
    ids = set().union(*(each.ids for each in own))
    if same := [card for card in cards if card.id in ids]:
        return same
    stems = content_stems(own[0].before.fact)
    near = [card for card in cards if not turns or not set(turns).isdisjoint(card.turns)]
    shared = {card.id: overlap(stems, content_stems(card.fact)) for card in near}
    best = max(near, key=lambda card: shared[card.id], default=None)
    return [best] if best is not None and shared[best.id] >= (_SAME if turns else 1) else []
