"""Forgetting: what a target means, the preview, the erasure with its certificate, and expiry."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import PurePath
from typing import Any

from justmem.domain import (
    NOTE,
    Card,
    Certificate,
    Forgotten,
    Preview,
    Retention,
    SessionRecord,
    corrections_of,
    quote_place,
)
from justmem.errors import InputError, InvalidSession, NotForgotten, NotInMemory
from justmem.intake.sessions import as_time
from justmem.language import words
from justmem.ports import CardFilter, Language, Place, Removed, Store, card_in
from justmem.runtime.validation import as_flag, as_id, as_text
from justmem.subjects.about import cards_about, named_waiting, places_naming
from justmem.subjects.user_name import USER, read_names

_ATTEMPTS = 3  # at expiry, while others forget the same


@dataclass(frozen=True, slots=True)
class Target:
    """What to forget."""

    kind: str
    name: str = ""  # an id, a subject, or the key of a note
    since: date | None = None
    until: date | None = None
    turns: bool | None = None  # also the turns of its cards; None: those of a subject, not a card's

    def __str__(self) -> str:
        """As a certificate shows it. The name of a subject is forgotten: a hash stands for it."""
        if self.kind == "period":
            return f"period {self.since or ''}/{self.until or ''}"
        name = digest(self.name) if self.kind == "subject" else self.name
        return f"{self.kind} {name}".rstrip()


def as_target(
    *,
    card: str | None = None,
    turn: str | None = None,
    session: str | None = None,
    subject: str | None = None,
    since: date | str | None = None,
    until: date | str | None = None,
    everything: bool = False,
    turns: bool | None = None,
    key: str | None = None,
) -> Target:
    """The target that the arguments of `forget` name."""
    given = {
        "card": card,
        "turn": turn,
        "session": session,
        "subject": subject,
        "note": key,
        "period": until if since is None else since,
        "everything": as_flag(everything, "everything") or None,
    }
    named = [(kind, name) for kind, name in given.items() if name is not None]
    if len(named) != 1:
        raise InputError(
            "Say what to forget: one of card, turn, session, subject, key, a period (since, "
            "until), or everything."
        )
    ((kind, name),) = named
    if turns is not None:
        as_flag(turns, "turns")
        if kind not in ("card", "subject"):
            raise InputError("turns= can only be used with card= or subject=.")
    match kind:
        case "card" | "turn" | "session":
            return Target(kind, as_id(name, kind), turns=turns)
        case "note":
            return Target(kind, as_text(name, "key"))
        case "subject":
            subject = as_text(name, "subject").strip()
            if not subject:
                raise InputError("The subject is empty: name a person or a thing.")
            return Target(kind, subject, turns=turns)
    return Target(kind, since=_day(since), until=_day(until))


class Forgetting:
    def __init__(self, store: Store, clock: Callable[[], datetime], language: Language) -> None:
        self._store = store
        self._clock = clock
        self._language = language

    async def preview(self, target: Target) -> Preview:
        what = await self._resolve(target)
        removed = await self._store.forget(**what, dry_run=True)
        whole = set(what.get("sessions", ()))
        return Preview(
            forgotten=removed.forgotten,
            cards=tuple(removed.cards),
            sessions=tuple(each for each in await self._store.sessions() if each.id in whole),
            turns=tuple(f"{id}#{number}" for id, number in what.get("turns", ())),
        )

    async def forget(self, target: Target, *, verify: bool) -> Forgotten:
        """`verify`: adds a certificate. NotForgotten if anything is left."""
        what = await self._resolve(target)
        removed = await self._store.forget(**what, dry_run=True) if verify else None
        done = (await self._store.forget(**what)).forgotten
        words.stem.cache_clear()
        if removed is None:
            return done
        certificate = await self._certificate(target, removed, done)
        return done.model_copy(update={"certificate": certificate})

    async def _certificate(self, target: Target, removed: Removed, done: Forgotten) -> Certificate:
        texts = [*removed.texts, *(f"{subject} {fact}" for subject, fact in removed.facts)]
        # A store keeps subject and fact apart. Extractors write them with a bar.
        forms = [form for s, fact in removed.facts for form in (fact, f"{s} | {fact}")]
        searched = await self._store.remains([*texts, *forms], removed.vectors)
        if searched.remains:
            raise NotForgotten(
                "It is forgotten, but its words or vectors are still found in "
                f"{', '.join(searched.remains)}: remove them there."
            )
        held = {digest(texts[n]): where for n, where in searched.held.items() if n < len(texts)}
        return Certificate(
            space=self._store.space,
            target=str(target),
            at=self._clock(),
            **done.model_dump(include={"cards", "sessions", "turns", "quarantined"}),
            vectors=sum(map(len, removed.vectors)),
            digests=tuple(sorted({digest(text) for text in texts})),
            held=held,
            # Without their folders: a certificate may leave this machine.
            files=tuple(PurePath(file).name for file in searched.files),
            unsearched=tuple(PurePath(file).name for file in searched.unsearched),
            tables=searched.tables,
            bytes=searched.bytes,
        )

    # ------------------------------------------------------------ resolve the target

    async def _resolve(self, target: Target) -> dict[str, Any]:
        """The arguments of `Store.forget`."""
        name = target.name
        match target.kind:
            case "everything" | "period" | "session" | "note":
                found = [r.id for r in await self._store.sessions() if _includes(target, r)]
                if not found and target.kind in ("session", "note"):
                    shown = "note with the key" if target.kind == "note" else "session"
                    raise NotInMemory(f"There is no {shown} {name!r} in this space.")
                return {"sessions": found, "everything": target.kind == "everything"}
            case "subject":
                return await self._about(name, turns=target.turns is not False)
        if (place := quote_place(name)) is not None:
            return {"turns": [place]}
        if target.kind == "turn":
            raise InputError(
                f"{name!r} does not name a turn: write the session's id and the turn's number, "
                "such as s12#3."
            )
        card = await card_in(self._store, name)
        return {
            "cards": [card.id],
            "turns": _places(await self._turns_of([card])) if target.turns else [],
        }

    async def _about(self, subject: str, *, turns: bool) -> dict[str, Any]:
        """All that `about` finds, and the turns of its cards. The user's name stands for the
        subject "User" too."""
        called = await read_names(self._store, self._language)
        meant = [subject, USER] if called.include(subject) else [subject]
        cards = await cards_about(self._store, subject, called)
        if not words.content_stems(subject):
            # A common word such as "Will" is in cards about others too.
            own = {name.casefold() for name in meant}
            cards = [card for card in cards if card.subject.casefold() in own]
        cards += await self._once_about(subject)
        numbers = await self._turns_naming(subject, cards) if turns else {}
        touched = {*numbers, *(card.session_id for card in cards)}
        # A note without its words would be empty: forget it whole.
        notes = [r.id for r in await self._store.sessions() if r.is_note and r.id in touched]
        return {
            "cards": list(dict.fromkeys(c.id for c in cards if c.session_id not in notes)),
            "turns": _places({id: own for id, own in numbers.items() if id not in notes}),
            "sessions": notes,
            "subjects": meant,
        }

    async def _once_about(self, subject: str) -> list[Card]:
        """The cards that named the subject before they were corrected."""
        known = (await self._store.look()).corrections
        named = [c for c in known if subject.casefold() in c.before.text.casefold()]
        ids = {corrections_of(each.original, known)[-1].after.id for each in named}
        return [c for id in sorted(ids) for c in await self._store.cards(CardFilter(id=id))]

    async def _turns_naming(self, subject: str, cards: Sequence[Card]) -> dict[str, set[int]]:
        """The turns of the cards, and all turns that name the subject, with or without cards."""
        numbers = await self._turns_of(cards)
        for passage in await places_naming(self._store, subject):
            numbers.setdefault(passage.session_id, set()).add(passage.turn)
        for id, turns in (await named_waiting(self._store, subject)).items():
            numbers.setdefault(id, set()).update(turns)
        return numbers

    async def _turns_of(self, cards: Sequence[Card]) -> dict[str, set[int]]:
        """The turns that cards rest on, except for forgotten ones."""
        numbers: dict[str, set[int]] = {}
        for card in cards:
            numbers.setdefault(card.session_id, set()).update(card.turns)
        sessions = await self._store.texts(list(numbers))
        return {
            id: {n for n in numbers[id] if n <= len(session.turns) and session.turn(n).text}
            for id, session in sessions.items()
        }

    # ------------------------------------------------------------ expiry

    async def expiring(self, retention: Retention, at: datetime) -> Preview:
        """Sessions that are too old, and the words of others that have their cards."""
        records = await self._store.sessions()
        old = [record for record in records if retention.expired(record.at, at, record.until)]
        words = [
            record
            for record in records
            if record not in old
            and record.state.settled
            and record.tokens  # its words are still there
            and not record.is_note  # its words are the memory itself
            and retention.words_expired(record.at, at)
        ]
        forgotten = Forgotten(
            cards=sum(record.cards for record in old),
            sessions=len(old),
            turns=sum(record.turns for record in (*old, *words)),
        )
        return Preview(forgotten=forgotten, sessions=tuple(old), words=tuple(words))

    async def expire(self, retention: Retention, at: datetime) -> Forgotten:
        """Forgets what is older than the retention allows."""
        for left in range(_ATTEMPTS - 1, -1, -1):
            found = await self.expiring(retention, at)
            if not found.sessions and not found.words:
                break
            try:
                removed = await self._store.forget(
                    sessions=[record.id for record in found.sessions],
                    words=[record.id for record in found.words],
                )
                return removed.forgotten
            except NotInMemory:  # some of it was forgotten or replaced meanwhile
                if not left:
                    raise
        return Forgotten()


def _includes(target: Target, record: SessionRecord) -> bool:
    if target.kind in ("session", "note"):
        return record.id == (NOTE if target.kind == "note" else "") + target.name
    day = record.at.date()
    return (target.since or day) <= day <= (target.until or day)


def digest(text: str) -> str:
    """The SHA-256 of a text, as certificates show it."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _places(numbers: Mapping[str, set[int]]) -> list[Place]:
    return [(id, number) for id, turns in numbers.items() for number in sorted(turns)]


def _day(value: date | str | None) -> date | None:
    try:
        return None if value is None else as_time(value).date()
    except InvalidSession as error:
        raise InputError(f"since= and until= must be days, such as 2024-05-20. {error}") from None
