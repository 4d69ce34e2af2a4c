"""A question on its way: limits, ranking and receipts, plan, evidence, answer."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, timedelta
from enum import StrEnum
from typing import Literal, get_args

from pydantic import Field, computed_field

from justmem.domain.cards import UNKNOWN_DATE, Card, EventDate, Turn, Value

Stage = Literal["extract", "plan", "answer", "chat"]


class Budget(Value):
    """All limits. A call that would exceed one is not made. None means no limit."""

    cards: int = Field(10, ge=1, description="cards that selection chooses")
    source_tokens: int = Field(700, ge=0, description="tokens of the turns that REPLAY recovers")
    ask_tokens: int | None = Field(None, ge=1, description="model tokens of one question")
    session_tokens: int | None = Field(
        100_000, ge=1, description="model tokens of remembering one session"
    )
    day_tokens: int | None = Field(None, ge=1, description="model tokens of one day in one space")


_CENTURY = 36_525  # days


class Retention(Value):
    """How many days turns and their cards are kept, counted from the day they were said. None means
    always. `source_days` is for the words: the cards stay. It counts from the day of the session.
    With 0, the words are removed as soon as the cards are made."""

    days: int | None = Field(
        None, ge=1, le=_CENTURY, description="days that turns and their cards are kept"
    )
    source_days: int | None = Field(
        None,
        ge=0,
        le=_CENTURY,
        description="days that the original words are kept; 0: until cards are made",
    )

    @property
    def limited(self) -> bool:
        return self.days is not None or self.source_days is not None

    def first_day(self, now: datetime) -> date:
        """The first day whose sessions are kept."""
        return date.min if self.days is None else now.date() - timedelta(days=self.days)

    def expired(self, at: datetime, now: datetime, until: datetime | None = None) -> bool:
        """`until`: when a note expires by itself."""
        ended = until is not None and until <= now.replace(tzinfo=None)
        return ended or at.date() < self.first_day(now)

    def words_expired(self, at: datetime, now: datetime) -> bool:
        days = self.source_days
        return days is not None and (days == 0 or (now.date() - at.date()).days > days)


class Weights(Value):
    """What each signal is worth. The first five are fitted by `bench/fit.py`, with whole
    conversations and whole data sets held out, and rounded."""

    dense: float = 0.5  # similarity of the card's centred vector, in standard deviations
    lexical: float = 0.3  # rarity of the words that the card and its turns share with the views
    turn: float = 0.2  # similarity of the turns that the card rests on
    subject: float = 1.0  # the views name the card's subject
    date: float = 1.0  # it happened, or was said, in the period asked about
    support: float = 0.4  # the mean of the best three scores of the card's session
    rerank: float = 0.4  # the reranker's probability, for the cards it reads
    session: float = 0.4  # discount for each place that its session already has
    far: float = 3.5  # how far below the best a card may score that is read
    # A card near a chosen one is read too if it scores at most so far below the last of the best
    # `Budget.cards` cards.
    around: float = 0.3
    around_spread: float = 1.0  # the same, where the evidence spans sessions


class Profile(Value):
    """How cards are found and chosen: our default, or only as the paper describes (`PAPER`)."""

    name: Literal["default", "paper"] = "default"
    weights: Weights = Weights()

    @property
    def is_paper(self) -> bool:
        return self.name == "paper"


PAPER = Profile(name="paper")


class Call(Value):
    """One call of a language model, including all its attempts."""

    stage: Stage
    model: str
    tokens_in: int
    tokens_out: int
    undelivered: int = 0  # longest possible size of replies that never came: limits count it
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
    """The work of an embedder or a reranker. It is not part of the language model's tokens."""

    model: str
    items: int = 0
    tokens: int = 0
    seconds: float = 0.0


class Receipt(Value):
    """What an operation cost. For comparison, `history_tokens` is the size of the whole history:
    what a prompt with all of it would have cost."""

    calls: tuple[Call, ...] = ()
    embedding: tuple[Usage, ...] = ()
    reranking: tuple[Usage, ...] = ()
    seconds: Mapping[str, float] = Field(default_factory=dict)
    history_tokens: int = 0
    notes: tuple[str, ...] = ()

    @computed_field  # type: ignore[prop-decorator]
    @property
    def tokens_in(self) -> int:
        return sum(call.tokens_in for call in self.calls)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def tokens_out(self) -> int:
        return sum(call.tokens_out for call in self.calls)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def tokens(self) -> int:
        return self.tokens_in + self.tokens_out


