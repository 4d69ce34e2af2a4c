"""Resolves a target to cards, turns and sessions, and forgets them.

Recordings of models are cleared first and the store last. After an interruption the target still
exists and can be forgotten again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime

from justmem.domain import (
    NOTE,
    Card,
    Expiring,
    Forgotten,
    Preview,
    SessionRecord,
    corrections_of,
    quote_place,
)
from justmem.errors import InputError, InvalidSession, NotInMemory
from justmem.forget.certificate import Going, Parts, Prover, digest
from justmem.intake.sessions import as_time
from justmem.language import words
from justmem.ports import Language, Place, Store, card_in, session_in
from justmem.runtime.validation import as_flag, as_id, as_text
from justmem.subjects.about import cards_about, named_waiting, places_naming
from justmem.subjects.names import USER, names

_ONE_TARGET = (
    "Say what to forget: one of card=, turn=, session=, subject=, key=, since= or until=, "
    "everything=."
)


@dataclass(frozen=True, slots=True)
class Target:
    """What is to be forgotten: exactly one thing. `turns`: the turns that cards rest on go too;
    by default so for a subject, and not for a card."""

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
            raise InputError("turns= goes with card= or subject=: elsewhere it decides nothing.")
        if self.subject is not None and not self.subject.strip():
            raise InputError("The subject is empty: name whom or what to forget.")

    def __str__(self) -> str:
        """For a certificate: what a subject is called would be words that were to go."""
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


class Forgetting:
    def __init__(
        self,
        store: Store,
        clock: Callable[[], datetime],
        language: Language,
    ) -> None:
        self._store = store
        self._language = language
        self._clock = clock
        self._prover = Prover(store, clock)

    async def preview(self, target: Target) -> Preview:
        going = await self._resolve(target)
        gone = await self._prover.parts(going)
        return Preview(
            forgotten=Forgotten(
                cards=len(gone.cards),
                sessions=len(going.sessions),
                turns=gone.turns,
                quarantined=gone.quarantined,
            ),
            cards=tuple(gone.cards),
            sessions=tuple(going.sessions.values()),
            turns=tuple(f"{id}#{n}" for id, numbers in going.turns.items() for n in numbers),
        )

    async def forget(self, target: Target, *, verify: bool) -> Forgotten:
        going = await self._resolve(target)
        gone = await self._prover.parts(going) if verify else Parts()
        done = await self._store.forget(
            cards=list(going.cards),
            turns=[(id, number) for id, numbers in going.turns.items() for number in numbers],
            sessions=list(going.sessions),
            subjects=going.subjects,
            everything=target.everything,
        )
        words.stem.cache_clear()
        if not verify:
            return done
        certificate = await self._prover.certificate(
            str(target), gone, done, erased=target.everything
        )
        return done.model_copy(update={"certificate": certificate})

    async def expire(self, found: Expiring) -> Forgotten:
        """What is older than allowed."""
        return await self._store.forget(
            cards=[card.id for card in found.cards],
            sessions=[record.id for record in found.sessions],
            words=[record.id for record in found.words],
        )

    # ------------------------------------------------------------ resolve the target

    async def _resolve(self, target: Target) -> Going:
        if target.everything or target.session or target.since or target.until or target.key:
            return Going(sessions={record.id: record for record in await self._sessions(target)})
        if (place := _place(target)) is not None:
            await self._check_turn(place)
            return Going(turns={place[0]: [place[1]]})
        if target.subject is not None:
            return await self._about(target.subject.strip(), turns=target.turns is not False)
        card = await card_in(self._store, target.card or "")
        return Going(
            cards={card.id: card}, turns=await self._turns_of([card]) if target.turns else {}
        )

    async def _about(self, subject: str, *, turns: bool) -> Going:
        """All that `about` finds, and the turns of its cards. The user's name stands for the
        subject "User" too."""
        called = await names(self._store, self._language)
        meant = [subject, USER] if called.include(subject) else [subject]
        cards = await cards_about(self._store, subject, called)
        if not words.content_stems(
            subject
        ):  # a common word such as "Will" is in cards about others
            own = {name.casefold() for name in meant}
            cards = [card for card in cards if card.subject.casefold() in own]
        cards += await self._once_about(subject)
        spoken = (
            await self._with_turns_naming(subject, await self._turns_of(cards)) if turns else {}
        )
        touched = {*spoken, *(card.session_id for card in cards)}
        # A note without its words would be nothing: it goes whole.
        gone = {r.id: r for r in await self._store.sessions() if r.is_note and r.id in touched}
        return Going(
            cards={card.id: card for card in cards if card.session_id not in gone},
            turns={id: numbers for id, numbers in spoken.items() if id not in gone},
            sessions=gone,
            subjects=meant,
        )

    async def _once_about(self, subject: str) -> list[Card]:
        """The cards that named the subject before they were corrected."""
        known = await self._store.corrections()
        named = [c for c in known if subject.casefold() in c.before.text.casefold()]
        ids = {corrections_of(each.original, known)[-1].after.id for each in named}
        return [await card_in(self._store, id) for id in sorted(ids)]

    async def _with_turns_naming(
        self, subject: str, spoken: Mapping[str, list[int]]
    ) -> dict[str, list[int]]:
        """With the turns that name the subject, also those that have no cards yet."""
        numbers = {id: set(turns) for id, turns in spoken.items()}
        for passage in await places_naming(self._store, subject):
            numbers.setdefault(passage.session_id, set()).add(passage.turn)
        for id, turns in (await named_waiting(self._store, subject)).items():
            numbers.setdefault(id, set()).update(turns)
        return {id: sorted(turns) for id, turns in numbers.items() if turns}

    async def _sessions(self, target: Target) -> Sequence[SessionRecord]:
        records = await self._store.sessions()
        if target.everything:
            return records
        if target.key is not None:
            found = [record for record in records if record.id == NOTE + target.key]
            if not found:
                raise NotInMemory(f"There is no note with the key {target.key!r} in this space.")
            return found
        if target.session is not None:
            found = [record for record in records if record.id == target.session]
            if not found:
                raise NotInMemory(f"There is no session {target.session!r} in this space.")
            return found
        since, until = _day(target.since), _day(target.until)
        return [
            record
            for record in records
            if (since is None or record.at.date() >= since)
            and (until is None or record.at.date() <= until)
        ]

    async def _check_turn(self, place: Place) -> None:
        session_id, number = place
        current = await session_in(self._store, session_id)
        newest = (await self._store.texts([session_id], newest=True)).get(session_id, current)
        text = next((text for text in (current, newest) if 1 <= number <= len(text.turns)), None)
        if text is None:
            raise NotInMemory(f"Session {session_id!r} has {len(current.turns)} turns.")
        if text.turn(number).forgotten:
            raise NotInMemory(f"Turn {session_id}#{number} was forgotten before.")

    async def _turns_of(self, cards: Sequence[Card]) -> dict[str, list[int]]:
        """The turns that cards rest on, but for those that are gone already."""
        numbers: dict[str, set[int]] = {}
        for card in cards:
            numbers.setdefault(card.session_id, set()).update(card.turns)
        sessions = await self._store.texts(list(numbers))
        return {
            id: [n for n in sorted(numbers[id]) if n <= len(session.turns) and session.turn(n).text]
            for id, session in sessions.items()
        }


def _place(target: Target) -> Place | None:
    """Of the one turn that is meant; None if it is a card or a subject."""
    named = target.turn if target.turn is not None else target.card
    place = quote_place(named) if named is not None else None
    if target.turn is not None and place is None:
        raise InputError(f"{target.turn!r} does not name a turn: write s12#3, its number last.")
    return place


def _day(value: date | str | None) -> date | None:
    if value is None:
        return None
    try:
        return as_time(value).date()
    except InvalidSession as error:
        raise InputError(f"since= and until= are days, as in 2024-05-20. {error}") from None
