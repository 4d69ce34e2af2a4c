"""The store: the memory of one space."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from pathlib import Path
from typing import Protocol

import numpy as np

from justmem.domain import (
    Card,
    Correction,
    Entry,
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
from justmem.errors import NotInMemory
from justmem.ports.searches import CardFilter, Found, Index, Place, Reach, Snapshot, View
from justmem.ports.vectors import Vectors

_actor: ContextVar[str | None] = ContextVar("justmem_actor", default=None)
BEGUN = "its cards are being made"
Embed = Callable[[Index, Sequence[str]], Awaitable[Vectors]]


@dataclass(frozen=True, slots=True)
class Author:
    """Whom the change log names, and by which clock."""

    name: str
    clock: Callable[[], datetime]
    reads: bool = False  # log reads too

    @property
    def acting(self) -> Author:
        """The author under the name of `acting_as`. Called outside of the store's threads."""
        name = _actor.get()
        return self if name is None else replace(self, name=name)


@contextmanager
def acting_as(actor: str | None) -> Iterator[None]:
    """The log names this actor for what is done inside the block. None changes nothing."""
    before = _actor.get()
    _actor.set(before if actor is None else actor)
    try:
        yield
    finally:
        _actor.set(before)  # not `reset`: a generator may end in another context than it began in


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
    corrections: Sequence[Correction] = ()  # that the cards agree with
    tokens: int = 0  # of the session's turns
    card_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Whole:
    """All that a store holds of one session."""

    session: Session  # the current text
    digested: Digested  # what was made of it
    waiting: Session | None = None  # a changed text whose cards are still to be made
    failure: str = ""  # why that could not be done
    spent: int = 0  # tokens spent on cards of the newest text; 0 once they are made


@dataclass(frozen=True, slots=True)
class Rest:
    """All that a store holds of a space besides its sessions."""

    embedder: str = ""  # whose vectors these are; empty: nobody's yet
    dim: int = 0
    forgotten: Sequence[str] = ()  # ids of cards and marks of turns forgotten on their own
    spending: Sequence[tuple[date, int]] = ()  # tokens by day


@dataclass(frozen=True, slots=True)
class Removed:
    """What `Store.forget` removes."""

    forgotten: Forgotten
    cards: Sequence[Card]
    texts: Sequence[str]  # of turns
    facts: Sequence[tuple[str, str]]  # subject and fact: cards, quarantined, earlier versions
    vectors: Sequence[Vectors]


@dataclass(frozen=True, slots=True)
class Searched:
    """Where forgotten words and vectors were searched, and where some were found."""

    files: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    bytes: int = 0
    remains: tuple[str, ...] = ()
    unsearched: tuple[str, ...] = ()  # files whose content cannot be read
    # Texts that something else still says word for word: their numbers, and where.
    held: Mapping[int, str] = field(default_factory=dict)

    def __add__(self, other: Searched) -> Searched:
        return Searched(
            self.files + other.files,
            self.tables + other.tables,
            self.bytes + other.bytes,
            self.remains + other.remains,
            self.unsearched + other.unsearched,
            {**self.held, **other.held},
        )


