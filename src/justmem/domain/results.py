"""What the other verbs return."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from typing import Literal

from pydantic import Field

from justmem.domain.cards import Card, Quarantined
from justmem.domain.conversations import SessionRecord, SessionState
from justmem.domain.log import Entry
from justmem.domain.questions import Citation
from justmem.domain.receipts import Receipt
from justmem.domain.value import Value


class Remembered(Value):
    """What became of one session."""

    session_id: str
    state: SessionState
    reason: str = ""
    cards: tuple[Card, ...] = ()
    quarantined: tuple[Quarantined, ...] = ()
    unchanged: bool = False  # known already, word for word: nothing was done or spent
    receipt: Receipt = Receipt()


class About(Value):
    """Everything that memory holds on a subject: sums over all of it, and one page of it."""

    subject: str
    cards: int = 0
    kinds: Mapping[str, int] = Field(default_factory=dict)
    turns: int = 0
    sessions: int = 0
    first: datetime | None = None  # the first and the last time it was spoken of
    last: datetime | None = None
    known: tuple[Card, ...] = ()  # by kind, states first; within a kind the latest first
    said: tuple[Citation, ...] = ()  # the turns that name it, the latest first
    next: int | None = None  # the offset of the next page


class HistoryEntry(Value):
    """A card and the time that it held: from `since` to `until`, or still."""

    card: Card
    since: date
    until: date | None = None
    replaced_by: str | None = None  # the id of the card that ended it


class SubjectProfile(Value):
    """Short lines about a subject, what holds now first. `text` has one for each card, with its day
    and its id."""

    subject: str
    cards: tuple[Card, ...] = ()
    text: str = ""
    tokens: int = 0

    def __str__(self) -> str:
        return self.text


class Loaded(Value):
    """What `load` took from an export."""

    sessions: int = 0  # in the file
    brought: int = 0  # by this call; the others were here already
    cards: int = 0  # of those that were brought
    embedded: int = 0  # texts whose vectors had to be made
    forgotten: int = 0


class Expiring(Value):
    """What is older than its space allows: sessions whole, and of other sessions cards or the
    words."""

    sessions: tuple[SessionRecord, ...] = ()
    cards: tuple[Card, ...] = ()
    words: tuple[SessionRecord, ...] = ()  # the turns of these go, their cards stay

    @property
    def counted(self) -> Forgotten:
        of_sessions = sum(record.cards for record in self.sessions)
        return Forgotten(
            cards=len(self.cards) + of_sessions,
            sessions=len(self.sessions),
            turns=sum(record.turns for record in (*self.sessions, *self.words)),
        )


class Certificate(Value):
    """That something was forgotten: what, when, and where it was looked for and not found.

    It holds no words. A digest is the SHA-256 of a deleted text, so that whoever has the text can
    see that it was among them."""

    space: str
    target: str  # as in "turn s12#3"; a subject is named by its digest
    at: datetime
    cards: int
    sessions: int
    turns: int
    quarantined: int
    replies: int
    vectors: int
    digests: tuple[str, ...]  # of every deleted text, in order
    held: Mapping[str, str]  # digests of texts that something else still says word for word: where
    files: tuple[str, ...]  # that were searched
    unsearched: tuple[str, ...] = ()  # files beside them that cannot be: packed or encrypted
    tables: tuple[str, ...]
    bytes: int
    remains: Literal[0] = 0


class Forgotten(Value):
    """What went. `cards` counts those that rested on forgotten turns too."""

    cards: int = 0
    sessions: int = 0
    turns: int = 0
    quarantined: int = 0
    replies: int = 0  # of language models, recorded in a file
    certificate: Certificate | None = None  # where it was asked for
    # The log's entry for it. A whole space takes its log along: this is then all that is left.
    entry: Entry | None = Field(None, repr=False)


class Preview(Value):
    """What would go. `turns` are those that would go from sessions that stay, as in `s12#3`."""

    forgotten: Forgotten
    cards: tuple[Card, ...] = ()
    sessions: tuple[SessionRecord, ...] = ()
    turns: tuple[str, ...] = ()


class Stats(Value):
    space: str
    sessions: Mapping[str, int]  # by state
    turns: int
    cards: int
    quarantined: int
    kinds: Mapping[str, int]
    history_tokens: int
    card_tokens: int
    bytes: int
    embedder: str
    spent_tokens: int  # by the language model, building and asking, since the space was made
