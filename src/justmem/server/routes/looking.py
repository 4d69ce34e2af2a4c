"""Spaces and cards: looking, taking away, forgetting."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from fastapi import APIRouter, Request
from starlette.responses import StreamingResponse

from justmem.domain import Forgotten, Stats, dump
from justmem.errors import InputError, NotInMemory
from justmem.memory import AsyncMemory
from justmem.server.routes.access import Admin, Grant, Id, Reader, Writer, key_of, server_of
from justmem.server.shapes import (
    CardList,
    Cards,
    CardWithSource,
    Forget,
    ForgottenOut,
    SpaceList,
)

router = APIRouter(prefix="/v1/spaces", tags=["memory"])
_SHOWN = 100  # cards in a preview


@router.get("", summary="List spaces")
async def spaces(request: Request) -> SpaceList:
    """The spaces that the key opens."""
    return SpaceList(spaces=await server_of(request).spaces.names(key_of(request)))


@router.get("/{space}", summary="Count a space")
async def stats(grant: Reader) -> Stats:
    """What the space holds and what it has cost."""
    async with grant.server.spaces.use(grant.space) as memory:
        return await memory.stats()


@router.delete("/{space}", summary="Erase a space")
async def erase(grant: Admin) -> Forgotten:
    """Forgets everything in the space, on disk too, and the space itself."""
    return await grant.server.within(grant.server.ingestion.erase(grant.space))


@router.get("/{space}/cards", summary="List cards")
async def cards(where: Cards, grant: Reader) -> CardList:
    """In order of time."""
    query = where.model_dump()
    async with grant.server.spaces.use(grant.space) as memory:
        found = await memory.cards(**query | {"limit": where.limit + 1})
    more = len(found) > where.limit
    next = where.offset + where.limit if more else None
    return CardList(cards=found[: where.limit], next=next)


@router.get("/{space}/cards/{id}", summary="Read a card and its source")
async def card(id: Id, grant: Reader) -> CardWithSource:
    """A card, with the turns it rests on and its exact words in them."""
    async with grant.server.spaces.use(grant.space) as memory:
        return CardWithSource(card=await memory.card(id), source=await memory.source(id))


@router.post("/{space}/forget", summary="Forget")
async def forget(what: Forget, grant: Writer) -> ForgottenOut:
    """Forgets a card, a session or all about a subject, on disk too. A card that was forgotten on
    its own does not come back with its session."""
    named = what.model_dump(exclude={"preview"}, exclude_none=True)
    if len(named) != 1:
        raise InputError("Say what to forget: one of card, session and subject.")
    if what.preview:
        async with grant.server.spaces.use(grant.space) as memory:
            return await _preview(memory, what)
    return ForgottenOut(preview=False, forgotten=await _forgotten(grant, what))


async def _forgotten(grant: Grant, what: Forget) -> Forgotten:
    if what.session is not None:
        return await grant.server.ingestion.forget_session(grant.space, what.session)
    async with grant.server.spaces.use(grant.space) as memory:
        return await memory.forget(card=what.card, subject=what.subject)


async def _preview(memory: AsyncMemory, what: Forget) -> ForgottenOut:
    if what.card is not None:
        found = [await memory.card(what.card)]
    else:
        found = await memory.cards(subject=what.subject, session=what.session, limit=1_000_000)
    gone = Forgotten(cards=len(found))
    if what.session is not None:
        turns = len((await memory.session(what.session)).turns)
        gone = Forgotten(cards=len(found), sessions=1, turns=turns)
    return ForgottenOut(preview=True, forgotten=gone, cards=found[:_SHOWN])


@router.get(
    "/{space}/export",
    summary="Export",
    response_class=StreamingResponse,
    responses={200: {"content": {"application/x-ndjson": {"schema": {"type": "string"}}}}},
)
async def export(grant: Reader) -> StreamingResponse:
    """Everything as JSON Lines: a head, then each session with its words, state and cards."""
    async with grant.server.spaces.use(grant.space):
        pass  # not there: said before the answer begins
    return StreamingResponse(_lines(grant), media_type="application/x-ndjson")


async def _lines(grant: Grant) -> AsyncIterator[str]:
    async with grant.server.spaces.use(grant.space) as memory:
        records = await memory.sessions()
        yield _json({"justmem": 1, "space": grant.space, "sessions": len(records)})
        for record in records:
            try:
                session = await memory.session(record.id)
            except NotInMemory:  # forgotten meanwhile
                continue
            found = await memory.cards(session=record.id, limit=1_000_000)
            state = {"state": record.state.value, "reason": record.reason}
            yield _json({**dump(session), **state, "cards": [dump(each) for each in found]})
            await asyncio.sleep(0)


def _json(value: object) -> str:
    import json

    return json.dumps(value, ensure_ascii=False) + "\n"
