"""The nouns of JustMem: pure values, no I/O.

Everything here is frozen. Turn numbers count from 1, as people count.
"""

from __future__ import annotations

import calendar
import hashlib
import json
import re
from collections.abc import Collection, Mapping, Sequence
from datetime import date, datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field

Role = Literal["user", "assistant", "system", "tool"]
Kind = Literal[
    "fact", "event", "preference", "state", "measurement", "relation", "list", "interaction"
]
Status = Literal["stable", "ongoing", "planned", "completed"]
Operation = Literal["lookup", "aggregate", "temporal", "order", "compare"]
Mode = Literal[
    "short", "list", "count", "date", "duration", "yesno", "order", "advice", "verbatim", "reply"
]
Precision = Literal["day", "month", "year", "range", "unknown"]
Stage = Literal["extract", "plan", "answer"]
Sources = Literal["keep", "drop"]  # whether a space keeps the words its cards were made from

ROLES: tuple[Role, ...] = get_args(Role)
KINDS: tuple[Kind, ...] = get_args(Kind)
STATUSES: tuple[Status, ...] = get_args(Status)
OPERATIONS: tuple[Operation, ...] = get_args(Operation)
MODES: tuple[Mode, ...] = get_args(Mode)


class Value(BaseModel):
    """A frozen value that refuses fields it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def trusted(cls, **fields: Any) -> Self:
        """Of fields that we wrote ourselves, all of them, unchecked: what `model_construct` does,
        without looking for those left out. A search makes hundreds."""
        value = cls.__new__(cls)
        for name, held in (
            ("__dict__", fields),
            ("__pydantic_fields_set__", set(fields)),
            ("__pydantic_extra__", None),
            ("__pydantic_private__", None),
        ):
            object.__setattr__(value, name, held)
        return value


# ---------------------------------------------------------------- conversations


class Turn(Value):
    """One utterance. One that was forgotten keeps its number and its speaker, and has no words."""

    speaker: str
    role: Role = "user"
    text: str
    at: datetime | None = None
    forgotten: bool = False


class Session(Value):
    """A dated conversation. `at` is when it took place, never when it was stored."""

    id: str
    at: datetime
    turns: tuple[Turn, ...]

    @property
    def digest(self) -> str:
        """Changes when anything that was said, or when, changes."""
        said = [(t.speaker, t.role, t.text, t.at.isoformat() if t.at else None) for t in self.turns]
        canonical = json.dumps([self.at.isoformat(), said], ensure_ascii=True)
        return hashlib.sha256(canonical.encode()).hexdigest()

    def turn(self, number: int) -> Turn:
        return self.turns[number - 1]

    @property
    def user_side(self) -> tuple[tuple[int, Turn], ...]:
        """The numbered turns that cards are made from (in a two-person chat: all of them)."""
        return tuple(
            (n, t) for n, t in enumerate(self.turns, 1) if t.role == "user" and not t.forgotten
        )

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
    EMPTY = "empty"  # nothing durable was said
    FAILED = "failed"  # cards could not be made; `reason` says why


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


# ---------------------------------------------------------------- cards

_ISO = re.compile(r"(\d{4})(?:-(\d{2})(?:-(\d{2}))?)?(?:T.*)?")


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


class Card(Value):
    """One atomic memory, linked to the turns it rests on."""

    id: str
    subject: str
    fact: str
    event_date: EventDate = UNKNOWN_DATE
    status: Status = "stable"
    kind: Kind = "fact"
    session_id: str
    said_at: datetime
    turns: tuple[int, ...]

    @property
    def text(self) -> str:
        return f"{self.subject} {self.fact}"

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


class Quarantined(Value):
    """A card that no turn supports: kept for inspection, never used as memory."""

    subject: str
    fact: str
    reason: str


class Passage(Value):
    """A stretch of one turn, as the source index holds it. Most turns are one passage."""

    session_id: str
    turn: int
    start: int
    end: int


# ---------------------------------------------------------------- questions


class Access(StrEnum):
    LOOKUP = "LOOKUP"
    COMPOSE = "COMPOSE"
    REPLAY = "REPLAY"


class Plan(Value):
    """What a question needs. It says nothing of the answer."""

    operation: Operation = "lookup"
    mode: Mode = "short"
    entities: tuple[str, ...] = ()
    period: EventDate = UNKNOWN_DATE
    routes: tuple[Kind, ...] = ()
    spans_sessions: bool = False
    needs_source: bool = False
    rewrites: tuple[str, ...] = ()

    @property
    def access(self) -> Access:
        """Equation 1 of the paper."""
        if self.needs_source:
            return Access.REPLAY
        return Access.COMPOSE if self.spans_sessions else Access.LOOKUP


class Candidate(Value):
    """A card that discovery found, with every score that ordered it."""

    card: Card
    scores: Mapping[str, float] = Field(default_factory=dict)
    score: float = 0.0
    also: tuple[Card, ...] = ()  # near-duplicates that share its slot, for their provenance


class Citation(Value):
    """The exact words an answer or a card rests on: `quote` is `turn.text[start:end]`, checked.
    Where the words are not kept, the place alone: no speaker, no quote."""

    session_id: str
    turn: int
    speaker: str
    said_at: datetime
    quote: str
    start: int
    end: int
    card_id: str | None = None
    kept: bool = True  # False: this space does not keep the words


class Source(Value):
    """Original turns, as (number, turn) pairs in their order: what REPLAY recovers, and what
    `source(card)` shows with the card's own words cited."""

    session_id: str
    at: datetime
    turns: tuple[tuple[int, Turn], ...]
    whole: bool = False
    tokens: int = 0
    citations: tuple[Citation, ...] = ()


