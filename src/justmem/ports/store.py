"""The store: the memory of one space."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import Protocol

import numpy as np

from justmem.domain import (
    Card,
    Forgotten,
    Health,
    Passage,
    Quarantined,
    Session,
    SessionRecord,
    SessionState,
    Stats,
    Turn,
)
from justmem.ports.models import Vectors
from justmem.ports.searches import (
    CardFilter,
    Extent,
    Found,
    Hits,
    Index,
    Place,
    Reach,
    View,
)
from justmem.ports.sweeps import Searched
from justmem.ports.traces import Traces

BEGUN = "its cards are being made"


@dataclass(frozen=True, slots=True)
class Digested:
    """Everything that follows from a session's raw turns, stored in one transaction."""

    state: SessionState
    reason: str = ""
    cards: Sequence[Card] = ()
    card_vectors: Vectors = field(default_factory=lambda: np.zeros((0, 0), np.float32))
    passages: Sequence[Passage] = ()
    passage_vectors: Vectors = field(default_factory=lambda: np.zeros((0, 0), np.float32))
    quarantined: Sequence[Quarantined] = ()
    tokens: int = 0  # of the session's turns
    card_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Whole:
    """All that a store holds of one session."""

    session: Session  # the current text
    digested: Digested  # what was made of it
    waiting: Session | None = None  # a changed text whose cards are still to be made
    failure: str = ""  # why that could not be done


