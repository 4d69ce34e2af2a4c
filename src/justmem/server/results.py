"""What the tools give back: small, typed, and the same over every transport."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, Field

from justmem.domain import (
    Access,
    Card,
    Citation,
    Kind,
    Receipt,
    SessionRecord,
    SessionState,
    Source,
    Status,
)


class MemoryCard(BaseModel):
    """One remembered fact."""

    id: str
    text: str
    kind: Kind
    status: Status
    event_date: str = Field(description="When it happened, or 'unknown'.")
    said_at: datetime
    session_id: str

    @classmethod
    def of(cls, card: Card) -> MemoryCard:
        return cls(
            id=card.id,
            text=card.text,
            kind=card.kind,
            status=card.status,
            event_date=str(card.event_date),
            said_at=card.said_at,
            session_id=card.session_id,
        )


class Cost(BaseModel):
    """Tokens it took, and what the whole history would have taken instead."""

    tokens: int
    history_tokens: int

    @classmethod
    def of(cls, receipt: Receipt) -> Cost:
        return cls(tokens=receipt.tokens, history_tokens=receipt.history_tokens)


class RememberResult(BaseModel):
    session_id: str
    state: SessionState = Field(description="pending: the words are kept, the cards follow.")
    reason: str = ""
    cards: list[MemoryCard]
    cost: Cost


class RecallResult(BaseModel):
    access: Access
    cards: list[MemoryCard]
    sources: list[Source]
    cost: Cost


class AskResult(BaseModel):
    answer: str
    sufficient: bool = Field(description="False: memory does not hold the answer.")
    citations: list[Citation]
    cards: list[MemoryCard]
    cost: Cost


class ReplayResult(BaseModel):
    card: MemoryCard
    source: Source = Field(description="The original turns, with the card's exact words cited.")


class SessionsResult(BaseModel):
    sessions: list[SessionRecord]
    total: int


class Said(BaseModel):
    """One turn of the conversation to remember."""

    text: str
    role: Literal["user", "assistant"] = "user"
    speaker: str | None = None


class Found(BaseModel):
    id: str
    title: str
    url: str


class SearchResult(BaseModel):
    results: list[Found]


class FetchResult(BaseModel):
    id: str
    title: str
    text: str
    url: str
    metadata: dict[str, str]
