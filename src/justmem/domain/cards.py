"""What is stored: sessions with their turns, cards with their dates and corrections."""

from __future__ import annotations

import calendar
import hashlib
import json
import re
from collections.abc import Collection, Iterable, Mapping
from datetime import date, datetime
from enum import StrEnum
from typing import Any, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field

Kind = Literal[
    "fact", "event", "preference", "state", "measurement", "relation", "list", "interaction", "note"
]
Status = Literal["stable", "ongoing", "planned", "completed"]
Precision = Literal["day", "month", "year", "range", "unknown"]
KINDS: tuple[Kind, ...] = get_args(Kind)
STATUSES: tuple[Status, ...] = get_args(Status)
_ISO = re.compile(r"(\d{4})(?:-(\d{2})(?:-(\d{2}))?)?(?:T.*)?")


class Value(BaseModel):
    """A frozen value that refuses fields it does not know."""

    # A command uses few of these types, and building one takes a millisecond: build on first use.
    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class EventDate(Value):
    """When something happened, as exactly as it is known: `2023`, `2023-05`, `2023-05-07`,
    `2023-05-06/2023-05-07` or `unknown`. When it was *said* is kept apart, on the card."""

    text: str = "unknown"
    start: date | None = None
    end: date | None = None
    precision: Precision = "unknown"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Raises ValueError for anything that is not one of the forms above."""
        text = text.strip()
        if not text or text.lower() == "unknown":
            return cls()
        first, slash, last = text.partition("/")
        start, end, precision = _span(first)
        if not slash:
            return cls(text=text.partition("T")[0], start=start, end=end, precision=precision)
        _, end, _ = _span(last)
        if end < start:
            raise ValueError(f"the range {text!r} ends before it starts")
        return cls(text=text, start=start, end=end, precision="range")

    def overlaps(self, other: EventDate) -> bool:
        if self.start is None or self.end is None or other.start is None or other.end is None:
            return False
        return self.start <= other.end and other.start <= self.end

    def __str__(self) -> str:
        return self.text


def _span(text: str) -> tuple[date, date, Precision]:
    match = _ISO.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a date like 2023, 2023-05 or 2023-05-07")
    year, month, day = (int(part) if part else None for part in match.groups())
    assert year is not None
    if month is None:
        return date(year, 1, 1), date(year, 12, 31), "year"
    if day is None:
        last = calendar.monthrange(year, month)[1] if 1 <= month <= 12 else 0
        return date(year, month, 1), date(year, month, last), "month"
    return date(year, month, day), date(year, month, day), "day"


UNKNOWN_DATE = EventDate()


SAID = "said: "  # in the stored format: begins the fact of a card that quotes its subject


class Card(Value):
    """One atomic memory, linked to the turns that support it.

    A new field also belongs in store/schema.py (a migration) and store/rows.py (`card_mark` hashes
    the row), in transfer/lines.py (a higher version), where it is filled (extract.py and
    prompts/extract.md, language/plain.py and language/en/statements.py), where it is corrected
    (edits/corrections.py) and where it is shown (prompts/evidence.py, cli/render.py,
    server/mcp/tools.py, server/inspector/card.js)."""

    id: str
    subject: str
    fact: str
    event_date: EventDate = UNKNOWN_DATE
    status: Status = "stable"
    kind: Kind = "fact"
    session_id: str
    said_at: datetime
    turns: tuple[int, ...]
    until: datetime | None = None  # of a note: when it expires

    @property
    def text(self) -> str:
        if self.kind == "note":
            return self.fact  # exactly as the caller gave it
        return f"{self.subject} {self.fact}"

    @property
    def is_quote(self) -> bool:
        """Whether it has the subject's own words. A model's card is about the subject instead."""
        return self.fact.startswith(SAID)

    @property
    def words(self) -> str:
        """The fact. Of a quotation: only what was said."""
        return self.fact.removeprefix(SAID)

    @property
    def line(self) -> str:
        """The text as a line of a prompt, such as "Nora: I moved to Ghent"."""
        return f"{self.subject}: {self.words}" if self.is_quote else self.text

    @property
    def since(self) -> date:
        """The day from which it is true: when it happened, if known, else when it was said."""
        return self.event_date.start or self.said_at.date()

    @property
    def dated(self) -> str:
        """The text with its date: what is embedded, so that a question for a time can find it."""
        known = self.event_date.precision != "unknown"
        return f"{self.text} ({self.event_date})" if known else self.text


def card_id(session_id: str, subject: str, fact: str) -> str:
    """The same card of the same session always has the same id, so that ids survive
    re-remembering and a forgotten card can be recognised without keeping its words."""
    digest = hashlib.blake2b(f"{session_id}\0{subject}\0{fact}".encode(), digest_size=6)
    return "c" + digest.hexdigest()


def merge_repeated(cards: Iterable[Card]) -> list[Card]:
    """Cards with the same id become one card with all their turns."""
    merged: dict[str, Card] = {}
    for card in cards:
        first = merged.setdefault(card.id, card)
        if first is not card:
            turns = tuple(sorted({*first.turns, *card.turns}))
            merged[card.id] = first.model_copy(update={"turns": turns})
    return list(merged.values())


class Correction(Value):
    """A change that somebody made to a card: of its fields, or whether it is pinned. The last one
    of a card counts."""

    original: str  # the id of the card as it was extracted
    before: Card
    after: Card
    marks: tuple[str, ...]  # hashes of its turns, to find them in a changed session
    at: datetime
    by: str
    pinned: bool = False

    @property
    def ids(self) -> set[str]:
        return {self.original, self.before.id, self.after.id}


def corrections_of(card_id: str, corrections: Iterable[Correction]) -> list[Correction]:
    """All corrections of one card, in order, whichever of its versions the id names."""
    given = list(corrections)
    original = next((each.original for each in given if card_id in each.ids), None)
    return [each for each in given if each.original == original]


def living_corrections(
    corrections: Iterable[Correction], cards: Iterable[Card]
) -> list[Correction]:
    """The corrections of cards that are there."""
    known, ids = list(corrections), {card.id for card in cards}
    there = {each.original for each in known if not ids.isdisjoint(each.ids)}
    return [each for each in known if each.original in there]


class Quarantined(Value):
    """A card that no turn supports. It is kept for inspection and never used."""

    subject: str
    fact: str
    reason: str


class Passage(Value):
    """A part of one turn in the source index. Most turns are one passage."""

    session_id: str
    turn: int
    start: int
    end: int


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

    @property
    def digest(self) -> str:
        """A hash of the words, speakers and times."""
        said = [(t.speaker, t.role, t.text, t.at.isoformat() if t.at else None) for t in self.turns]
        parts: list[Any] = [self.at.isoformat(), said]
        if self.until is not None:
            parts.append(self.until.isoformat())
        canonical = json.dumps(parts, ensure_ascii=True)
        return hashlib.sha256(canonical.encode()).hexdigest()

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

    def without_labels(self, names: Collection[str]) -> Session:
        left = {name: value for name, value in self.labels.items() if name not in names}
        return self.model_copy(update={"labels": left}) if names else self


class SessionState(StrEnum):
    PENDING = "pending"  # raw turns kept, cards not made yet
    STORED = "stored"  # cards made
    EMPTY = "empty"  # there was nothing to make cards from
    FAILED = "failed"  # cards could not be made; `reason` says why

    @property
    def finished(self) -> bool:
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
    return Card(
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
