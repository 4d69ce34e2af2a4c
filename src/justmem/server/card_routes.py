"""Questions and cards: recall, ask, list, read, correct, pin, history, profile, forget."""

from __future__ import annotations

import asyncio
from datetime import date
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from justmem.domain import (
    About,
    Answer,
    Card,
    Correction,
    Evidence,
    HistoryEntry,
    Kind,
    Preview,
    Source,
    SpacesEvidence,
    Status,
    SubjectProfile,
)
from justmem.plan import PlanParts
from justmem.server.requests import (
    Body,
    Id,
    Labels,
    Limit,
    Offset,
    Readable,
    ReadAccess,
    ThisKey,
    ThisServer,
    Time,
    Writable,
    WriteAccess,
    with_example,
)
from justmem.server.space_access import SpaceAccess

questions = APIRouter(prefix="/v1", tags=["questions"])
router = APIRouter(prefix="/v1/spaces/{space}", tags=["cards"])
_SHOWN = 100  # of each list of a preview
_LISTS = ("cards", "sessions", "turns", "labels")

# ---------------------------------------------------------------- questions


class Question(Body):
    """`at` is the time of the question (default: now). "Last week" is relative to it, and later
    sessions are left out. `speaker` is who asks: "my" refers to them. With `plan`, a plan or parts
    of one, no model is called to plan. `candidates` adds everything that discovery found."""

    model_config = with_example(
        {
            "question": "Which sports have I taken up?",
            "at": "2024-06-01T12:00",
            "plan": {"rewrites": ["ran a race", "joined a riding group"]},
        }
    )

    question: str
    at: Time | None = None
    speaker: str | None = None
    plan: PlanParts | None = None
    candidates: bool = False

    def shown(self, evidence: Evidence) -> Evidence:
        """Discovery finds hundreds of candidates. They are sent only on request."""
        return evidence if self.candidates else evidence.model_copy(update={"candidates": ()})


PromptTokens = Annotated[int | None, Field(ge=1, le=100_000)]


class Recall(Question):
    """`prompt` adds a block for a model's prompt, of at most this many tokens. The others are
    filters: at most `limit` places; only sessions and notes with all these `labels`; only these
    `sessions`; only what was said from `since` to `until`, inclusive; memory `as_of` a day."""

    prompt: PromptTokens = None
    limit: int | None = None
    labels: Labels | None = None
    sessions: list[str] | None = None
    since: date | None = None
    until: date | None = None
    as_of: date | None = None


class RecallSpaces(Question):
    """`spaces`: the names of those to recall from. The rest as for one space."""

    model_config = with_example({"question": "When do we meet?", "spaces": ["ana", "team"]})

    spaces: list[str] = Field(min_length=1, max_length=20)
    prompt: PromptTokens = None


class EvidenceView(Evidence):
    """The evidence, and on request a block for a model's prompt."""

    prompt_text: str | None = Field(None, serialization_alias="prompt")


class SpacesEvidenceView(SpacesEvidence):
    """The cards of several spaces, and on request a block for a model's prompt."""

    prompt_text: str | None = Field(None, serialization_alias="prompt")


@questions.post("/recall")
async def recall_spaces(body: RecallSpaces, server: ThisServer, key: ThisKey) -> SpacesEvidenceView:
    """One ranking over several spaces, each card with its space. The key must open all of them."""
    for space in body.spaces:
        SpaceAccess(server, key, space).check("read")
    found = await server.spaces.recall(**body.given("prompt", "candidates"))
    server.metrics.receipt(found.receipt)
    text = None if body.prompt is None else found.prompt(body.prompt)
    return SpacesEvidenceView(**dict(found), prompt_text=text)


@questions.post("/spaces/{space}/recall")
async def recall(body: Recall, access: ReadAccess) -> EvidenceView:
    """The evidence for a question, without an answer."""
    found = await access.recall(**body.given("prompt", "candidates"))
    text = None if body.prompt is None else found.prompt(body.prompt)
    return EvidenceView(**dict(body.shown(found)), prompt_text=text)


@questions.post("/spaces/{space}/ask")
async def ask(body: Question, access: ReadAccess) -> Answer:
    """An answer from memory, with citations and a receipt."""
    answer = await access.ask(**body.given("candidates"))
    return answer.model_copy(update={"evidence": body.shown(answer.evidence)})


# ---------------------------------------------------------------- cards


class CardQuery(Body):
    subject: str | None = None
    kind: Kind | None = None
    status: Status | None = None
    session: str | None = Field(None, description="The session they come from.")
    text: str | None = Field(None, description="Words that must occur.")
    limit: int = Field(100, ge=1, le=1000)
    offset: int = Field(0, ge=0, le=2**31)


