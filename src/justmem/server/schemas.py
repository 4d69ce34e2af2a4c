"""What requests and answers look like, with an example of each for OpenAPI."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from typing import Annotated, Any, Literal

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field

from justmem.domain import (
    Access,
    Answer,
    Call,
    Candidate,
    Card,
    Citation,
    Entry,
    Evidence,
    Forgotten,
    Kind,
    Plan,
    Preview,
    Quarantined,
    Receipt,
    Remembered,
    SessionRecord,
    SessionState,
    Source,
    SpaceCard,
    SpacesEvidence,
    Status,
    Usage,
)
from justmem.plan import PlanParts

# 2024-05-20T14:30 and everything else that `sessions.as_time` reads
Time = Annotated[
    str | float,
    Field(
        description="ISO 8601, or seconds since 1970. Read as the clock on the speaker's wall: "
        "an offset is left out.",
        examples=["2024-05-20T14:30"],
    ),
]


class Request(BaseModel):
    model_config = ConfigDict(extra="forbid")


# ---------------------------------------------------------------- sessions


class TurnIn(Request):
    """One utterance: `text` (or `content`), by a `speaker` or in a `role`."""

    role: Literal["user", "assistant", "system", "developer", "tool", "function"] | None = None
    speaker: str | None = None
    text: str | None = None
    content: str | list[dict[str, Any]] | None = None
    at: Time | None = None
    key: str | None = Field(None, description="Your own key: a turn is added once under it.")
    forgotten: bool | None = Field(None, description="Its words were forgotten: none are given.")


class SessionIn(Request):
    """A dated conversation. `id` is yours to choose; without one it is made from the content."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "id": "chat-17",
                    "at": "2024-05-20T20:00",
                    "turns": [
                        {"role": "user", "text": "Bought a gravel bike today, 1,450 euros."},
                        {"role": "assistant", "text": "Nice! What colour?"},
                        {"role": "user", "text": "Moss green."},
                    ],
                }
            ]
        },
    )

    id: str | None = Field(None, max_length=200)
    at: Time | None = None
    turns: list[TurnIn] = Field(min_length=1, max_length=10_000)


class TurnsIn(Request):
    """Turns to add to a session. `at` is when the session takes place, if it is not there yet."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {"turns": [{"role": "user", "text": "It has a bell now.", "key": "message-9"}]}
            ]
        },
    )

    at: Time | None = None
    turns: list[TurnIn] = Field(min_length=1, max_length=10_000)


class Accepted(BaseModel):
    """The words are kept. The cards follow: ask `status_url`."""

    session_id: str
    state: SessionState
    status_url: str


class SessionStatus(BaseModel):
    """`waiting`: this server is at it, or has it in turn. The receipt is there for sessions
    remembered since the server started."""

    session: SessionRecord
    waiting: bool
    receipt: ReceiptOut | None = None


class SessionList(BaseModel):
    sessions: list[SessionRecord]
    next: int | None = Field(None, description="The offset of the next page.")


class RememberedOut(BaseModel):
    session_id: str
    state: SessionState
    reason: str
    unchanged: bool
    cards: list[Card]
    quarantined: list[Quarantined]
    receipt: ReceiptOut

    @classmethod
    def of(cls, done: Remembered) -> RememberedOut:
        return cls(
            session_id=done.session_id,
            state=done.state,
            reason=done.reason,
            unchanged=done.unchanged,
            cards=list(done.cards),
            quarantined=list(done.quarantined),
            receipt=ReceiptOut.of(done.receipt),
        )


class Retried(BaseModel):
    sessions: int


# ---------------------------------------------------------------- questions


class Question(Request):
    """`at` is when it is asked: "last week" counts from there, and what was said on later days is
    left out. Without it: now, by the server's clock. `speaker` is who asks: "my" is theirs.
    `plan` is your plan for it, or parts of one: no model is called to make one.
    `candidates` adds everything discovery found to what was chosen of it."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {"question": "What did my bike cost?", "at": "2024-06-01T12:00"},
                {
                    "question": "Which sports have I taken up?",
                    "plan": {"rewrites": ["ran a race", "joined a riding group"]},
                },
            ]
        },
    )

    question: str = Field(min_length=1, max_length=100_000)
    at: Time | None = None
    speaker: str | None = Field(None, min_length=1, max_length=200)
    plan: PlanParts | None = None
    candidates: bool = False


class Recall(Question):
    """`prompt`: adds a block of at most so many tokens for a model's prompt."""

    prompt: int | None = Field(None, ge=1, le=100_000)


