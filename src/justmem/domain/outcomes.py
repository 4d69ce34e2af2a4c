"""What the other operations return: results, log entries, notes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import date, datetime
from typing import Any, Literal

from pydantic import Field, computed_field

from justmem.domain.asking import Citation, Receipt
from justmem.domain.cards import Card, Quarantined, SessionRecord, SessionState, Value


class Entry(Value):
    """One line of the change log: who did what, when, to which sessions and cards. It contains
    ids and counts, and no words of a conversation. `before` is the hash of the entry before, so
    that a changed or removed entry is noticed."""

    number: int
    at: datetime  # UTC
    actor: str
    verb: str
    targets: tuple[str, ...] = ()
    counts: Mapping[str, int] = Field(default_factory=dict)
    before: str
    hash: str = ""

    @property
    def digest(self) -> str:
        """The right value of `hash`: of the other fields, as JSON in ASCII with sorted keys."""
        at = self.at.isoformat(timespec="milliseconds")
        said = [self.number, at, self.actor, self.verb, self.targets, self.counts, self.before]
        canonical = json.dumps(said, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()


class Checked(Value):
    """The result of checking the log. `last` is the hash of its newest entry. Keep it elsewhere to
    check later that no entry up to it is missing."""

    entries: int = 0
    last: str = ""
    problem: str = ""  # where the chain breaks, and how

    @computed_field  # type: ignore[prop-decorator]
    @property
    def whole(self) -> bool:
        return not self.problem


class Damage(Value):
    """An error in the stored data, and what to do about it."""

    what: str
    fix: str


class Health(Value):
    """The result of `check`: how much it read, and the damage it found."""

    space: str
    sessions: int
    cards: int
    passages: int
    damage: tuple[Damage, ...] = ()

    @property
    def sound(self) -> bool:
        return not self.damage


class Note(Value):
    """A text exactly as it was given, with an optional JSON value. `value_json` is the value's
    text, byte for byte."""

    key: str
    text: str
    card_id: str
    at: datetime
    until: datetime | None = None
    labels: Mapping[str, str] = Field(default_factory=dict)
    value_json: str | None = None

    @property
    def value(self) -> Any:
        return None if self.value_json is None else json.loads(self.value_json)


class Remembered(Value):
    """The result of remembering one session."""

    session_id: str
    state: SessionState
    reason: str = ""
    cards: tuple[Card, ...] = ()
    quarantined: tuple[Quarantined, ...] = ()
    unchanged: bool = False  # the same words were stored already: nothing was done or spent
    receipt: Receipt = Receipt()


class About(Value):
    """Everything that memory holds about a subject: totals, and one page of cards and turns."""

    subject: str
    cards: int = 0
    kinds: Mapping[str, int] = Field(default_factory=dict)
    turns: int = 0
    sessions: int = 0
    first: datetime | None = None  # when it was first and last mentioned
    last: datetime | None = None
    known: tuple[Card, ...] = ()  # by kind, states first; within a kind the latest first
    said: tuple[Citation, ...] = ()  # the turns that name it, the latest first
    next: int | None = None  # the offset of the next page


class HistoryEntry(Value):
    """A card and the time for which it was true: from `since` to `until`, or until now. With
    `corrected_at`, it is an earlier version of a card that somebody corrected."""

    card: Card
    since: date
    until: date | None = None
    replaced_by: str | None = None  # the id of the card that ended it
    corrected_at: datetime | None = None
    corrected_by: str | None = None
    repeats: tuple[str, ...] = ()  # the other turns that say the same, such as s12#3

    @property
    def note(self) -> str:
        if self.corrected_at:
            return f"corrected on {self.corrected_at:%Y-%m-%d} by {self.corrected_by}"
        return f"said {len(self.repeats) + 1} times" if self.repeats else ""


class SubjectProfile(Value):
    """What is known about a subject, current facts first. `text` has a line for each card, with
    its day and its id, or is prose that a model wrote from these cards."""

    subject: str
    cards: tuple[Card, ...] = ()
    text: str = ""
    tokens: int = 0
    receipt: Receipt = Receipt()

    def __str__(self) -> str:
        return self.text


class Loaded(Value):
    """The result of loading an export."""

    sessions: int = 0  # in the file
    brought: int = 0  # stored by this call; the others were here already
    cards: int = 0  # of the sessions that this call stored
    embedded: int = 0  # texts whose vectors had to be made
    forgotten: int = 0


class Certificate(Value):
    """States what was forgotten, when, and where it was searched for and not found.

    It contains no words. A digest is the SHA-256 of a deleted text: someone who has the text can
    check that it was deleted."""

    space: str
    target: str  # as in "turn s12#3"; a subject is named by its digest
    at: datetime
    cards: int
    sessions: int
    turns: int
    quarantined: int
    labels: int
    vectors: int
    digests: tuple[str, ...]  # of every deleted text, in order
    held: Mapping[str, str]  # digests of texts that also occur elsewhere -> where
    files: tuple[str, ...]  # that were searched
    unsearched: tuple[str, ...] = ()  # files that cannot be searched: compressed or encrypted
    tables: tuple[str, ...]
    bytes: int
    remains: Literal[0] = 0


class Forgotten(Value):
    """How much was forgotten. `cards` includes the cards of forgotten turns. `labels` are those
    that named a forgotten subject, in sessions that stay."""

    cards: int = 0
    sessions: int = 0
    turns: int = 0
    quarantined: int = 0
    labels: int = 0
    certificate: Certificate | None = None  # if `verify` was set
    # The entry in the change log. It is all that is left after a whole space is forgotten.
    entry: Entry | None = Field(None, repr=False)


class Preview(Value):
    """What `forget` or `expire` would remove. `turns` and `labels` are those of sessions that stay,
    such as `s12#3` and `s12: title=Ines`. `words`: sessions that lose all their words and keep
    their cards."""

    forgotten: Forgotten
    cards: tuple[Card, ...] = ()
    sessions: tuple[SessionRecord, ...] = ()
    turns: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    words: tuple[SessionRecord, ...] = ()


class Stats(Value):
    space: str
    sessions: Mapping[str, int]  # by state
    turns: int
    cards: int
    repeated: int  # cards that make the same statement as another card: recall shows them as one
    quarantined: int
    kinds: Mapping[str, int]
    history_tokens: int
    card_tokens: int
    bytes: int
    embedder: str
    spent_tokens: int  # by the language model, building and asking, since the space was made
