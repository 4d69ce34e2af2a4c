"""A question on its way: plan, evidence, answer."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Literal, get_args

from pydantic import Field, computed_field

from justmem.domain.cards import UNKNOWN_DATE, Card, EventDate, Value
from justmem.domain.conversations import Turn
from justmem.domain.limits import Receipt

# What is done with the evidence. "reply" is for a remark, which is not a question.
Operation = Literal[
    "lookup", "aggregate", "temporal", "order", "compare", "quote", "advice", "reply"
]
OPERATIONS: tuple[Operation, ...] = get_args(Operation)


class Access(StrEnum):
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
