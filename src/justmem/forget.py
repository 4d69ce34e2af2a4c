"""Forgetting: what a target means, the preview, the erasure with its certificate, and expiry."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import PurePath
from typing import Any

from justmem.domain import (
    NOTE,
    Card,
    Certificate,
    Forgotten,
    Preview,
    Retention,
    corrections_of,
    quote_place,
)
from justmem.edits.notes import no_note
from justmem.errors import InputError, NotForgotten, NotInMemory
from justmem.intake.sessions import as_day
from justmem.language import words
from justmem.ports import CardFilter, Language, Place, Removed, Store, card_in, session_in, texts_of
from justmem.runtime.validation import as_flag, as_id, as_text, describe
from justmem.subjects.about import as_subject, cards_about, named_waiting, places_naming
from justmem.subjects.user_name import USER, read_names

_NAMED = ("card", "turn", "session", "subject", "key")
_ATTEMPTS = 3  # at expiry, while others forget the same
_AT_ONCE = 500  # sessions that are read
Found = dict[str, Any]  # the arguments of `Store.forget`


@dataclass(frozen=True, slots=True)
class Target:
    """What to forget: one of card, turn, session, subject, key, a period, or everything. `turns`:
    also the turns of the cards; None: those of a subject, not those of a card."""

    card: str | None = None
    turn: str | None = None
    session: str | None = None
    subject: str | None = None
    key: str | None = None
    since: date | str | None = None
    until: date | str | None = None
    everything: bool = False
    turns: bool | None = None

    @property
    def kind(self) -> str:
        period = self.since is not None or self.until is not None
        given = {"period": period, "everything": as_flag(self.everything, "everything")}
        kinds = [kind for kind in _NAMED if getattr(self, kind) is not None]
        kinds += [kind for kind, is_given in given.items() if is_given]
        if len(kinds) != 1:
            raise InputError(
                "Say what to forget: one of card, turn, session, subject, key, a period (since, "
                "until), or everything."
            )
        if self.turns is not None and kinds[0] not in ("card", "subject"):
            raise InputError("turns= can only be used with card= or subject=.")
        return kinds[0]


async def _find(store: Store, language: Language, target: Target) -> tuple[str, Found]:
    """The target's name for the certificate, and what there is to forget."""
    kind = target.kind
    turns = None if target.turns is None else as_flag(target.turns, "turns")
    if kind == "subject":
        subject = as_subject(as_text(target.subject, "subject"))
        # The name is forgotten: a hash stands for it.
        found = await _about(store, language, subject, turns=turns is not False)
        return f"subject {digest(subject)}", found
    if kind == "everything":
        return kind, {"sessions": [r.id for r in await store.sessions()], "everything": True}
    if kind == "period":
        first, last = as_day(target.since, "since"), as_day(target.until, "until")
        if first and last and last < first:
            raise InputError(f"until ({last}) is before since ({first}).")
        ids = [record.id for record in await store.sessions()]
        found = await _said_between(store, ids, first or date.min, last or date.max)
        return f"period {first or ''}/{last or ''}", found
    if kind == "key":
        key = as_text(target.key, "key")
        if not await texts_of(store, [NOTE + key]):
            raise no_note(key)
        return f"note {key}", {"sessions": [NOTE + key]}
    id = as_id(getattr(target, kind), kind)
    if kind == "session":
        await session_in(store, id)
        return f"session {id}", {"sessions": [id]}
    if (place := quote_place(id)) is not None:
        return f"{kind} {id}", {"turns": [place]}
    if kind == "turn":
        raise InputError(
            f"{id!r} does not name a turn: write the session's id and the turn's number, such as "
            "s12#3."
        )
    cards = [await card_in(store, id)]
    return f"card {id}", {"cards": [id], "turns": await _turns_of(store, cards) if turns else []}


