"""Models, the stages that a model or rules can do, and human languages."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from justmem.domain import (
    Call,
    Card,
    Citation,
    EventDate,
    Evidence,
    Plan,
    Quarantined,
    Session,
    Stage,
)
from justmem.errors import BudgetExceeded
from justmem.ports.searches import Vectors
from justmem.runtime import tokens

_ENVELOPE = 24  # tokens that a chat format adds around two messages, at most


@dataclass(frozen=True, slots=True)
class Prompt:
    """A static instruction, the data it is about, and the JSON shape of the reply."""

    stage: Stage
    system: str
    user: str
    schema: Mapping[str, Any]
    max_tokens: int
    limit: int | None = None  # tokens that all attempts together may take
    mark: str = ""  # the number in the tags of `user`, another one in each prompt

    @property
    def tokens(self) -> int:
        """An upper estimate of what it costs: some providers bill the schema as input."""
        texts = (self.system, self.user, json.dumps(self.schema))
        return _ENVELOPE + sum(map(tokens.count, texts))

    def within(self, limit: int | None, *, least: int) -> Prompt:
        """The prompt with its reply shortened so that the call cannot pass `limit`.
        BudgetExceeded if fewer than `least` tokens would be left for the reply."""
        if limit is None:
            return self
        room = limit - self.tokens
        if room < min(least, self.max_tokens):
            raise BudgetExceeded(
                f"The {self.stage} call was not made: it needs about {self.tokens + least} tokens "
                f"and {max(limit, 0)} are left of the limit. Raise the limit in Budget, or give "
                "it less to read."
            )
        return replace(self, max_tokens=min(self.max_tokens, room), limit=limit)

    @property
    def unmarked(self) -> str:
        """`user` without the mark: the same each time."""
        return self.user.replace(f"-{self.mark}>", ">") if self.mark else self.user


@dataclass(frozen=True, slots=True)
class Completion:
    text: str
    call: Call
    truncated: bool = False  # stopped by max_tokens


class LanguageModel(Protocol):
    name: str
    context: int  # tokens that prompt and reply may take together

    async def complete(self, prompt: Prompt) -> Completion:
        """Retries temporary failures. A ModelError holds the call that was paid."""
        ...


@dataclass(frozen=True, slots=True)
class Embedded:
    vectors: Vectors  # one row per text, of unit length
    tokens: int


class Embedder(Protocol):
    """It may also have `relevance_bound`: the score, mostly a cosine, that a relevant question
    reaches (see retrieve.py). Embedders have different scales. Without it, every question counts
    as relevant."""

    name: str
    dim: int

    async def embed(self, texts: Sequence[str], *, query: bool = False) -> Embedded: ...


@dataclass(frozen=True, slots=True)
class Reranked:
    scores: NDArray[np.float32]  # one per text: chances between 0 and 1, or the logits of them
    tokens: int


class Reranker(Protocol):
    name: str

    async def rerank(self, query: str, texts: Sequence[str]) -> Reranked: ...


class Closes(Protocol):
    """A model with connections to close."""

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Extraction:
    """What a session holds. `notes` name whatever was dropped, salvaged or moved."""

    cards: Sequence[Card]
    quarantined: Sequence[Quarantined] = ()
    calls: Sequence[Call] = ()
    notes: Sequence[str] = ()


class Extractor(Protocol):
    async def extract(self, session: Session, *, limit: int | None, after: int = 0) -> Extraction:
        """`limit`: tokens this stage may spend; BudgetExceeded before a call that would not fit.
        `after`: the turns up to this number have their cards. They are context; only cards that
        rest on a later turn are wanted."""
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


NOT_IN_MEMORY = "That is not in memory."


@dataclass(frozen=True, slots=True)
class Reply:
    text: str
    sufficient: bool
    citations: Sequence[Citation] = ()
    calls: Sequence[Call] = ()
    notes: Sequence[str] = ()
    read: Evidence | None = None  # None: all of the evidence


class Answerer(Protocol):
    async def answer(
        self, evidence: Evidence, sessions: Mapping[str, Session], *, limit: int | None
    ) -> Reply:
        """`sessions` holds the raw session of every chosen card, for exact quotations; not those
        whose words are not kept."""
        ...


class Language(Protocol):
    """`justmem.language.languages.LANGUAGES` picks the language of each text. Pure: the same
    input always gives the same result."""

    def cards(self, session: Session) -> list[Card]:
        """Cards in the speakers' own words. TimeLimitExceeded if it takes too long."""
        ...

    def is_small_talk(self, text: str) -> bool:
        """Whether a message is small talk, such as "hi" or "thanks". It needs no search."""
        ...

    def search_text(self, text: str) -> str:
        """The text of a card as it is searched: with names for "I" and "my"."""
        ...

    def name_speaker(self, text: str, speaker: str) -> str:
        """`text` with the speaker's name for "I" and "my"; unchanged if it has neither."""
        ...

    def plan(self, question: str, at: datetime) -> Plan:
        """A plan by the question's wording. TimeLimitExceeded if it takes too long."""
        ...

    def resolve_date(self, text: str, at: datetime) -> EventDate:
        """The date that words such as "last Friday" name; unknown if they name none."""
        ...

    @property
    def name_words(self) -> Sequence[str]:
        """Every card that gives a name has one of these words."""
        ...

    def own_name(self, card: Card) -> str | None:
        """The name that the subject of a card gives themselves: "My name is Oskar"."""
        ...

    def person_asked(self, question: str) -> str | None:
        """Whom a question asks a description of: "Who is Ines?" Empty for the one who asks, as in
        "What do you know about me?"; None for other questions."""
        ...

    def describes(self, card: Card, person: str) -> int | None:
        """How well a card describes a person: 0 is best, None is not at all. If `person` is empty,
        the subject of the card."""
        ...

    def superseded(self, cards: Iterable[Card], on: date) -> frozenset[str]:
        """Ids of the cards for which another card has a newer value, on that day."""
        ...

    def answer(self, evidence: Evidence, sessions: Mapping[str, Session]) -> Reply:
        """Quotations. TimeLimitExceeded if it takes too long."""
        ...
