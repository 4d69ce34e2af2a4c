"""Cards: list, read, correct, pin, about a subject, history, profile, forget."""

from __future__ import annotations

import asyncio
from datetime import date
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from justmem.domain import (
    About,
    Card,
    Correction,
    HistoryEntry,
    Kind,
    Preview,
    Source,
    Status,
    SubjectProfile,
)
from justmem.server.routes.shared import (
    Body,
    Id,
    Limit,
    Offset,
    Readable,
    Writable,
    WriteAccess,
    with_examples,
)

router = APIRouter(prefix="/v1/spaces/{space}", tags=["cards"])
_SHOWN = 100  # cards, sessions and turns in a preview
Subject = Annotated[str | None, Query(max_length=200)]
AsOf = Annotated[str | None, Query(description="As of this time, in ISO 8601; default: now.")]


class CardQuery(Body):
    subject: str | None = Field(None, description="The subject of the cards.")
    kind: Kind | None = None
    status: Status | None = None
    session: str | None = Field(None, description="The session they come from.")
    text: str | None = Field(None, description="Words that must occur.")
    limit: int = Field(100, ge=1, le=1000)
    offset: int = Field(0, ge=0, le=2**31)


class CardList(BaseModel):
    cards: list[Card]
    next: int | None = Field(None, description="The offset of the next page.")


@router.get("/cards", summary="List cards")
async def list_cards(where: Annotated[CardQuery, Query()], memory: Readable) -> CardList:
    """In order of time."""
    found = await memory.cards(**where.model_dump() | {"limit": where.limit + 1})
    more = len(found) > where.limit
    next = where.offset + where.limit if more else None
    return CardList(cards=found[: where.limit], next=next)


class CardWithSource(BaseModel):
    """A card, and the turns that support it with the exact words cited."""

    card: Card
    source: Source


@router.get("/cards/{id}", summary="Read a card and its source")
async def get_card(id: Id, memory: Readable) -> CardWithSource:
    """A card, with the turns that support it and its exact words in them."""
    return CardWithSource(card=await memory.card(id), source=await memory.source(id))


class Changes(Body):
    """The fields of a card that get another value."""

    model_config = with_examples({"fact": "lives in Vienna", "event_date": "2025-02"})

    fact: str | None = Field(None, max_length=2000)
    subject: str | None = Field(None, max_length=2000)
    event_date: str | None = Field(None, max_length=100)
    status: Status | None = None
    kind: Kind | None = None


@router.patch("/cards/{id}", summary="Correct a card")
async def correct(id: Id, changes: Changes, memory: Writable) -> Card:
    """Replaces a card by a corrected one with the same source. Its id changes with its words."""
    return await memory.correct(id, **changes.model_dump())


@router.put("/cards/{id}/pin", summary="Pin a card")
async def pin(id: Id, memory: Writable) -> Card:
    """Keeps a card in every recall that names its subject."""
    return await memory.pin(id)


@router.delete("/cards/{id}/pin", summary="Unpin a card")
async def unpin(id: Id, memory: Writable) -> Card:
    """Takes the pin off."""
    return await memory.unpin(id)


@router.post("/cards/{id}/undo", summary="Undo a correction")
async def undo(id: Id, memory: Writable) -> Card:
    """Takes back the last correction, pin or unpin of a card. Returns the card before."""
    return await memory.undo(id)


class Corrections(BaseModel):
    corrections: list[Correction]


@router.get("/corrections", summary="List corrections")
async def corrections(
    memory: Readable, card: Annotated[str | None, Query(description="Only of this card.")] = None
) -> Corrections:
    """Every correction and pin, in order: who, when and what."""
    return Corrections(corrections=await memory.corrections(card))


@router.get("/about", summary="Everything on a subject")
async def about_subject(
    memory: Readable,
    subject: Annotated[str, Query(min_length=1, max_length=1000)],
    limit: Limit = 100,
    offset: Offset = 0,
) -> About:
    """The cards and turns that name a subject, current facts first. No model is called."""
    return await memory.about(subject, limit=limit, offset=offset)


class History(BaseModel):
    entries: list[HistoryEntry]


@router.get("/history", summary="What was true when")
async def history(
    memory: Readable,
    subject: Subject = None,
    card: Annotated[str | None, Query(description="Instead of a subject: a card's id.")] = None,
    at: AsOf = None,
) -> History:
    """The cards of a subject with the time that each held, newest first; or a card with those that
    it replaced and that replaced it."""
    return History(entries=await memory.history(subject, card=card, at=at))


@router.get("/profile", summary="Short lines about a person")
async def profile(
    memory: Readable,
    subject: Subject = None,
    tokens: Annotated[int, Query(ge=1, le=10_000)] = 400,
    at: AsOf = None,
    prose: Annotated[bool, Query(description="Let the model write it as a text.")] = False,
) -> SubjectProfile:
    """What holds now first. Default: the person whom most cards are about. A model is called only
    for `prose`."""
    return await memory.profile(subject, tokens=tokens, at=at, prose=prose)


class Forget(Body):
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


@router.post("/forget", summary="Forget")
async def forget(body: Forget, access: WriteAccess) -> ForgetResult:
    """Forgets a card, a turn, a session, a subject or a period for good. A forgotten card or turn
    does not return if its session is remembered again."""
    work = access.server.start(_forget(body, access))
    return await asyncio.shield(work)  # a search of all files may outlast the request


async def _forget(body: Forget, access: WriteAccess) -> ForgetResult:
    what = body.model_dump(exclude={"preview", "verify"})
    async with access.server.spaces.use(access.space, access.key.actor) as memory:
        if not body.preview:
            gone = await memory.forget(**what, verify=body.verify)
            return ForgetResult(preview=False, forgotten=gone)
        found = await memory.preview_forget(**what)
    return ForgetResult(
        preview=True,
        forgotten=found.forgotten,
        cards=found.cards[:_SHOWN],
        sessions=found.sessions[:_SHOWN],
        turns=found.turns[:_SHOWN],
    )