class Call(Value):
    """One call of a language model, all of its attempts together."""

    stage: Stage
    model: str
    tokens_in: int
    tokens_out: int
    undelivered: int = 0  # at most so many of replies that never came: limits count them
    cached: int = 0
    estimated: bool = False  # the provider gave no usage: counted here with o200k_base
    attempts: int = 1
    seconds: float = 0.0
    error: str = ""

    @property
    def counted(self) -> int:
        """What a limit counts."""
        return self.tokens_in + self.tokens_out + self.undelivered


class Usage(Value):
    """Work of an embedder or a reranker: kept apart from the language model's tokens."""

    model: str
    items: int = 0
    tokens: int = 0
    seconds: float = 0.0


class Receipt(Value):
    """What something cost. `history_tokens` is what putting the whole history into the
    prompt would have cost instead."""

    calls: tuple[Call, ...] = ()
    embedding: tuple[Usage, ...] = ()
    reranking: tuple[Usage, ...] = ()
    seconds: Mapping[str, float] = Field(default_factory=dict)
    history_tokens: int = 0
    notes: tuple[str, ...] = ()

    @property
    def tokens_in(self) -> int:
        return sum(call.tokens_in for call in self.calls)

    @property
    def tokens_out(self) -> int:
        return sum(call.tokens_out for call in self.calls)

    @property
    def tokens(self) -> int:
        return self.tokens_in + self.tokens_out


class Evidence(Value):
    """What memory holds that bears on a question: the result of `recall`."""

    question: str
    at: datetime
    speaker: str | None = None  # who says it, where known
    plan: Plan
    chosen: tuple[Candidate, ...] = ()
    sources: tuple[Source, ...] = ()
    sources_kept: bool = True  # False: REPLAY was called for, and the words are not kept
    candidates: tuple[Candidate, ...] = ()
    receipt: Receipt = Receipt()

    @property
    def access(self) -> Access:
        return self.plan.access

    @property
    def cards(self) -> tuple[Card, ...]:
        return tuple(candidate.card for candidate in self.chosen)


class Answer(Value):
    text: str
    sufficient: bool  # False: memory does not hold the answer, and `text` says so
    citations: tuple[Citation, ...]
    evidence: Evidence
    receipt: Receipt

    @property
    def plan(self) -> Plan:
        return self.evidence.plan

    @property
    def access(self) -> Access:
        return self.evidence.access

    def __str__(self) -> str:
        return self.text


# ---------------------------------------------------------------- results of the other verbs


class Remembered(Value):
    """What became of one session."""

    session_id: str
    state: SessionState
    reason: str = ""
    cards: tuple[Card, ...] = ()
    quarantined: tuple[Quarantined, ...] = ()
    unchanged: bool = False  # known already, word for word: nothing was done or spent
    receipt: Receipt = Receipt()


class Entry(Value):
    """One line of the audit: who did what, when, to how much. It holds no words: `targets` are
    keyed hashes of ids. `before` is the hash of the entry before, so that none can be changed or
    taken out unseen."""

    number: int
    at: datetime  # UTC
    actor: str
    verb: str
    targets: tuple[str, ...] = ()
    counts: Mapping[str, int] = Field(default_factory=dict)
    before: str
    hash: str

    @property
    def digest(self) -> str:
        """What `hash` has to be."""
        said = spoken(self.at, self.actor, self.verb, self.targets, self.counts)
        return hashlib.sha256(chained(self.number, said, self.before).encode()).hexdigest()


def spoken(
    at: datetime, actor: str, verb: str, targets: Sequence[str], counts: Mapping[str, int]
) -> str:
    """The inner part of an entry's canonical JSON: known before its number is."""
    said = [at.isoformat(timespec="milliseconds"), actor, verb, list(targets), counts]
    return json.dumps(said, sort_keys=True, separators=(",", ":"))[1:-1]


def chained(number: int, said: str, before: str) -> str:
    """An entry's canonical JSON: an array, in ASCII, without spaces, keys in order."""
    return f'[{number},{said},"{before}"]'


class Checked(Value):
    """What looking through the audit found. `last` is its newest entry's hash: kept elsewhere, it
    shows later whether everything up to it is still there."""

    entries: int = 0
    last: str = ""
    problem: str = ""  # where the chain breaks, and how

    @property
    def whole(self) -> bool:
        return not self.problem


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


class Loaded(Value):
    """What `load` took from an export."""

    sessions: int = 0  # in the file
    brought: int = 0  # by this call; the others were here already
    cards: int = 0  # of those that were brought
    embedded: int = 0  # texts whose vectors had to be made
    forgotten: int = 0