async def _about(store: Store, language: Language, subject: str, *, turns: bool) -> Found:
    """All that `about` finds, and with `turns` the turns of its cards, and all turns and labels
    that name it. The user's name stands for the subject "User" too."""
    names = await read_names(store, language)
    meant = [subject, USER] if names.include(subject) else [subject]
    cards = await cards_about(store, subject, names)
    if not words.content_stems(subject):
        # A common word such as "Will" is in cards about others too.
        own = {name.casefold() for name in meant}
        cards = [card for card in cards if card.subject.casefold() in own]
    cards += await _once_about(store, subject)
    places: set[Place] = set()
    if turns:
        places.update(await _turns_of(store, cards))
        places.update((each.session_id, each.turn) for each in await places_naming(store, subject))
        places.update(await named_waiting(store, subject))
    touched = {id for id, _ in places} | {card.session_id for card in cards}
    # A note without its words would be empty: forget it whole.
    notes = [r.id for r in await store.sessions() if r.is_note and r.id in touched]
    labels = await _labels_naming(store, subject) if turns else []
    return {
        "cards": list(dict.fromkeys(c.id for c in cards if c.session_id not in notes)),
        "turns": sorted((id, number) for id, number in places if id not in notes),
        "sessions": notes,
        "subjects": meant,
        "labels": [(id, name) for id, name in labels if id not in notes],
    }


async def _labels_naming(store: Store, subject: str) -> list[tuple[str, str]]:
    """Session and name of each label whose value names the subject. A common word, such as "Will",
    must be the whole value."""
    stems = set(words.content_stems(subject))

    def names_it(value: str) -> bool:
        if not stems:
            return value.strip().casefold() == subject.casefold()
        return stems <= set(words.content_stems(value))

    return [
        (record.id, name)
        for record in await store.sessions()
        for name, value in record.labels.items()
        if names_it(value)
    ]


async def _said_between(store: Store, ids: Sequence[str], first: date, last: date) -> Found:
    """The sessions that took place in these days, and what was said then in others: their turns,
    and their cards whose turns were forgotten before."""
    sessions: list[str] = []
    turns: list[Place] = []
    cards: list[str] = []
    for start in range(0, len(ids), _AT_ONCE):
        for id, session in (await texts_of(store, ids[start : start + _AT_ONCE])).items():
            numbers = range(1, len(session.turns) + 1)
            said = [n for n in numbers if first <= session.said_at(n).date() <= last]
            if len(said) == len(numbers):
                sessions.append(id)
            else:
                kept = [n for n in said if not session.turn(n).forgotten]
                turns += [(id, n) for n in kept]
                if len(kept) < len(said):
                    made = await store.cards(CardFilter(session_id=id))
                    alone = set(said).difference(kept)
                    cards += [card.id for card in made if alone.issuperset(card.turns)]
    return {"sessions": sessions, "turns": turns, "cards": cards}


async def _once_about(store: Store, subject: str) -> list[Card]:
    """The cards that named the subject before they were corrected."""
    known = (await store.look()).corrections
    named = [c for c in known if subject.casefold() in c.before.text.casefold()]
    ids = {corrections_of(each.original, known)[-1].after.id for each in named}
    return [card for id in sorted(ids) for card in await store.cards(CardFilter(id=id))]


async def _turns_of(store: Store, cards: Sequence[Card]) -> list[Place]:
    """The turns that cards rest on, except for forgotten ones."""
    sessions = await texts_of(store, list({card.session_id for card in cards}))
    places = {(card.session_id, number) for card in cards for number in card.turns}
    return sorted(
        (id, number)
        for id, number in places
        if id in sessions
        and number <= len(sessions[id].turns)
        and not sessions[id].turn(number).forgotten
    )


# ---------------------------------------------------------------- preview and erasure


async def preview(store: Store, language: Language, target: Target) -> Preview:
    _, found = await _find(store, language, target)
    removed = await store.forget(**found, dry_run=True)
    _check_matched(target, removed)
    records = {record.id: record for record in await store.sessions()}
    whole = set(found.get("sessions", ()))
    return Preview(
        forgotten=removed.forgotten,
        cards=tuple(removed.cards),
        sessions=tuple(record for id, record in records.items() if id in whole),
        turns=tuple(f"{id}#{number}" for id, number in found.get("turns", ())),
        labels=tuple(
            f"{id}: {name}={records[id].labels[name]}" for id, name in found.get("labels", ())
        ),
    )


async def forget(
    store: Store, language: Language, target: Target, at: datetime, *, verify: bool
) -> Forgotten:
    """`verify`: with a certificate for this target. NotForgotten if anything is left."""
    name, found = await _find(store, language, target)
    before = await store.forget(**found, dry_run=True) if verify else None
    removed = await store.forget(**found)
    _check_matched(target, removed)
    words.stem.cache_clear()
    if before is None:
        return removed.forgotten
    proof = await _certificate(store, name, before, removed.forgotten, at)
    return removed.forgotten.model_copy(update={"certificate": proof})


