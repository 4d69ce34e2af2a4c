"""What JustMem needs of the outside: a language model, an embedder, a reranker, a store.

Any object with these methods will do; nothing has to inherit from anything here.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from typing import Any, Literal, Protocol, get_args, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from justmem.domain import (
    Call,
    Card,
    Citation,
    Entry,
    Evidence,
    Forgotten,
    Health,
    Passage,
    Plan,
    Quarantined,
    Session,
    SessionRecord,
    SessionState,
    Sources,
    Stage,
    Stats,
)
from justmem.traces import Traces

Vectors = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Searched:
    """Where traces were looked for, and the places where some were found."""

    files: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    bytes: int = 0
    remains: tuple[str, ...] = ()

    def __add__(self, other: Searched) -> Searched:
        return Searched(
            self.files + other.files,
            self.tables + other.tables,
            self.bytes + other.bytes,
            self.remains + other.remains,
        )


# ---------------------------------------------------------------- models


@dataclass(frozen=True, slots=True)
class Prompt:
    """A static instruction, the data it is about, and the JSON shape of the reply."""

    stage: Stage
    system: str
    user: str
    schema: Mapping[str, Any]
    max_tokens: int
    limit: int | None = None  # tokens that all attempts together may take


@dataclass(frozen=True, slots=True)
class Completion:
    text: str
    call: Call
    truncated: bool = False  # stopped by max_tokens


class LanguageModel(Protocol):
    name: str
    context: int  # tokens that prompt and reply may take together

    async def complete(self, prompt: Prompt, *, sample: int = 0) -> Completion:
        """Retries what is worth retrying; raises ModelError with the call it cost."""
        ...


@runtime_checkable
class StreamingModel(Protocol):
    """What a language model may have besides: a reply that can be read while it is written."""

    def stream(self, prompt: Prompt, *, sample: int = 0) -> AsyncGenerator[str | Completion]:
        """The reply's text in pieces; last, the whole Completion. Read it to the end: what a
        call cost is known only then."""
        ...


@dataclass(frozen=True, slots=True)
class Embedded:
    vectors: Vectors  # one row per text, of unit length
    tokens: int


class Embedder(Protocol):
    name: str
    dim: int

    async def embed(self, texts: Sequence[str], *, query: bool = False) -> Embedded: ...


@dataclass(frozen=True, slots=True)
class Reranked:
    scores: NDArray[np.float32]  # one per text; higher is better, comparable within one reranker
    tokens: int


class Reranker(Protocol):
    name: str

    async def rerank(self, query: str, texts: Sequence[str]) -> Reranked: ...


@runtime_checkable
class KeepingModel(Protocol):
    """What a language model may have besides, if it keeps replies on disk."""

    async def holding(self, traces: Traces) -> int:
        """How many replies hold any of the traces."""
        ...

    async def forget(self, traces: Traces) -> int:
        """Removes those replies, from its file too; how many there were."""
        ...

    async def remains(self, traces: Traces) -> Searched: ...


class Closes(Protocol):
    """What a model over a network may have besides."""

    async def close(self) -> None: ...


# ---------------------------------------------------------------- stages


@dataclass(frozen=True, slots=True)
class Extraction:
    """What a session holds. `notes` name whatever was dropped, salvaged or moved."""

    cards: Sequence[Card]
    quarantined: Sequence[Quarantined] = ()
    calls: Sequence[Call] = ()
    notes: Sequence[str] = ()


class Extractor(Protocol):
    async def extract(self, session: Session, *, limit: int | None) -> Extraction:
        """`limit`: tokens this stage may spend; BudgetExceeded before a call that would not fit."""
        ...


@dataclass(frozen=True, slots=True)
class Planned:
    plan: Plan
    calls: Sequence[Call] = ()
    notes: Sequence[str] = ()


class Planner(Protocol):
    async def plan(self, question: str, at: datetime, *, limit: int | None) -> Planned:
        """`limit` as above."""
        ...


@dataclass(frozen=True, slots=True)
class Reply:
    text: str
    sufficient: bool
    citations: Sequence[Citation] = ()
    calls: Sequence[Call] = ()
    notes: Sequence[str] = ()


class Answerer(Protocol):
    async def answer(
        self, evidence: Evidence, sessions: Mapping[str, Session], *, limit: int | None
    ) -> Reply:
        """`sessions` holds the raw session of every chosen card, for exact quotations; not those
        whose words are not kept."""
        ...


@runtime_checkable
class StreamingAnswerer(Protocol):
    """What an answerer may have besides."""

    def stream(
        self, evidence: Evidence, sessions: Mapping[str, Session], *, limit: int | None
    ) -> AsyncGenerator[str | Reply]:
        """Pieces of the answer's text as they come; last, the Reply, which `answer` would give."""
        ...