class Store(Protocol):
    """The memory of one space."""

    space: str

    async def log(self, entries: Sequence[tuple[int, str, str]]) -> None:
        """Adds lines to the change log, as (number, time, text). StoreError, and nothing is added,
        if one of the numbers is taken."""
        ...

    async def logged(
        self, *, after: int = 0, before: int | None = None, latest: bool = False, limit: int = 1000
    ) -> Sequence[tuple[int, str, str]]:
        """Lines of the change log with numbers between `after` and `before`, in order: the first
        `limit` of them, or the latest."""
        ...

    async def bind(self, embedder: str, dim: int) -> None:
        """Remembers whose vectors these are; EmbedderMismatch if they are another's."""
        ...

    async def keep(self, session: Session) -> SessionRecord:
        """The raw turns first, in a transaction of their own. A session known word for word is
        left as it is. A changed one waits beside the old, which serves until `settle`. Turns that
        were forgotten on their own are kept without their words: the record then has another
        digest than `session`."""
        ...

    async def append(
        self, session_id: str, turns: Sequence[Turn], *, at: datetime | None = None
    ) -> SessionRecord:
        """Adds turns to the newest text of a session, in one transaction. A turn whose key is
        known already is left out. A session that is not there yet is made, at the time `at`."""
        ...

    async def settle(self, session: Session, digested: Digested) -> None:
        """Replaces all that was derived from the session, in one transaction, and makes
        `session` its current text."""
        ...

    def claim(self, session_id: str) -> AbstractAsyncContextManager[bool]:
        """False inside the block if another process makes this session's cards, or has made
        them: one extraction is paid for, however many try. A pending session has the reason BEGUN
        from then on, until it is settled or failed."""
        ...

    async def fail(self, session_id: str, reason: str) -> None: ...

    async def session(self, session_id: str) -> Session:
        """The current text: the one its cards come from. NotInMemory if there is no such
        session."""
        ...

    async def sessions_at(
        self, ids: Sequence[str], *, newest: bool = False
    ) -> Mapping[str, Session]:
        """The current texts of those that there are; `newest`: those that wait, where any do."""
        ...

    async def waiting(self, *, newest: int | None = None) -> Sequence[Session]:
        """The newest text of each session that is pending or failed, oldest first. `newest`: only
        that many of the latest."""
        ...

    async def sessions(self) -> Sequence[SessionRecord]:
        """In order of time."""
        ...

    async def extent(self) -> Extent: ...

    async def main_subject(self) -> str | None:
        """The one subject that most cards are about: the person whose memory this is. None where
        there is no such one, as in a chat between two."""
        ...

    async def search(
        self, views: Sequence[View], index: Index, *, dense: int, lexical: int, until: date | None
    ) -> Sequence[Hits]:
        """One Hits per view. `until` leaves out what was said after that day."""
        ...

    async def find(self, views: Sequence[View], reach: Reach) -> Found:
        """The cards that a search for the views finds, those that rest on the best turns by
        words, and what there is to weigh and to quote them by."""
        ...

    async def passages_at(self, keys: Sequence[int]) -> Mapping[int, Passage]: ...

    async def card(self, card_id: str) -> Card: ...

    async def cards(self, where: CardFilter) -> Sequence[Card]: ...

    async def mentions(self, text: str) -> Sequence[Passage]:
        """Every passage that holds all words of the text, in order of keys."""
        ...

    async def forget(
        self,
        *,
        cards: Sequence[str] = (),
        turns: Sequence[Place] = (),
        sessions: Sequence[str] = (),
        words: Sequence[str] = (),
        subject: str | None = None,
    ) -> Forgotten:
        """Removes them and everything derived from them, on disk too. A card or a turn forgotten
        on its own stays forgotten when its session is remembered again. `words`: ids of sessions
        whose turns are all forgotten while their cards stay. `subject`: quarantined cards about
        it go too."""
        ...

    async def remains(self, traces: Traces) -> Searched:
        """Rids the disk of everything that was deleted, then looks for the traces in every file
        and table there is, also after `erase`."""
        ...

    async def erase(self) -> Forgotten:
        """Removes the whole space."""
        ...

    async def texts(
        self, index: Index, *, after: int = 0, count: int = 256
    ) -> Sequence[tuple[int, str]]:
        """The next texts that have a vector, as (key, text) in rising order of keys: cards with
        their dates, passages whole."""
        ...

    async def replace_vectors(
        self, embedder: str, dim: int, replaced: Mapping[Index, tuple[Sequence[int], Vectors]]
    ) -> None:
        """All vectors in one transaction, with the embedder they come from."""
        ...

    async def embedder(self) -> tuple[str, int]:
        """Whose vectors these are, and of how many dimensions."""
        ...

    async def wholes(self, ids: Sequence[str]) -> Sequence[Whole]:
        """All that is stored of those sessions that there are."""
        ...

    async def take(self, wholes: Sequence[Whole], forgotten: Sequence[str] = ()) -> None:
        """Stores sessions as they are, but for what was forgotten here; all or none. What is
        there already of a session is replaced. `forgotten` are ids that another store gave."""
        ...

    async def forgotten(self) -> Sequence[str]:
        """Ids of cards and marks of turns forgotten on their own, in order."""
        ...

    async def spending(self) -> Sequence[tuple[date, int]]:
        """Tokens spent, by day, in order."""
        ...

    async def reserve(self, day: date, tokens: int, limit: int) -> bool:
        """Sets `tokens` aside if spent, reserved and these stay within `limit`. Atomic, so that
        several processes together never pass it."""
        ...

    async def spend(
        self, day: date, tokens: int, *, reserved: int = 0, session: str | None = None
    ) -> None:
        """Enters what was really spent, and gives back the reservation it was made under.
        `session`: whose cards it was spent on."""
        ...

    async def spent_on(self, session_id: str) -> int:
        """Spent so far on the cards of the session's newest text; 0 once they are made."""
        ...

    async def spent(self, day: date) -> int:
        """Spent and reserved on that day."""
        ...

    async def stats(self) -> Stats: ...

    async def check(self) -> Health:
        """Reads everything there is, and names what cannot be right: words that are not those
        that were stored, cards without their turns, vectors without their cards, indexes and
        sums that disagree. Changes nothing."""
        ...

    async def backup(self, target: Path) -> None:
        """Writes the space to a new file while it is in use. InvalidFile if the file exists."""
        ...

    async def close(self) -> None: ...