def _check_matched(target: Target, removed: Removed) -> None:
    """A subject or a period may match nothing. Other targets are looked up by their id."""
    gone = removed.forgotten
    if gone.cards or gone.sessions or gone.turns or gone.quarantined or gone.labels:
        return
    if removed.facts:  # corrections of cards that wait to be made again
        return
    if target.kind == "subject":
        raise NotInMemory(f"Memory holds nothing about {describe(target.subject)}.")
    if target.kind == "period":
        raise NotInMemory("Memory holds nothing that was said in this period.")


async def _certificate(
    store: Store, name: str, removed: Removed, done: Forgotten, at: datetime
) -> Certificate:
    texts = [*removed.texts, *(f"{subject} {fact}" for subject, fact in removed.facts)]
    # A store keeps subject and fact apart. Extractors write them with a bar.
    forms = [form for s, fact in removed.facts for form in (fact, f"{s} | {fact}")]
    searched = await store.remains([*texts, *forms], removed.vectors)
    if searched.remains:
        raise NotForgotten(
            "It is forgotten, but its words or vectors are still found in "
            f"{', '.join(searched.remains)}: remove them there."
        )
    return Certificate(
        space=store.space,
        target=name,
        at=at,
        **done.model_dump(include={"cards", "sessions", "turns", "quarantined", "labels"}),
        vectors=sum(map(len, removed.vectors)),
        digests=tuple(sorted({digest(text) for text in texts})),
        held={digest(texts[n]): where for n, where in searched.held.items() if n < len(texts)},
        files=_file_names(searched.files),
        unsearched=_file_names(searched.unsearched),
        tables=searched.tables,
        bytes=searched.bytes,
    )


def _file_names(paths: Iterable[str]) -> tuple[str, ...]:
    """Without their folders: a certificate may leave this machine."""
    return tuple(PurePath(path).name for path in paths)


def digest(text: str) -> str:
    """The SHA-256 of a text, as certificates show it."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


# ---------------------------------------------------------------- expiry


async def expiring(store: Store, retention: Retention, at: datetime) -> Preview:
    """What `expire` would forget."""
    found = await _expired(store, retention, at)
    gone = Forgotten()
    if any(found.values()):
        gone = (await store.forget(**found, dry_run=True)).forgotten
    records = {record.id: record for record in await store.sessions()}
    return Preview(
        forgotten=gone,
        sessions=tuple(records[id] for id in found["sessions"] if id in records),
        turns=tuple(f"{id}#{number}" for id, number in found["turns"]),
        words=tuple(records[id] for id in found["words"] if id in records),
    )


async def _expired(store: Store, retention: Retention, at: datetime) -> Found:
    """Sessions that are too old, what is too old in sessions that went on, and the words of others
    that have their cards."""
    records = await store.sessions()
    first = retention.first_day(at)
    early = set[str]() if first == date.min else set(await store.said_before(first))
    old = [
        record
        for record in records
        if record.id in early or retention.expired(record.at, at, record.until)
    ]
    notes = [record.id for record in old if record.is_note]
    ids = [record.id for record in old if not record.is_note]
    last = first - timedelta(days=1) if ids else date.max
    found = await _said_between(store, ids, date.min, last)
    taken = {*notes, *found["sessions"], *(id for id, _ in found["turns"])}
    words = [
        record.id
        for record in records
        if record.id not in taken
        and record.state.finished
        and record.tokens  # its words are still there
        and not record.is_note  # its words are the memory itself
        and retention.words_expired(record.at, at)
    ]
    return {**found, "sessions": [*notes, *found["sessions"]], "words": words}


async def expire(store: Store, retention: Retention, at: datetime) -> Forgotten:
    """Forgets what is older than the retention allows."""
    for left in range(_ATTEMPTS - 1, -1, -1):
        found = await _expired(store, retention, at)
        if not any(found.values()):
            break
        try:
            return (await store.forget(**found)).forgotten
        except NotInMemory:  # some of it was forgotten or replaced meanwhile
            if not left:
                raise
    return Forgotten()
