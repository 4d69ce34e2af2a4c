"""Request bodies, and the few responses that are not domain types.

Routes return domain types directly. A view here adds to a domain type by inheriting from it.
"""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, Literal

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator

from justmem.domain import (
    Card,
    Entry,
    Evidence,
    Kind,
    Preview,
    Receipt,
    SessionRecord,
    SessionState,
    Source,
    SpacesEvidence,
    Status,
)
from justmem.plan import PlanParts

# 2024-05-20T14:30 and everything else that `sessions.as_time` reads
Time = Annotated[
    str | float,
    Field(
        description="ISO 8601, or seconds since 1970. Local time of the speaker; an offset is "
        "ignored.",
        examples=["2024-05-20T14:30"],
    ),
]


class Request(BaseModel):
    model_config = ConfigDict(extra="forbid")


def with_examples(*examples: dict[str, Any]) -> ConfigDict:
    return ConfigDict(extra="forbid", json_schema_extra={"examples": list(examples)})


# ---------------------------------------------------------------- sessions


class TurnIn(BaseModel):
    """One utterance: `text` (or `content`), by a `speaker` (or `name`) or in a `role`. Other fields
    of chat messages are ignored."""

    role: Literal["user", "assistant", "system", "developer", "tool", "function"] | None = None
    speaker: str | None = None
    name: str | None = None
    text: str | None = None
    content: str | list[dict[str, Any]] | None = None
    at: Time | None = None
    key: str | None = Field(None, description="Your own key. A turn is added once under it.")
    forgotten: bool | None = Field(None, description="The words were forgotten: none are given.")


Turns = Annotated[list[TurnIn], Field(min_length=1, max_length=10_000)]


class SessionIn(Request):
    """A dated conversation, as `turns` or as chat `messages`. Without `id` one is made from the
    content. Without `at` it takes place now."""

    model_config = with_examples(
        {
            "id": "chat-17",
            "at": "2024-05-20T20:00",
            "turns": [
                {"role": "user", "text": "Bought a gravel bike today, 1,450 euros."},
                {"role": "assistant", "text": "Nice! What colour?"},
                {"role": "user", "text": "Moss green."},
            ],
        }
    )

    id: str | None = Field(None, max_length=200)
    at: Time | None = None
    labels: dict[str, str] | None = Field(
        None, max_length=20, description="Names and values to filter by."
    )
    until: None = Field(None, description="Only null: a note has its end set at its own address.")
    turns: Turns | None = None
    messages: Turns | None = None

    @model_validator(mode="after")
    def _one_list(self) -> SessionIn:
        if (self.turns is None) == (self.messages is None):
            raise ValueError("give either turns or messages")
        return self


def _form(given: object) -> str:
    return "messages" if isinstance(given, list) else "session"


# A session, or a bare list of chat messages that take place now
SessionBody = Annotated[
    Annotated[SessionIn, Tag("session")] | Annotated[Turns, Tag("messages")], Discriminator(_form)
]


class TurnsIn(Request):
    """Turns to add to a session. `at` is when the session takes place, if it is not there yet."""

    model_config = with_examples(
        {"turns": [{"role": "user", "text": "It has a bell now.", "key": "message-9"}]}
    )

    at: Time | None = None
    turns: Turns


class Accepted(BaseModel):
    """The words are stored. The cards follow: see `status_url`."""

    session_id: str
    state: SessionState
    status_url: str


class SessionStatus(BaseModel):
    """`waiting`: the session is queued or in work on this server. Only sessions remembered since
    the server started have a receipt."""

    session: SessionRecord
    waiting: bool
    receipt: Receipt | None = None


class SessionList(BaseModel):
    sessions: list[SessionRecord]
    next: int | None = Field(None, description="The offset of the next page.")


class Retried(BaseModel):
    sessions: int


# ---------------------------------------------------------------- questions


