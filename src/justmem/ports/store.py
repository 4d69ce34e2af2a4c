"""The store: the memory of one space."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
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
    marks,
)
from justmem.errors import NotInMemory
from justmem.ports.searches import (
    CardFilter,
    Found,
    Index,
    Place,
    SearchLimits,
    Snapshot,
    Vectors,
    View,
)
from justmem.runtime import tokens

_actor: ContextVar[str | None] = ContextVar("justmem_actor", default=None)
BEGUN = "its cards are being made"
FORGOTTEN_SINCE = "a turn of it was forgotten since"  # replaces a reason that may quote the turn
_NONE = np.zeros((0, 0), np.float32)
Embed = Callable[[Index, Sequence[str]], Awaitable[Vectors]]


@dataclass(frozen=True, slots=True)
class Author:
    """The actor that the change log names, and the clock."""

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
class Derived:
    """Everything that is derived from a session's raw turns, stored in one transaction."""

    state: SessionState
    reason: str = ""
    cards: Sequence[Card] = ()
    card_vectors: Vectors = field(default_factory=lambda: _NONE)
    passages: Sequence[Passage] = ()
    passage_vectors: Vectors = field(default_factory=lambda: _NONE)
    quarantined: Sequence[Quarantined] = ()
    corrections: Sequence[Correction] = ()  # that the cards agree with
    tokens: int = 0  # of the session's turns
    card_tokens: int = 0

    def select(self, cards: Sequence[int], passages: Sequence[int]) -> Derived:
        """Only the cards and passages at these places."""
        return replace(
            self,
            cards=[self.cards[n] for n in cards],
            card_vectors=self.card_vectors[[*cards]] if len(self.card_vectors) else _NONE,
            passages=[self.passages[n] for n in passages],
            passage_vectors=self.passage_vectors[[*passages]]
            if len(self.passage_vectors)
            else _NONE,
            card_tokens=self.card_tokens * len(cards) // max(1, len(self.cards)),
        )


@dataclass(frozen=True, slots=True)
class StoredSession:
    """Everything that a store holds of one session."""

    session: Session
    derived: Derived  # what was made of it
    done: int = 0  # how many of its first turns have their cards
    spent: int = 0  # tokens spent on cards that are not made yet

    @property
    def is_rebuild(self) -> bool:
        """Whether all its turns have cards already: cards that are missing are made again."""
        return self.done == len(self.session.turns)

    def without(self, forgotten: Collection[str], *, cards: bool = True) -> StoredSession:
        """The session without its forgotten cards and turns, and without what rests on those
        turns. It is unknown which turns quarantined cards rest on, so all of them go with a turn.
        `cards` False: cards stay when their turns go."""
        own = marks.prefix(self.session.id)
        gone = marks.find_marked(self.session, [id for id in forgotten if id.startswith(own)])
        made, lost = self.derived, gone if cards else set[int]()
        stay = [
            n
            for n, card in enumerate(made.cards)
            if card.id not in forgotten and lost.isdisjoint(card.turns)
        ]
        if not gone and len(stay) == len(made.cards):
            return self
        left = made.select(stay, [n for n, p in enumerate(made.passages) if p.turn not in gone])
        removed = [card for card in made.cards if card not in left.cards]
        facts, ids = {(c.subject, c.fact) for c in removed}, {c.id for c in removed}
        undone = {
            each.original
            for each in made.corrections
            if ids & each.ids or lost & marks.find_marked(self.session, each.marks)
        }
        session = self.session.without(gone)
        left = replace(
            left,
            reason=FORGOTTEN_SINCE if gone and made.reason else made.reason,
            quarantined=[
                each
                for each in made.quarantined
                if not lost and (each.subject, each.fact) not in facts
            ],
            corrections=[each for each in made.corrections if each.original not in undone],
            tokens=min(made.tokens, tokens.count_session(session)) if gone else made.tokens,
        )
        return replace(self, session=session, derived=left)


@dataclass(frozen=True, slots=True)
class SpaceMetadata:
    """Everything that a store holds of a space besides its sessions, and counts of all."""

    embedder: str  # that made the vectors; empty: none yet
    dim: int
    forgotten: Sequence[str]  # ids of cards and marks of turns forgotten on their own
    spending: Sequence[tuple[date, int]]  # tokens by day
    stats: Stats


