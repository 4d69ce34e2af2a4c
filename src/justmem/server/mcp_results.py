"""What the tools give back: small, typed, and the same over every transport."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from justmem.domain import (
    Access,
    Card,
    Citation,
    Forgotten,
    Kind,
    Receipt,
    SessionRecord,
    SessionState,
    Source,
    Status,
    dump,
)


class MemoryCard(BaseModel):
    """One remembered fact."""

    id: str
    text: str
    kind: Kind
    status: Status
    event_date: str = Field(description="When it happened, or 'unknown'.")
    said_at: str
    session_id: str

    @classmethod
    def of(cls, card: Card) -> MemoryCard:
        return cls(
            id=card.id,
            text=card.text,
            kind=card.kind,
            status=card.status,
            event_date=str(card.event_date),
            said_at=card.said_at.isoformat(),
            session_id=card.session_id,
        )


class Line(BaseModel):
    """One turn of a conversation, numbered from 1."""

    number: int
    speaker: str
    text: str


class Conversation(BaseModel):
    """Original turns."""

    session_id: str
    at: str
    turns: list[Line]

    @classmethod
    def of(cls, source: Source) -> Conversation:
        turns = [Line(number=n, speaker=turn.speaker, text=turn.text) for n, turn in source.turns]
        return cls(session_id=source.session_id, at=source.at.isoformat(), turns=turns)


class Quote(BaseModel):
    """The exact words something rests on."""

    session_id: str
    turn: int
    speaker: str
    said_at: str
    quote: str

    @classmethod
    def of(cls, citation: Citation) -> Quote:
        return cls(
            session_id=citation.session_id,
            turn=citation.turn,
            speaker=citation.speaker,
            said_at=citation.said_at.isoformat(),
            quote=citation.quote if citation.kept else "(the words are not kept)",
        )


class SessionRow(BaseModel):
    id: str
    at: str
    state: SessionState
    reason: str
    turns: int
    cards: int

    @classmethod
    def of(cls, record: SessionRecord) -> SessionRow:
        return cls(
            id=record.id,
            at=record.at.isoformat(),
            state=record.state,
            reason=record.reason,
            turns=record.turns,
            cards=record.cards,
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
    sources: list[Conversation]
    cost: Cost


class AskResult(BaseModel):
    answer: str
    sufficient: bool = Field(description="False: memory does not hold the answer.")
    citations: list[Quote]
    cards: list[MemoryCard]
    cost: Cost


class ReplayResult(BaseModel):
    card: MemoryCard
    source: Conversation
    quotes: list[Quote] = Field(description="The exact words the card rests on.")


class Proof(BaseModel):
    """That it was looked for afterwards and not found."""

    target: str
    at: str
    digests: list[str] = Field(description="SHA-256 of each deleted text.")
    held: dict[str, str] = Field(description="Those that something else in memory still says.")
    files: list[str]
    unsearched: list[str] = Field(description="Files that cannot be searched, such as archives.")
    tables: list[str]
    bytes: int
    remains: int


class ForgetResult(BaseModel):
    """How much is gone."""

    cards: int
    sessions: int
    turns: int
    quarantined: int
    replies: int
    certificate: Proof | None = None

    @classmethod
    def of(cls, gone: Forgotten) -> ForgetResult:
        given = dump(gone)
        given.pop("entry")
        if given["certificate"] is not None:
            known = Proof.model_fields
            given["certificate"] = {name: given["certificate"][name] for name in known}
        return cls(**given)


class SessionsResult(BaseModel):
    sessions: list[SessionRow]
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