class Store(Protocol):
    """The memory of one space."""

    space: str
    author: Author | None  # None: nothing is logged

    # ------------------------------------------------------------ sessions

    async def bind(self, embedder: str, dim: int) -> None:
        """Records whose vectors these are. EmbedderMismatch if they are another embedder's."""
        ...

    async def keep(self, session: Session) -> SessionRecord:
        """Stores the raw turns, in a transaction of their own. A session known word for word is
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
        `session` its current text. With the state FAILED only the newest text is marked, with
        the reason. NotInMemory if the text or the corrections changed meanwhile."""
        ...

    async def rebuild(self, session_id: str | None = None) -> Sequence[str]:
        """Lets one session or all wait for new cards, and returns their ids. The old cards serve
        until then. If an earlier rebuild is not finished: the ids that are left of it."""
        ...

    async def revise(
        self,
        card: Card,
        into: Card,
        vector: Vectors,
        *,
        before: Sequence[Correction],
        after: Sequence[Correction],
    ) -> None:
        """Replaces a card by another version of it, and the corrections of its session, in one
        transaction. StoreBusy if the card or the corrections are not those given. InputError if
        another card of the session has the same id, or had it and was forgotten."""
        ...

    async def corrections(self, session_id: str | None = None) -> Sequence[Correction]:
        """Of one session or of all, in the order they were made."""
        ...

    def claim(self, session_id: str) -> AbstractAsyncContextManager[bool]:
        """False inside the block if another process makes this session's cards, or has made
        them: one extraction is paid for, however many try. A pending session has the reason BEGUN
        from then on, until it is settled."""
        ...

    async def sessions(self) -> Sequence[SessionRecord]:
        """In order of time."""
        ...

    async def texts(self, ids: Sequence[str], *, newest: bool = False) -> Mapping[str, Session]:
        """The current texts of those sessions that there are: the ones their cards come from.
        `newest`: instead of it a changed text, where one waits for its cards."""
        ...

    # ------------------------------------------------------------ search

    async def look(self, *, waiting: int = 0) -> Snapshot:
        """`waiting`: at most that many of the latest sessions without cards."""
        ...

    async def find(self, views: Sequence[View], reach: Reach) -> Found:
        """The cards that a search for the views finds, those that rest on the best turns by
        words, and what there is to weigh and to quote them by."""
        ...

    async def cards(self, where: CardFilter) -> Sequence[Card]:
        """In order of time."""
        ...

    async def mentions(self, text: str) -> Sequence[Passage]:
        """Every passage that holds all words of the text, in order of keys."""
        ...

    # ------------------------------------------------------------ forgetting

    async def forget(
        self,
        *,
        cards: Sequence[str] = (),
        turns: Sequence[Place] = (),
        sessions: Sequence[str] = (),
        words: Sequence[str] = (),
        subjects: Sequence[str] = (),
        everything: bool = False,
    ) -> Forgotten:
        """Removes them and everything derived from them, on disk too. A card or a turn forgotten
        on its own stays forgotten when its session is remembered again. `words`: ids of sessions
        whose turns are all forgotten while their cards stay. `subjects`: quarantined cards about
        them go too. `everything`: the space itself goes, and the store is closed."""
        ...

    async def preview(
        self,
        *,
        cards: Sequence[str] = (),
        turns: Sequence[Place] = (),
        sessions: Sequence[str] = (),
        subjects: Sequence[str] = (),
        everything: bool = False,
    ) -> Removed:
        """What `forget` would remove. Nothing changes."""
        ...

    async def remains(self, texts: Sequence[str], vectors: Sequence[Vectors] = ()) -> Searched:
        """Removes all deleted data from the disk. Then searches every table and file for the texts
        and vectors, except for what something else still says. It also works after everything was
        forgotten."""
        ...

    # ------------------------------------------------------------ the whole space

    async def reembed(self, embedder: str, dim: int, embed: Embed) -> int:
        """Makes all vectors again, and returns how many. `embed` gets some texts at a time: cards
        with their dates, passages whole. The old vectors serve until all new ones are there."""
        ...

    async def wholes(self, ids: Sequence[str]) -> Sequence[Whole]:
        """All that is stored of those sessions that there are."""
        ...

    async def rest(self) -> Rest: ...

    async def take(self, wholes: Sequence[Whole], rest: Rest | None = None) -> None:
        """Stores sessions as they are, but for what was forgotten here; all or none. What is
        there already of a session is replaced. What was forgotten and spent in `rest` is added to
        what is known here; of a day the larger sum counts."""
        ...

    async def spend(
        self,
        day: date,
        tokens: int = 0,
        *,
        reserve: int = 0,
        limit: int | None = None,
        least: int = 0,
        session: str | None = None,
    ) -> int:
        """Enters tokens that were spent, and sets `reserve` more aside; a negative number gives
        back. `limit`: reserves only as many as spent and reserved tokens of the day leave of it,
        and none if that is fewer than `least`. Returns how many were reserved. Atomic, so that
        several processes together never pass the limit. `session`: whose cards the tokens were
        spent on."""
        ...

    async def log(
        self, *, after: int | None = None, before: int | None = None, limit: int = 1000
    ) -> Sequence[Entry]:
        """Entries of the change log, in order: the first after a number, or else the latest."""
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


async def session_in(store: Store, session_id: str) -> Session:
    """The current text of a session. NotInMemory if there is no such session."""
    found = await store.texts([session_id])
    if session_id not in found:
        raise NotInMemory(f"There is no session {session_id!r} in this space.")
    return found[session_id]


async def card_in(store: Store, card_id: str) -> Card:
    """NotInMemory if there is no such card."""
    found = await store.cards(CardFilter(id=card_id, limit=1))
    if not found:
        raise NotInMemory(f"There is no card {card_id!r} in this space.")
    return found[0]
