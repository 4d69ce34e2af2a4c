"""Cards: list, read, correct, pin, about a subject, history, profile, forget."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel

from justmem.domain import About, Card, HistoryEntry, Preview, SubjectProfile
from justmem.server.routes.access import Id, Reader, Writer
from justmem.server.schemas import (
    CardList,
    Cards,
    CardWithSource,
    Correct,
    Forget,
    ForgetResult,
    Time,
)

router = APIRouter(prefix="/v1/spaces", tags=["cards"])
_SHOWN = 100  # cards, sessions and turns in a preview


@router.get("/{space}/cards", summary="List cards")
async def list_cards(where: Cards, grant: Reader) -> CardList:
    """In order of time."""
    query = where.model_dump()
    async with grant.memory() as memory:
        found = await memory.cards(**query | {"limit": where.limit + 1})
    more = len(found) > where.limit
    next = where.offset + where.limit if more else None
    return CardList(cards=found[: where.limit], next=next)


@router.get("/{space}/cards/{id}", summary="Read a card and its source")
async def get_card(id: Id, grant: Reader) -> CardWithSource:
    """A card, with the turns that support it and its exact words in them."""
    async with grant.memory() as memory:
        found = await memory.card(id)
        return CardWithSource(card=found, source=await memory.source(id))


@router.patch("/{space}/cards/{id}", summary="Correct a card")
async def correct(id: Id, changes: Correct, grant: Writer) -> Card:
    """Replaces a card by a corrected one with the same source. Its id changes with its words."""
    async with grant.memory() as memory:
        return await memory.correct(id, **changes.model_dump())


@router.put("/{space}/cards/{id}/pin", summary="Pin a card")
async def pin(id: Id, grant: Writer) -> Card:
    """Keeps a card in every recall that names its subject."""
    async with grant.memory() as memory:
        return await memory.pin(id)


@router.delete("/{space}/cards/{id}/pin", summary="Unpin a card")
async def unpin(id: Id, grant: Writer) -> Card:
    """Takes the pin off."""
    async with grant.memory() as memory:
        return await memory.unpin(id)


@router.post("/{space}/cards/{id}/undo", summary="Undo a correction")
async def undo(id: Id, grant: Writer) -> Card:
    """Takes back the last correction, pin or unpin of a card. Returns the card before."""
    async with grant.memory() as memory:
        return await memory.undo(id)


@router.get("/{space}/about", summary="Everything on a subject")
async def about_subject(
    grant: Reader,
    subject: Annotated[str, Query(min_length=1, max_length=1000)],
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    offset: Annotated[int, Query(ge=0, le=2**31)] = 0,
) -> About:
    """The cards and turns that name a subject, current facts first. No model is called."""
    async with grant.memory() as memory:
        return await memory.about(subject, limit=limit, offset=offset)


class History(BaseModel):
    entries: list[HistoryEntry]


@router.get("/{space}/history", summary="What was true when")
async def history(
    grant: Reader,
    subject: Annotated[str | None, Query(max_length=200)] = None,
    card: Annotated[str | None, Query(description="Instead of a subject: a card's id.")] = None,
    at: Annotated[Time | None, Query(description="As of this time; default: now.")] = None,
) -> History:
    """The cards of a subject with the time that each held, newest first; or a card with those that
    it replaced and that replaced it."""
    async with grant.memory() as memory:
        moment = grant.server.moment(at)
        return History(entries=await memory.history(subject, card=card, at=moment))


@router.get("/{space}/profile", summary="Short lines about a person")
async def profile(
    grant: Reader,
    subject: Annotated[
        str | None, Query(max_length=200, description="Default: whom most cards are about.")
    ] = None,
    tokens: Annotated[int, Query(ge=1, le=10_000)] = 400,
    at: Annotated[Time | None, Query(description="As of this time; default: now.")] = None,
    prose: Annotated[bool, Query(description="Let the model write it as a text.")] = False,
) -> SubjectProfile:
    """What holds now first. A model is called only for `prose`."""
    async with grant.memory() as memory:
        return await memory.profile(subject, tokens=tokens, at=grant.server.moment(at), prose=prose)


@router.post("/{space}/forget", summary="Forget")
async def forget(what: Forget, grant: Writer) -> ForgetResult:
    """Forgets a card, a turn, a session, a subject or a period for good. A forgotten card or turn
    does not return if its session is remembered again."""
    named = what.model_dump(exclude={"preview", "verify"})
    if what.preview:
        async with grant.memory() as memory:
            return _shown(await memory.preview_forget(**named))
    by = grant.key.actor
    forgetting = grant.server.ingestion.forget(grant.space, by, verify=what.verify, **named)
    return ForgetResult(preview=False, forgotten=await grant.server.within(forgetting))


def _shown(found: Preview) -> ForgetResult:
    return ForgetResult(
        preview=True,
        forgotten=found.forgotten,
        cards=found.cards[:_SHOWN],
        sessions=found.sessions[:_SHOWN],
        turns=found.turns[:_SHOWN],
    )