@dataclass(frozen=True, slots=True)
class Removed:
    """What `Store.forget` removes."""

    forgotten: Forgotten
    cards: Sequence[Card] = ()
    texts: Sequence[str] = ()  # of turns and labels
    facts: Sequence[tuple[str, str]] = ()  # subject and fact: cards, quarantined, earlier versions
    vectors: Sequence[Vectors] = ()


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

    async def keep(self, session: Session, *, append: bool = False) -> SessionRecord:
        """Stores the raw turns, in a transaction of their own. Does nothing if the same text is
        stored. If the session has new turns at its end, their cards are waited for, and the earlier
        cards stay. Any other change removes its cards and keeps its corrections. Words of forgotten
        turns are left out: the record then has another digest than `session`.

        `append`: adds the turns to the stored session, if there is one, except for turns whose key
        is stored. In a session of an earlier day, turns without a time of their own take place at
        the time of `session`."""
        ...

    async def settle(self, before: StoredSession, derived: Derived) -> bool:
        """Replaces everything derived from the session, in one transaction. False, and nothing
        changes, if its text, cards or corrections changed since `before` was read. Each card is
        stored once, and forgotten ones are left out. The state FAILED without cards only marks a
        waiting session, with the reason."""
        ...

    async def rebuild(self, session_id: str | None = None) -> Sequence[str]:
        """Marks one session or all as waiting for new cards, and returns their ids. The old cards
        stay until `settle`. If an earlier rebuild is not finished, returns what is left of it."""
        ...

    def claim(self, session_id: str) -> AbstractAsyncContextManager[bool]:
        """Leases the session to make its cards. False if another process has the lease or has made
        the cards, so that only one pays for the extraction. A pending session has the reason BEGUN
        until its cards are stored."""
        ...

    async def sessions(self) -> Sequence[SessionRecord]:
        """In order of time."""
        ...

    async def said_before(self, day: date) -> Sequence[str]:
        """Ids of sessions with turns whose own time is on an earlier day."""
        ...

    async def read(self, ids: Collection[str]) -> Sequence[StoredSession]:
        """Everything that is stored of the sessions that exist, in the given order. StoreDamaged if
        the words of one are damaged."""
        ...

    # ------------------------------------------------------------ search

    async def look(self, *, waiting: int = 0) -> Snapshot:
        """`waiting`: at most that many of the latest sessions that have turns without cards."""
        ...

    async def find(self, views: Sequence[View], limits: SearchLimits) -> Found:
        """The cards that the views find, the cards that rest on the turns found by words, and what
        ranking and quoting need of both."""
        ...

    async def cards(self, where: CardFilter) -> Sequence[Card]:
        """In order of time."""
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
        labels: Sequence[tuple[str, str]] = (),
        everything: bool = False,
        dry_run: bool = False,
    ) -> Removed:
        """Removes them and everything derived from them, on disk too. A forgotten card or turn
        stays forgotten when its session is remembered again. `words`: ids of sessions that lose
        the words of all turns and keep their cards. `subjects`: also remove quarantined cards
        about them. `labels`: pairs of a session's id and the name of a label, which also stays
        forgotten. `everything`: erases the space, closes the store, and only counts what it
        removes. `dry_run`: nothing changes."""
        ...

    async def remains(self, texts: Sequence[str], vectors: Sequence[Vectors] = ()) -> Searched:
        """Removes all deleted data from the disk. Then searches every table and file for the texts
        and vectors, except for what something else still says. It also works after everything was
        forgotten."""
        ...

    # ------------------------------------------------------------ the whole space

    async def bind(self, embedder: str, dim: int, embed: Embed | None = None) -> int:
        """Records the embedder. EmbedderMismatch if the vectors are another embedder's. With
        `embed`, it replaces all vectors in one transaction, and returns how many. `embed` gets
        batches of texts: cards with their dates, passages whole. StoreBusy if the space changed
        meanwhile."""
        ...

    async def exists(self) -> bool:
        """False once the space was erased, also by another process."""
        ...

    async def metadata(self) -> SpaceMetadata: ...

    async def put(
        self,
        sessions: Sequence[StoredSession],
        *,
        forgotten: Sequence[str] = (),
        spending: Sequence[tuple[date, int]] = (),
    ) -> None:
        """Stores whole sessions in one transaction, without what was forgotten here. Replaces
        sessions that exist. Adds ids of what was `forgotten` elsewhere, and takes the larger
        spending of each day."""
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
        """Adds spent tokens to a day, and reserves `reserve` more; a negative number releases a
        reservation. `limit`: reserves at most what is left of it that day, and nothing if less
        than `least` is left. Returns how many were reserved. Atomic, so that several processes
        together never pass the limit. `session`: the one whose cards cost the tokens."""
        ...

    async def log(
        self, *, after: int | None = None, before: int | None = None, limit: int = 1000
    ) -> Sequence[Entry]:
        """Entries of the change log, in order: the first after a number, or else the latest."""
        ...

    async def check(self) -> Health:
        """Reads the whole space and names what is damaged: changed words, cards without their turns
        or vectors, indexes and sums that disagree. Changes nothing."""
        ...

    async def backup(self, target: Path) -> None:
        """Writes the space to a new file while it is in use. InvalidFile if the file exists."""
        ...

    async def close(self) -> None: ...


async def texts_of(store: Store, ids: Collection[str]) -> dict[str, Session]:
    """The words of the sessions that exist."""
    return {whole.session.id: whole.session for whole in await store.read(ids)}


async def session_in(store: Store, session_id: str) -> Session:
    """NotInMemory if there is no such session."""
    return (await whole_session_in(store, session_id)).session


async def whole_session_in(store: Store, session_id: str) -> StoredSession:
    """NotInMemory if there is no such session."""
    found = await store.read([session_id])
    if not found:
        raise NotInMemory(f"There is no session {session_id!r} in this space.")
    return found[0]


async def card_in(store: Store, card_id: str) -> Card:
    """NotInMemory if there is no such card."""
    found = await store.cards(CardFilter(id=card_id, limit=1))
    if not found:
        raise NotInMemory(f"There is no card {card_id!r} in this space.")
    return found[0]