# ---------------------------------------------------------------- store

_SETTLED = (SessionState.STORED, SessionState.EMPTY)

Index = Literal["cards", "passages"]
INDEXES: tuple[Index, ...] = get_args(Index)

Place = tuple[str, int]  # a session's id and the number of one of its turns


@dataclass(frozen=True, slots=True)
class View:
    """A query used to discover: the question or a rewrite."""

    text: str
    vector: Vectors  # shape (dim,)


@dataclass(frozen=True, slots=True)
class Hits:
    """What one view found, best first, as (key, score). Keys are the store's own row numbers:
    hand them back to `cards_at` or `passages_at`."""

    dense: Sequence[tuple[int, float]]
    lexical: Sequence[tuple[int, float]]


@dataclass(frozen=True, slots=True)
class Reach:
    """How far a search goes, for each of its views."""

    dense: int  # cards by nearness
    lexical: int  # cards by their words
    spoken: int  # turns by their words, which lead to the cards that rest on them
    quotes: int  # of those turns, the best that no card rests on, in all
    until: date | None = None  # nothing that was said on a later day


@dataclass(frozen=True, slots=True)
class Found:
    """What the views lead to, all of one moment of the store."""

    cards: Mapping[int, Card]  # by key, in rising order
    vectors: Vectors  # of these cards, in that order
    hits: Sequence[Hits]  # for each view, the keys of the cards it found itself
    places: Sequence[Mapping[Place, float]]  # for each view, the turns that share its words
    turns: Mapping[Place, Vectors]  # of the turns behind the cards, and of those to quote
    sessions: Mapping[str, Session]  # to quote from


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

    def wordless(self) -> Digested:
        """What is left of it where the words are not kept."""
        return replace(self, passages=(), passage_vectors=np.zeros((0, 0), np.float32))


@dataclass(frozen=True, slots=True)
class Extent:
    """How much there is, at a glance: asked at every question, so it must cost next to nothing."""

    last_at: datetime | None  # the time of the latest session
    cards: int
    tokens: int  # of all turns: what the full history would cost in a prompt


@dataclass(frozen=True, slots=True)
class CardFilter:
    subject: str | None = None
    kind: str | None = None
    status: str | None = None
    session_id: str | None = None
    text: str | None = None  # words that must occur
    limit: int = 1000
    offset: int = 0


Audit = Literal["all", "writes", "off"]
_GOING = ("forget", "erase", "drop_sources")  # always entered
CHANGES = ("keep", "settle", "fail", *_GOING, "reembed", "import", "copy")
MOST_TARGETS = 100  # of one entry: what touches more says how many


@dataclass(frozen=True, slots=True)
class Deed:
    """Something done, on its way into the audit. `targets` are ids; a store enters their marks."""

    at: datetime
    actor: str
    verb: str
    targets: Sequence[str]
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Author:
    """In whose name something is done, and how much of it the audit is to have."""

    actor: str
    clock: Callable[[], datetime]
    audit: Audit = "all"

    def did(self, verb: str, targets: Sequence[str] = (), **counts: int) -> list[Deed]:
        """The deed, or none where the setting leaves it out. Forgetting is never left out."""
        changes = verb in CHANGES
        wanted = {"all": True, "writes": changes, "off": verb in _GOING}
        if not wanted[self.audit]:
            return []
        at = self.clock().astimezone(UTC)
        named = tuple(dict.fromkeys(targets))
        return [Deed(at, self.actor, verb, named if len(named) <= MOST_TARGETS else (), counts)]


@dataclass(frozen=True, slots=True)
class EntryFilter:
    after: int = 0  # numbers above this one
    before: int | None = None  # numbers below this one
    since: datetime | None = None
    target: str | None = None  # an id: entries that name it
    latest: bool = False  # the last `limit` of them; else the first
    limit: int = 1000