# What is done with the evidence. "reply" is for a remark (`Plan.is_remark`).
Operation = Literal[
    "lookup", "aggregate", "temporal", "order", "compare", "quote", "advice", "reply"
]
OPERATIONS: tuple[Operation, ...] = get_args(Operation)


class Access(StrEnum):
    """How much is read for a question: some cards, cards of several sessions, or original turns.

    A new one also belongs in `Plan.access` (and, if it needs another demand, in plan.py,
    prompts/plan.md and the rules of language/en/questions.py), in retrieve.py (`_views`),
    memory.py (`_evidence`), language/en/answers.py and server/inspector/ask.js."""

    LOOKUP = "LOOKUP"
    COMPOSE = "COMPOSE"
    REPLAY = "REPLAY"


class Plan(Value):
    """What evidence a question needs."""

    operation: Operation = "lookup"
    entities: tuple[str, ...] = ()
    period: EventDate = UNKNOWN_DATE
    spans_sessions: bool = False
    needs_source: bool = False
    rewrites: tuple[str, ...] = ()

    @property
    def is_remark(self) -> bool:
        """Whether it is for a remark: a message that is not a question and gets a reply."""
        return self.operation == "reply"

    @property
    def access(self) -> Access:
        """Equation 1 of the paper."""
        if self.needs_source:
            return Access.REPLAY
        return Access.COMPOSE if self.spans_sessions else Access.LOOKUP


class Candidate(Value):
    """A card that discovery found, with its scores."""

    card: Card
    scores: Mapping[str, float] = Field(default_factory=dict)
    score: float = 0.0


class Citation(Value):
    """The exact words that support an answer or a card: `quote` is `turn.text[start:end]`, checked.
    If the words are not kept, there are only the session and the turn."""

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


class Evidence(Value):
    """A question and the evidence for it: the result of `recall`. Each stage returns it with its
    own part filled in: the plan, the cards, the sources."""

    question: str
    at: datetime
    speaker: str | None = None  # who says it, where known
    plan: Plan = Plan()
    chosen: tuple[Candidate, ...] = ()  # the ten places, best first
    cards: tuple[Card, ...] = ()  # exactly what an answer reads, best first
    earlier: tuple[str, ...] = ()  # ids of cards for which another card has a newer value
    # By card id: the other turns that make the same statement, such as s12#3
    repeats: Mapping[str, tuple[str, ...]] = Field(default_factory=dict)
    corrected: tuple[str, ...] = ()  # ids of cards whose words were corrected by hand
    pinned: tuple[str, ...] = ()  # ids of cards that are pinned to a subject of the question
    sources: tuple[Source, ...] = ()
    sources_kept: bool = True  # False: REPLAY was chosen, but the words are not kept
    candidates: tuple[Candidate, ...] = ()
    receipt: Receipt = Receipt()

    @computed_field  # type: ignore[prop-decorator]
    @property
    def access(self) -> Access:
        return self.plan.access

    def prompt(self, tokens: int = 1500, *, at: datetime | None = None) -> str:
        """The evidence as a fenced block for a model's prompt: the current date, then lines with
        their dates and sources, at most `tokens` in all. Empty if there is no evidence. `at` is
        the current time; default: the time of the question."""
        # Loaded when called: the domain itself knows no tokenizer.
        from justmem.prompts.evidence import prompt_block

        return prompt_block(self, tokens, at).text


class SpaceCard(Value):
    """A card of one of several spaces."""

    space: str
    card: Card
    score: float = 0.0
    earlier: bool = False  # another card has a newer value
    pinned: bool = False


class SpacesEvidence(Value):
    """The evidence of several spaces for a question, in one ranking, best first."""

    question: str
    at: datetime
    cards: tuple[SpaceCard, ...] = ()
    receipt: Receipt = Receipt()

    def prompt(self, tokens: int = 1500, *, at: datetime | None = None) -> str:
        """As `Evidence.prompt`. Each line has its space."""
        from justmem.prompts.evidence import spaces_block

        return spaces_block(self, tokens, at).text


class Answer(Value):
    text: str
    sufficient: bool  # False: the answer is not in memory, and `text` says so
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