class Question(Request):
    """`at` is the time of the question (default: now). "Last week" is relative to it, and later
    sessions are left out. `speaker` is who asks: "my" refers to them. With `plan`, a plan or parts
    of one, no model is called to plan. `candidates` adds everything that discovery found."""

    model_config = with_examples(
        {"question": "What did my bike cost?", "at": "2024-06-01T12:00"},
        {
            "question": "Which sports have I taken up?",
            "plan": {"rewrites": ["ran a race", "joined a riding group"]},
        },
    )

    question: str = Field(min_length=1, max_length=100_000)
    at: Time | None = None
    speaker: str | None = Field(None, min_length=1, max_length=200)
    plan: PlanParts | None = None
    candidates: bool = False


class Recall(Question):
    """`prompt` adds a block for a model's prompt, of at most this many tokens. The others are
    filters: at most `limit` places; only sessions and notes with all these `labels`; only these
    `sessions`; only what was said from `since` to `until`, inclusive; memory `as_of` a day."""

    prompt: int | None = Field(None, ge=1, le=100_000)
    limit: int | None = Field(None, ge=1, le=1000)
    labels: dict[str, str] | None = Field(None, max_length=20)
    sessions: list[str] | None = Field(None, max_length=1000)
    since: date | None = None
    until: date | None = None
    as_of: date | None = None

    @property
    def filters(self) -> dict[str, Any]:
        names = {"limit", "labels", "sessions", "since", "until", "as_of"}
        return {name: getattr(self, name) for name in names}


class RecallSpaces(Question):
    """`spaces`: the names of those to recall from. The rest as for one space."""

    model_config = with_examples({"question": "When do we meet?", "spaces": ["ana", "team"]})

    spaces: list[str] = Field(min_length=1, max_length=20)
    prompt: int | None = Field(None, ge=1, le=100_000)


class EvidenceView(Evidence):
    """The evidence, and on request a block for a model's prompt."""

    prompt_text: str | None = Field(None, serialization_alias="prompt")


class SpacesEvidenceView(SpacesEvidence):
    """The cards of several spaces, and on request a block for a model's prompt."""

    prompt_text: str | None = Field(None, serialization_alias="prompt")


def brief(evidence: Evidence, *, candidates: bool) -> Evidence:
    """Discovery finds hundreds of candidates. They are sent only on request."""
    return evidence if candidates else evidence.model_copy(update={"candidates": ()})


# ---------------------------------------------------------------- cards, spaces, forgetting


class CardQuery(BaseModel):
    model_config = ConfigDict(extra="forbid")

    subject: str | None = Field(None, description="The subject of the cards.")
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
    """A card, and the turns that support it with the exact words cited."""

    card: Card
    source: Source


class Correct(Request):
    """The fields of a card that get another value."""

    model_config = with_examples({"fact": "lives in Vienna", "event_date": "2025-02"})

    fact: str | None = Field(None, max_length=2000)
    subject: str | None = Field(None, max_length=2000)
    event_date: str | None = Field(None, max_length=100)
    status: Status | None = None
    kind: Kind | None = None


class EntryList(BaseModel):
    entries: list[Entry]


class SpaceList(BaseModel):
    spaces: list[str]


class Forget(Request):
    """Give one of `card`, `turn`, `session`, `subject`, `key` (of a note) and a period (`since`,
    `until` or both, inclusive). `turns` also forgets the turns that support the cards (default:
    only for a subject). `preview` forgets nothing. `verify` searches all files afterwards."""

    model_config = with_examples({"session": "chat-17", "preview": True})

    card: str | None = Field(None, min_length=1)
    turn: str | None = Field(None, min_length=1, examples=["chat-17#3"])
    session: str | None = Field(None, min_length=1)
    subject: str | None = Field(None, min_length=1)
    key: str | None = Field(None, min_length=1, description="Of a note.")
    since: date | None = None
    until: date | None = None
    turns: bool | None = None
    preview: bool = False
    verify: bool = False


class ForgetResult(Preview):
    """`forgotten` counts what was forgotten, or with `preview` what would be. With `preview` the
    lists show up to 100 each."""

    preview: bool


class Health(BaseModel):
    status: str