class Expiring(Value):
    """What is older than its space allows: sessions whole, and cards of other sessions."""

    sessions: tuple[SessionRecord, ...] = ()
    cards: tuple[Card, ...] = ()

    @property
    def counted(self) -> Forgotten:
        of_sessions = sum(record.cards for record in self.sessions)
        return Forgotten(
            cards=len(self.cards) + of_sessions,
            sessions=len(self.sessions),
            turns=sum(record.turns for record in self.sessions),
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
    # The audit's entry for it. A whole space takes its audit along: this is then all that is left.
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
    sources: Sources = "keep"


class Damage(Value):
    """Something in a store that cannot be right, and what to do about it."""

    what: str
    fix: str


class Health(Value):
    """What `check` went through, and what it found wrong."""

    space: str
    sessions: int
    cards: int
    passages: int
    damage: tuple[Damage, ...] = ()

    @property
    def sound(self) -> bool:
        return not self.damage


class Rescued(Value):
    """What was brought out of a damaged file, and what is gone. Sessions go by their ids."""

    space: str
    sessions: int
    turns: int
    cards: int
    anew: tuple[str, ...] = ()  # their words are there; `retry` makes their cards again
    doubtful: tuple[str, ...] = ()  # their words can be read, but are not those that were stored
    lost: tuple[str, ...] = ()  # their words cannot be read
    loose: tuple[str, ...] = ()  # what cards of those said; not brought, for nothing backs them
    unreadable: int = 0  # rows that were passed over


# ---------------------------------------------------------------- limits


class Budget(Value):
    """Every limit. A call that would pass one is not made; None means no limit."""

    cards: int = Field(10, ge=1)
    dense: int = Field(40, ge=0)  # candidates per view
    lexical: int = Field(20, ge=0)  # candidates per view
    rerank: int = Field(12, ge=1)  # candidates the reranker reads (in the paper's profile: all)
    source_tokens: int = Field(1500, ge=0)
    ask_tokens: int | None = Field(None, ge=1)
    session_tokens: int | None = Field(100_000, ge=1)
    day_tokens: int | None = Field(None, ge=1)


class Retention(Value):
    """How many days things are kept, counted from the time of their session; None means always.
    A card goes with its session, or earlier if its kind has fewer days."""

    days: int | None = Field(None, ge=1)  # sessions, words and cards
    kinds: Mapping[Kind, Annotated[int, Field(ge=1)]] = Field(default_factory=dict)  # cards

    def session_expired(self, at: datetime, now: datetime) -> bool:
        return _older(at, now, self.days)

    def card_expired(self, card: Card, now: datetime) -> bool:
        """With its session, or by its kind."""
        return any(_older(card.said_at, now, d) for d in (self.days, self.kinds.get(card.kind)))

    @property
    def limited(self) -> bool:
        return self.days is not None or bool(self.kinds)


def _older(at: datetime, now: datetime, days: int | None) -> bool:
    if days is None:
        return False
    # Both are times on a wall: a zone, where a store was given one, is left out.
    return now.replace(tzinfo=None) - at.replace(tzinfo=None) > timedelta(days=days)


class Weights(Value):
    """What each signal is worth when cards are ranked. The first three are standardised over the
    candidates and averaged; the others are added, in standard deviations of that average."""

    dense: float = 1.0  # the card's vector
    lexical: float = 0.5  # its words and those of its turns
    turn: float = 0.5  # the vectors of its turns
    subject: float = 1.0  # it is about whom the question names
    period: float = 0.6  # its event lies in the period asked about
    kind: float = 0.2  # it is of a kind that the plan expects
    quote: float = -0.5  # it is a quote: nothing says that it is worth remembering
    rerank: float = 0.25  # what the reranker thinks of it, among those it reads
    remark_lexical: float = 0.2  # instead of `lexical`: what lies behind a remark shares few words
    remark_turn: float = 0.0  # instead of `turn`, likewise
    remark_reason: float = 1.0  # it tells a reason, a resolution, a lesson or a trouble


class Profile(Value):
    """The places where our default goes beyond the paper. Each can be switched off by itself."""

    name: str = "default"
    select_by: Literal["views", "question"] = "views"  # question: a reranker's word alone (Eq. 3)
    replay: Literal["turns", "session"] = "turns"  # session: the best card's, whole
    rewrites_under_replay: bool = True
    speaker: bool = True  # "I" in a question is put as the speaker's name
    turns: bool = True  # a card is also found and weighed by the turns it rests on
    quotes: bool = True  # turns that no card rests on may be chosen
    merge: bool = True  # cards that add nothing share a slot
    reasons: bool = True  # behind a remark, more is looked through, and for reasons
    weights: Weights = Weights()


PAPER = Profile(
    name="paper",
    select_by="question",
    replay="session",
    rewrites_under_replay=False,
    speaker=False,
    turns=False,
    quotes=False,
    merge=False,
    reasons=False,
)


def dump(value: BaseModel) -> dict[str, Any]:
    """A value as plain JSON types."""
    return value.model_dump(mode="json")