@router.get("/cards")
async def list_cards(where: Annotated[CardQuery, Query()], memory: Readable) -> list[Card]:
    """In order of time."""
    return list(await memory.cards(**where.given()))


class CardWithSource(BaseModel):
    """A card, and the turns that support it."""

    card: Card
    source: Source


@router.get("/cards/{id}")
async def get_card(id: Id, memory: Readable) -> CardWithSource:
    """A card, with the turns that support it and its exact words in them."""
    return CardWithSource(card=await memory.card(id), source=await memory.source(id))


class Changes(Body):
    """The fields of a card that get another value."""

    model_config = with_example({"fact": "lives in Vienna", "event_date": "2025-02"})

    fact: str | None = None
    subject: str | None = None
    event_date: str | None = None
    status: Status | None = None
    kind: Kind | None = None


@router.patch("/cards/{id}")
async def correct(id: Id, changes: Changes, memory: Writable) -> Card:
    """Replaces a card by a corrected one with the same source. Its id changes with its words."""
    return await memory.correct(id, **changes.given())


@router.put("/cards/{id}/pin")
async def pin(id: Id, memory: Writable) -> Card:
    """Keeps a card in every recall that names its subject."""
    return await memory.pin(id)


@router.delete("/cards/{id}/pin")
async def unpin(id: Id, memory: Writable) -> Card:
    """Takes the pin off."""
    return await memory.unpin(id)


@router.post("/cards/{id}/undo")
async def undo(id: Id, memory: Writable) -> Card:
    """Takes back the last correction, pin or unpin of a card. Returns the card before."""
    return await memory.undo(id)


@router.get("/corrections")
async def corrections(
    memory: Readable, card: Annotated[str | None, Query(description="Only of this card.")] = None
) -> list[Correction]:
    """Every correction and pin, in order: who, when and what."""
    return list(await memory.corrections(card))


# ---------------------------------------------------------------- subjects

AsOf = Annotated[str | None, Query(description="As of this time, in ISO 8601; default: now.")]


@router.get("/about")
async def about_subject(
    memory: Readable, subject: str, limit: Limit = 100, offset: Offset = 0
) -> About:
    """The cards and turns that name a subject, current facts first. No model is called."""
    return await memory.about(subject, limit=limit, offset=offset)


@router.get("/history")
async def history(
    memory: Readable,
    subject: str | None = None,
    card: Annotated[str | None, Query(description="Instead of a subject: a card's id.")] = None,
    at: AsOf = None,
) -> list[HistoryEntry]:
    """The cards of a subject with the time that each held, newest first; or a card with those that
    it replaced and that replaced it."""
    return list(await memory.history(subject, card=card, at=at))


@router.get("/profile")
async def profile(
    memory: Readable,
    subject: str | None = None,
    tokens: Annotated[int, Query(ge=1, le=10_000)] = 400,
    at: AsOf = None,
    prose: Annotated[bool, Query(description="Let the model write it as a text.")] = False,
) -> SubjectProfile:
    """What holds now first. Default: the person whom most cards are about. A model is called only
    for `prose`."""
    return await memory.profile(subject, tokens=tokens, at=at, prose=prose)


# ---------------------------------------------------------------- forget


class Forget(Body):
    """Give one of `card`, `turn`, `session`, `subject`, `key` (of a note) and a period (`since`,
    `until` or both, inclusive). `turns` also forgets the turns that support the cards (default:
    only for a subject). `preview` forgets nothing. `verify` searches all files afterwards."""

    model_config = with_example({"session": "chat-17", "preview": True})

    card: str | None = None
    turn: str | None = Field(None, examples=["chat-17#3"])
    session: str | None = None
    subject: str | None = None
    key: str | None = Field(None, description="Of a note.")
    since: date | None = None
    until: date | None = None
    turns: bool | None = None
    preview: bool = False
    verify: bool = False


@router.post("/forget")
async def forget(body: Forget, access: WriteAccess) -> Preview:
    """Forgets a card, a turn, a session, a subject or a period for good. A forgotten card or turn
    does not return if its session is remembered again. `forgotten` counts it. With `preview`,
    nothing is forgotten, and the lists show up to 100 of each. 404 if nothing matches."""
    work = access.server.start(_forget(body, access))
    return await asyncio.shield(work)  # a search of all files may outlast the request


async def _forget(body: Forget, access: WriteAccess) -> Preview:
    what = body.given("preview", "verify")
    async with access.memory() as memory:
        if not body.preview:
            return Preview(forgotten=await memory.forget(**what, verify=body.verify))
        found = await memory.preview_forget(**what)
    lists = {name: getattr(found, name)[:_SHOWN] for name in _LISTS}
    return found.model_copy(update=lists)