class RecallSpaces(Request):
    """`spaces`: the names of those to recall from. The rest as for one space."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{"question": "When do we meet?", "spaces": ["ana", "team"]}]
        },
    )

    question: str = Field(min_length=1, max_length=100_000)
    spaces: list[str] = Field(min_length=1, max_length=20)
    at: Time | None = None
    speaker: str | None = Field(None, min_length=1, max_length=200)
    plan: PlanParts | None = None
    prompt: int | None = Field(None, ge=1, le=100_000)


class ReceiptOut(BaseModel):
    """What it cost, and what putting the whole history into the prompt would have."""

    tokens_in: int
    tokens_out: int
    tokens: int
    history_tokens: int
    calls: list[Call]
    embedding: list[Usage]
    reranking: list[Usage]
    seconds: Mapping[str, float]
    notes: list[str]

    @classmethod
    def of(cls, receipt: Receipt) -> ReceiptOut:
        return cls(
            tokens_in=receipt.tokens_in,
            tokens_out=receipt.tokens_out,
            tokens=receipt.tokens,
            history_tokens=receipt.history_tokens,
            calls=list(receipt.calls),
            embedding=list(receipt.embedding),
            reranking=list(receipt.reranking),
            seconds=receipt.seconds,
            notes=list(receipt.notes),
        )


class EvidenceOut(BaseModel):
    question: str
    at: datetime
    access: Access
    plan: Plan
    chosen: list[Candidate] = Field(description="The ten places, best first.")
    cards: list[Card] = Field(description="The cards that an answer reads, in this order.")
    sources: list[Source]
    candidates: list[Candidate] | None = None
    prompt: str | None = Field(None, description="The evidence as a block for a model's prompt.")
    receipt: ReceiptOut

    @classmethod
    def of(cls, evidence: Evidence, *, candidates: bool, prompt: int | None = None) -> EvidenceOut:
        return cls(
            question=evidence.question,
            at=evidence.at,
            access=evidence.access,
            plan=evidence.plan,
            chosen=list(evidence.chosen),
            cards=list(evidence.cards),
            sources=list(evidence.sources),
            candidates=list(evidence.candidates) if candidates else None,
            prompt=None if prompt is None else evidence.prompt(prompt),
            receipt=ReceiptOut.of(evidence.receipt),
        )


class SpacesEvidenceOut(BaseModel):
    """The cards of several spaces in one ranking, best first."""

    question: str
    at: datetime
    cards: list[SpaceCard]
    prompt: str | None = Field(None, description="The evidence as a block for a model's prompt.")
    receipt: ReceiptOut

    @classmethod
    def of(cls, evidence: SpacesEvidence, *, prompt: int | None = None) -> SpacesEvidenceOut:
        return cls(
            question=evidence.question,
            at=evidence.at,
            cards=list(evidence.cards),
            prompt=None if prompt is None else evidence.prompt(prompt),
            receipt=ReceiptOut.of(evidence.receipt),
        )


class AnswerOut(BaseModel):
    answer: str
    sufficient: bool = Field(description="False: memory does not hold the answer.")
    citations: list[Citation]
    evidence: EvidenceOut
    receipt: ReceiptOut

    @classmethod
    def of(cls, answer: Answer, *, candidates: bool) -> AnswerOut:
        return cls(
            answer=answer.text,
            sufficient=answer.sufficient,
            citations=list(answer.citations),
            evidence=EvidenceOut.of(answer.evidence, candidates=candidates),
            receipt=ReceiptOut.of(answer.receipt),
        )


# ---------------------------------------------------------------- cards, spaces, forgetting


class CardQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")

    subject: str | None = Field(None, description="Whom or what they are about.")
    kind: Kind | None = None
    status: Status | None = None
    session: str | None = Field(None, description="The session they come from.")
    text: str | None = Field(None, description="Words that must occur.")
    limit: int = Field(100, ge=1, le=1000)
    offset: int = Field(0, ge=0, le=2**31)


Cards = Annotated[CardQuery, Query()]


class CardList(BaseModel):
    cards: list[Card]
    next: int | None = Field(None, description="The offset of the next page.")


class CardWithSource(BaseModel):
    """A card, and the turns it rests on with its exact words cited."""

    card: Card
    source: Source


class EntryList(BaseModel):
    entries: list[Entry]


class LogCheck(BaseModel):
    """`last` is the hash of the newest entry: kept elsewhere, it shows later whether the end was
    cut off."""

    whole: bool
    entries: int
    last: str
    problem: str


class SpaceList(BaseModel):
    spaces: list[str]


class Forget(Request):
    """One of `card`, `turn`, `session`, `subject` and a period (`since`, `until` or both, days
    included). `turns`: the turns that cards rest on go too; by default those of a subject do. With
    `preview` nothing goes yet; with `verify` it is looked for everywhere afterwards."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"session": "chat-17", "preview": True}]}
    )

    card: str | None = Field(None, min_length=1)
    turn: str | None = Field(None, min_length=1, examples=["chat-17#3"])
    session: str | None = Field(None, min_length=1)
    subject: str | None = Field(None, min_length=1)
    since: date | None = None
    until: date | None = None
    turns: bool | None = None
    preview: bool = False
    verify: bool = False


class ForgottenOut(BaseModel):
    """`forgotten` counts what went, or would go; the lists show up to 100 each of what would."""

    preview: bool
    forgotten: Forgotten
    cards: list[Card] = []
    sessions: list[SessionRecord] = []
    turns: list[str] = []

    @classmethod
    def of(cls, preview: Preview, most: int) -> ForgottenOut:
        return cls(
            preview=True,
            forgotten=preview.forgotten,
            cards=list(preview.cards[:most]),
            sessions=list(preview.sessions[:most]),
            turns=list(preview.turns[:most]),
        )


class Health(BaseModel):
    status: str
