"""What was said: sessions and their turns."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import Any, Literal, get_args

from pydantic import Field

from justmem.domain.cards import SAID, UNKNOWN_DATE, Card, Value

Role = Literal["user", "assistant", "system", "tool"]
ROLES: tuple[Role, ...] = get_args(Role)


class Turn(Value):
    """One utterance. A forgotten turn keeps its number and its speaker, but has no words."""

    speaker: str
    role: Role = "user"
    text: str
    at: datetime | None = None
    key: str | None = Field(None, repr=False)  # the caller's own: `append` drops duplicates by it
    forgotten: bool = False


NOTE = "note:"  # how the id of a note begins; its key follows


class Session(Value):
    """A dated conversation. `at` is when it took place, never when it was stored."""

    id: str
    at: datetime
    turns: tuple[Turn, ...]
    labels: Mapping[str, str] = Field(default_factory=dict)  # the caller's own, to filter by
    until: datetime | None = None  # of a note: when it expires

    @property
    def is_note(self) -> bool:
        return self.id.startswith(NOTE)

    @cached_property
    def digest(self) -> str:
        """A hash of the words, speakers and times."""
        said = [(t.speaker, t.role, t.text, t.at.isoformat() if t.at else None) for t in self.turns]
        parts: list[Any] = [self.at.isoformat(), said]
        if self.until is not None:
            parts.append(self.until.isoformat())
        canonical = json.dumps(parts, ensure_ascii=True)
        return hashlib.sha256(canonical.encode()).hexdigest()

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Session:
        """Pydantic's copy takes along what was computed of the original."""
        copied = super().model_copy(update=update, deep=deep)
        copied.__dict__.pop("digest", None)
        return copied

    def turn(self, number: int) -> Turn:
        return self.turns[number - 1]

    def said_at(self, number: int) -> datetime:
        """When a turn was said. A turn without a time of its own has that of the session."""
        return self.turn(number).at or self.at

    @property
    def user_side(self) -> tuple[tuple[int, Turn], ...]:
        """The numbered turns that cards are made from. In a chat between people: all turns."""
        return tuple(
            (n, t) for n, t in enumerate(self.turns, 1) if t.role == "user" and not t.forgotten
        )

    def grown_from(self, old: Session) -> int:
        """How many turns `old` has, if this session is `old` with more turns at its end; else 0."""
        count = len(old.turns)
        if old.at != self.at or count >= len(self.turns):
            return 0
        start = self.model_copy(update={"turns": self.turns[:count]})
        return count if start.digest == old.digest else 0

    def without(self, numbers: Collection[int]) -> Session:
        """The same session with these turns forgotten. The others keep their numbers."""
        gone = {"text": "", "forgotten": True}
        turns = (
            turn.model_copy(update=gone) if number in numbers else turn
            for number, turn in enumerate(self.turns, 1)
        )
        return self.model_copy(update={"turns": tuple(turns)}) if numbers else self


class SessionState(StrEnum):
    PENDING = "pending"  # raw turns kept, cards not made yet
    STORED = "stored"  # cards made
    EMPTY = "empty"  # there was nothing to make cards from
    FAILED = "failed"  # cards could not be made; `reason` says why

    @property
    def settled(self) -> bool:
        """Whether there is nothing left to do for it."""
        return self in (SessionState.STORED, SessionState.EMPTY)


class SessionRecord(Value):
    """What the store knows of a session, without its words."""

    id: str
    at: datetime
    digest: str
    state: SessionState
    reason: str = ""
    turns: int
    cards: int = 0
    quarantined: int = 0
    tokens: int = 0
    labels: Mapping[str, str] = Field(default_factory=dict)
    until: datetime | None = None

    @property
    def is_note(self) -> bool:
        return self.id.startswith(NOTE)


# ---------------------------------------------------------------- quotes

_LONGEST_QUOTE = 300  # characters


def turn_as_card(session: Session, number: int) -> Card:
    """A turn as a card. Discovery makes one for a turn without a card. It is never stored. Its id
    names the turn, such as `s12#3`."""
    turn = session.turn(number)
    return Card.trusted(
        id=f"{session.id}#{number}",
        subject=turn.speaker,
        fact=f"{SAID}{' '.join(turn.text.split())[:_LONGEST_QUOTE]}",
        event_date=UNKNOWN_DATE,
        kind="interaction",
        status="completed",
        session_id=session.id,
        said_at=session.said_at(number),
        turns=(number,),
        until=session.until,
    )


def quote_place(card_id: str) -> tuple[str, int] | None:
    """The session and turn that a quote's id names; None for the id of a card."""
    session_id, hash, number = card_id.rpartition("#")
    counts = number.isascii() and number.isdigit() and len(number) < 10
    return (session_id, int(number)) if hash and counts else None