class Store(Protocol):
    """The memory of one space."""

    space: str

    def by(self, author: Author) -> Store:
        """The same store in somebody's name: each change made through it is entered in the audit,
        in the same transaction. A store that was never given a name enters nothing."""
        ...

    def note(self, deeds: Sequence[Deed]) -> None:
        """Has the audit enter what was read. Returns at once: reading waits for no writing, and
        goes on where nothing can be written."""
        ...

    async def entries(self, where: EntryFilter) -> Sequence[Entry]:
        """Of the audit, in order of their numbers."""
        ...

    def copying(self) -> CopyableStore:
        """What copying, export and import ask of it besides."""
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

    async def blanked(self, session: Session) -> Session:
        """The session as `keep` would keep it."""
        ...

    async def settle(self, session: Session, digested: Digested) -> None:
        """Replaces all that was derived from the session, in one transaction, and makes
        `session` its current text. In a space that drops its sources the words, the passages
        and their vectors go instead."""
        ...

    async def fail(self, session_id: str, reason: str) -> None: ...

    async def session(self, session_id: str) -> Session:
        """The current text: the one its cards come from. NotInMemory if there is no such session,
        SourceNotKept if there is and its words are not kept."""
        ...

    async def sessions_at(self, ids: Sequence[str]) -> Mapping[str, Session]:
        """The current texts of those that there are and whose words are kept."""
        ...

    async def waiting(self) -> Sequence[Session]:
        """The newest text of each session that is pending or failed, oldest first."""
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

    async def cards_at(self, keys: Sequence[int]) -> Mapping[int, Card]: ...

    async def passages_at(self, keys: Sequence[int]) -> Mapping[int, Passage]: ...

    async def card(self, card_id: str) -> Card: ...

    async def cards(self, where: CardFilter) -> Sequence[Card]: ...

    async def mentions(self, text: str) -> Sequence[Passage]:
        """Every passage that holds all words of the text, in order of keys."""
        ...

    async def quarantined(self, session_id: str) -> Sequence[Quarantined]: ...

    async def forget(
        self,
        *,
        cards: Sequence[str] = (),
        turns: Sequence[Place] = (),
        sessions: Sequence[str] = (),
        subject: str | None = None,
    ) -> Forgotten:
        """Removes them and everything derived from them, on disk too. A card or a turn forgotten
        on its own stays forgotten when its session is remembered again. `subject`: quarantined
        cards about it go too."""
        ...

    async def remains(self, traces: Traces) -> Searched:
        """Rids the disk of everything that was deleted, then looks for the traces in every file
        and table there is, also after `erase`."""
        ...

    async def sources(self) -> Sources:
        """Whether the words stay once their cards are made. Fixed in the space itself, so that
        no process can do otherwise."""
        ...

    async def drop_sources(self, *, fresh: bool = False) -> Forgotten:
        """Lets the words of all settled sessions go, now and from now on, on disk too; there is
        no way back. Sessions whose cards are still to be made keep theirs until then. `fresh`:
        only if no session is there yet, InvalidSetting otherwise."""
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

    async def close(self) -> None: ...


@runtime_checkable
class ClaimingStore(Protocol):
    """What a store may have besides, if several processes make cards at once."""

    def claim(self, session_id: str) -> AbstractAsyncContextManager[bool]:
        """False inside the block if another process makes this session's cards, or has made
        them: one extraction is paid for, however many try."""
        ...


@dataclass(frozen=True, slots=True)
class Whole:
    """All that a store holds of one session."""

    session: Session  # the current text; without turns if its words are not kept
    digested: Digested  # what was made of it
    waiting: Session | None = None  # a changed text whose cards are still to be made
    failure: str = ""  # why that could not be done
    dropped: tuple[str, int] | None = None  # digest and number of turns of words not kept

    def wordless(self) -> Whole:
        """As a space that drops its sources has it."""
        if self.dropped is not None or self.digested.state not in _SETTLED:
            return self
        bare = self.session.model_copy(update={"turns": ()})
        told = (self.session.digest, len(self.session.turns))
        return replace(self, session=bare, digested=self.digested.wordless(), dropped=told)


class CopyableStore(Protocol):
    """What copying between stores asks of one, beside the Store itself."""

    @property
    def store(self) -> Store: ...

    async def embedder(self) -> tuple[str, int]: ...

    async def wholes(self, ids: Sequence[str]) -> Sequence[Whole]: ...

    async def take(self, wholes: Sequence[Whole], *, verb: str = "copy") -> None:
        """Stores them as they are, but for what was forgotten here; all or none. What is there
        already of a session is replaced. `verb` is what the audit calls it."""
        ...

    async def forgotten(self) -> Sequence[str]:
        """Ids of cards and marks of turns forgotten on their own, in order."""
        ...

    async def take_forgotten(self, ids: Sequence[str]) -> None: ...

    async def spending(self) -> Sequence[tuple[date, int]]:
        """Tokens spent, by day, in order."""
        ...
