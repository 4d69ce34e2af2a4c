"""A search: what it asks a store for, and what it finds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from justmem.domain import Card, Correction, Passage, Session

Vectors = NDArray[np.float32]
Index = Literal["cards", "passages"]
Pair = tuple[int, float]  # a key and a score
Place = tuple[str, int]  # a session's id and the number of one of its turns


@dataclass(frozen=True, slots=True)
class View:
    """A query used for discovery: the question or a rewrite."""

    text: str
    vector: Vectors  # shape (dim,)


@dataclass(frozen=True, slots=True)
class Hits:
    """What one view found, best first, as (key, score). Keys are the store's own numbers of cards
    or passages."""

    dense: Sequence[Pair]
    lexical: Sequence[Pair]


@dataclass(frozen=True, slots=True)
class SearchLimits:
    """How many a search returns for each of its views."""

    dense: int = 0  # cards by nearness
    lexical: int = 0  # cards by their words
    spoken: int = 0  # turns by their words; the cards that rest on them are found too
    quotes: int = 0  # the best of those turns that no card rests on, in all
    passages: int = 0  # passages by nearness, and as many by their words
    since: date | None = None  # nothing that was said on an earlier day
    until: date | None = None  # nothing that was said on a later day
    sessions: frozenset[str] | None = None  # nothing of other sessions or notes
    during: tuple[date, date] | None = None  # more cards by nearness, of what was said then
    mentions: bool = False  # nothing but the passages that hold all words of the first view

    @property
    def more(self) -> int:
        return (self.dense + 1) // 2 if self.during else 0


@dataclass(frozen=True, slots=True)
class Filter:
    """What a question may read."""

    limit: int | None = None  # places, instead of those of the budget
    sessions: frozenset[str] | None = None  # only these sessions and notes
    since: date = date.min  # only what was said from this day on
    until: date = date.max  # and up to this one
    as_of: date = date.max  # as it was on this day: nothing that began later

    now: datetime = datetime.min  # when it is asked: notes that have expired are left out

    def at(self, now: datetime, first: date) -> Filter:
        """The same filter for a question asked at that time. Nothing before `first` is kept."""
        as_of = min(self.as_of, now.date())
        since, until = max(self.since, first), min(self.until, as_of)
        # With `as_of`, a note counts if it was valid at the end of that day.
        now = min(now.replace(tzinfo=None), datetime.combine(as_of, time.max))
        return replace(self, since=since, until=until, as_of=as_of, now=now)

    def holds(self, session_id: str, said_at: datetime, expires: datetime | None = None) -> bool:
        """Whether what was said in that session at that time may be read."""
        return (
            (self.sessions is None or session_id in self.sessions)
            and self.since <= said_at.date() <= self.until
            and (expires is None or expires > self.now)
        )


NO_FILTER = Filter()


@dataclass(frozen=True, slots=True)
class Found:
    """What the views found, from one snapshot of the store."""

    cards: Mapping[int, Card]  # by key, in rising order
    vectors: Vectors  # of these cards, in that order
    hits: Sequence[Hits]  # for each view, the cards it found itself
    by_words: Sequence[Mapping[Place, float]]  # for each view, the turns that share its words
    turns: Mapping[Place, Vectors]  # of the turns behind the cards, and of the bare ones
    bare: Sequence[tuple[Session, int]]  # turns by words that no card rests on, best first
    said: Sequence[Hits] = ()  # for each view, the passages it found
    passages: Mapping[int, Passage] = field(default_factory=dict)  # those, by key


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What every question reads first. Reading it is cheap."""

    cards: int
    tokens: int  # of all turns: what the full history would cost in a prompt
    main_subject: str | None  # of more than six cards in ten: the person whose memory this is
    # The latest sessions that have turns without cards, oldest first. Their other turns are blank.
    waiting: Sequence[Session] = ()
    corrections: Sequence[Correction] = ()  # of all cards, in the order they were made


@dataclass(frozen=True, slots=True)
class CardFilter:
    id: str | None = None
    subject: str | None = None
    kind: str | None = None
    status: str | None = None
    session_id: str | None = None
    text: str | None = None  # words that must occur
    limit: int = 10**9
    offset: int = 0
