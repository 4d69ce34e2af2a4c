"""Resolves a target to cards, turns and sessions, previews and forgets them, and certifies that
nothing of them is left."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import PurePath
from typing import Any

from justmem.domain import (
    NOTE,
    Card,
    Certificate,
    Expiring,
    Forgotten,
    Preview,
    SessionRecord,
    corrections_of,
    quote_place,
)
from justmem.errors import InputError, InvalidSession, NotForgotten, NotInMemory
from justmem.intake.sessions import as_time
from justmem.language import words
from justmem.ports import Language, Place, Removed, Store, card_in
from justmem.runtime.validation import as_flag, as_id, as_text
from justmem.subjects.about import cards_about, named_waiting, places_naming
from justmem.subjects.user_name import USER, read_names

_ONE_TARGET = (
    "Say what to forget: one of card, turn, session, subject, key, a period (since, until), or "
    "everything."
)


@dataclass(frozen=True, slots=True)
class Target:
    """What to forget: exactly one thing. `turns`: also forget the turns that its cards rest on.
    The default is yes for a subject and no for a card."""

    card: str | None = None
    turn: str | None = None
    session: str | None = None
    subject: str | None = None
    since: date | str | None = None
    until: date | str | None = None
    everything: bool = False
    turns: bool | None = None
    key: str | None = None  # of a note

    def __post_init__(self) -> None:
        if self.key is not None:
            as_text(self.key, "key")
        for kind in ("card", "turn", "session"):
            if (id := getattr(self, kind)) is not None:
                object.__setattr__(self, kind, as_id(id, kind))
        if self.subject is not None:
            object.__setattr__(self, "subject", as_text(self.subject, "subject"))
        as_flag(self.everything, "everything")
        if self.turns is not None:
            as_flag(self.turns, "turns")
        since = self.until if self.since is None else self.since
        named = [self.card, self.turn, self.session, self.subject, since, self.key]
        if sum(each is not None for each in named) + self.everything != 1:
            raise InputError(_ONE_TARGET)
        if self.turns is not None and self.card is None and self.subject is None:
            raise InputError("turns= can only be used with card= or subject=.")
        if self.subject is not None and not self.subject.strip():
            raise InputError("The subject is empty: name a person or a thing.")

    def __str__(self) -> str:
        """As a certificate shows it. The name of a subject is forgotten: a hash stands for it."""
        if self.subject is not None:
            return f"subject {digest(self.subject)}"
        if self.since or self.until:
            return f"period {_day(self.since) or ''}/{_day(self.until) or ''}"
        named = (
            ("card", self.card),
            ("turn", self.turn),
            ("session", self.session),
            ("note", self.key),
        )
        return next((f"{kind} {name}" for kind, name in named if name is not None), "everything")


@dataclass(frozen=True, slots=True)
class _Chosen:
    """What a target means, in the terms of the store."""

    cards: Sequence[str] = ()
    turns: Sequence[Place] = ()
    sessions: Sequence[SessionRecord] = ()
    subjects: Sequence[str] = ()

    def arguments(self, target: Target) -> dict[str, Any]:
        """Of `Store.forget` and `Store.preview`."""
        return {
            "cards": self.cards,
            "turns": self.turns,
            "sessions": [record.id for record in self.sessions],
            "subjects": self.subjects,
            "everything": target.everything,
        }


class Forgetting:
    def __init__(self, store: Store, clock: Callable[[], datetime], language: Language) -> None:
        self._store = store
        self._clock = clock
        self._language = language

    async def preview(self, target: Target) -> Preview:
        chosen = await self._resolve(target)
        removed = await self._store.preview(**chosen.arguments(target))
        return Preview(
            forgotten=removed.forgotten,
            cards=tuple(removed.cards),
            sessions=tuple(chosen.sessions),
            turns=tuple(f"{id}#{number}" for id, number in chosen.turns),
        )

    async def forget(self, target: Target, *, verify: bool) -> Forgotten:
        """`verify`: adds a certificate. NotForgotten if anything is left."""
        what = (await self._resolve(target)).arguments(target)
        removed = await self._store.preview(**what) if verify else None
        done = await self._store.forget(**what)
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

    async def expire(self, found: Expiring) -> Forgotten:
        """Forgets what is older than the retention allows."""
        return await self._store.forget(
            cards=[card.id for card in found.cards],
            sessions=[record.id for record in found.sessions],
            words=[record.id for record in found.words],
        )

    # ------------------------------------------------------------ resolve the target

    async def _resolve(self, target: Target) -> _Chosen:
        if target.everything or target.session or target.since or target.until or target.key:
            return _Chosen(sessions=await self._sessions(target))
        if (place := _place(target)) is not None:
            return _Chosen(turns=[place])
        if target.subject is not None:
            return await self._about(target.subject.strip(), turns=target.turns is not False)
        card = await card_in(self._store, target.card or "")
        return _Chosen([card.id], _places(await self._turns_of([card])) if target.turns else [])

    async def _about(self, subject: str, *, turns: bool) -> _Chosen:
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
        notes = [r for r in await self._store.sessions() if r.is_note and r.id in touched]
        gone = {record.id for record in notes}
        return _Chosen(
            list(dict.fromkeys(card.id for card in cards if card.session_id not in gone)),
            _places({id: own for id, own in numbers.items() if id not in gone}),
            notes,
            meant,
        )

    async def _once_about(self, subject: str) -> list[Card]:
        """The cards that named the subject before they were corrected."""
        known = await self._store.corrections()
        named = [c for c in known if subject.casefold() in c.before.text.casefold()]
        ids = {corrections_of(each.original, known)[-1].after.id for each in named}
        return [await card_in(self._store, id) for id in sorted(ids)]

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

    async def _sessions(self, target: Target) -> Sequence[SessionRecord]:
        records = await self._store.sessions()
        if target.key is not None or target.session is not None:
            wanted = target.session if target.key is None else NOTE + target.key
            found = [record for record in records if record.id == wanted]
            if not found:
                missing = (
                    f"note with the key {target.key!r}" if target.key else f"session {wanted!r}"
                )
                raise NotInMemory(f"There is no {missing} in this space.")
            return found
        since, until = _day(target.since), _day(target.until)
        return [
            record
            for record in records
            if (since is None or record.at.date() >= since)
            and (until is None or record.at.date() <= until)
        ]


def digest(text: str) -> str:
    """The SHA-256 of a text, as certificates show it."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _places(numbers: Mapping[str, Iterable[int]]) -> list[Place]:
    return [(id, number) for id, turns in numbers.items() for number in sorted(turns)]


def _place(target: Target) -> Place | None:
    """The turn that the target names; None for a card or a subject."""
    named = target.turn if target.turn is not None else target.card
    place = quote_place(named) if named is not None else None
    if target.turn is not None and place is None:
        raise InputError(
            f"{target.turn!r} does not name a turn: write the session's id and the turn's number, "
            "such as s12#3."
        )
    return place


def _day(value: date | str | None) -> date | None:
    if value is None:
        return None
    try:
        return as_time(value).date()
    except InvalidSession as error:
        raise InputError(f"since= and until= must be days, such as 2024-05-20. {error}") from None
