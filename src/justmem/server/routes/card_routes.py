"""Spaces and cards: looking, taking away, forgetting."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import StreamingResponse

from justmem.domain import About, Forgotten, Stats
from justmem.errors import JustMemError, TooSlow
from justmem.server.routes.access import Admin, Grant, Id, Reader, Writer, key_of, server_of
from justmem.server.schemas import (
    CardList,
    Cards,
    CardWithSource,
    EntryList,
    Forget,
    ForgottenOut,
    LogCheck,
    SpaceList,
)

router = APIRouter(prefix="/v1/spaces", tags=["memory"])
_SHOWN = 100  # cards, sessions and turns in a preview
_AHEAD = 8  # lines of an export that are read before they are sent


@router.get("", summary="List spaces")
async def spaces(request: Request) -> SpaceList:
    """The spaces that the key opens."""
    key = key_of(request)
    found = await server_of(request).spaces.names(key.spaces)
    return SpaceList(spaces=[name for name in found if key.opens(name)])


@router.get("/{space}", summary="Count a space")
async def stats(grant: Reader) -> Stats:
    """What the space holds and what it has cost."""
    async with grant.memory() as memory:
        return await memory.stats()


@router.delete("/{space}", summary="Erase a space")
async def erase(
    grant: Admin,
    verify: Annotated[bool, Query(description="Look for it everywhere afterwards.")] = False,
) -> Forgotten:
    """Forgets everything in the space, on disk too, and the space itself."""
    forgetting = grant.server.ingestion.erase(grant.space, grant.key.actor, verify=verify)
    return await grant.server.within(forgetting)


@router.get("/{space}/cards", summary="List cards")
async def cards(where: Cards, grant: Reader) -> CardList:
    """In order of time."""
    query = where.model_dump()
    async with grant.memory() as memory:
        found = await memory.cards(**query | {"limit": where.limit + 1})
    more = len(found) > where.limit
    next = where.offset + where.limit if more else None
    return CardList(cards=found[: where.limit], next=next)


@router.get("/{space}/cards/{id}", summary="Read a card and its source")
async def card(id: Id, grant: Reader) -> CardWithSource:
    """A card, with the turns it rests on and its exact words in them."""
    async with grant.memory() as memory:
        found = await memory.card(id)
        return CardWithSource(card=found, source=await memory.source(id))


@router.get("/{space}/about", summary="What is known about something")
async def about(
    grant: Reader,
    subject: Annotated[str, Query(min_length=1, max_length=1000)],
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    offset: Annotated[int, Query(ge=0, le=2**31)] = 0,
) -> About:
    """Everything on a subject, by its words and without a model: cards, what holds now first, and
    the turns that name it."""
    async with grant.memory() as memory:
        return await memory.about(subject, limit=limit, offset=offset)


@router.get("/{space}/log", summary="Who changed what")
async def log(
    grant: Admin,
    of: Annotated[str | None, Query(description="The id of a card or a session.")] = None,
    since: Annotated[datetime | None, Query(description="From this time on.")] = None,
    before: Annotated[int | None, Query(ge=1, le=2**53, description="A number.")] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> EntryList:
    """The latest entries, in order."""
    async with grant.memory() as memory:
        found = await memory.log(of=of, since=since, before=before, limit=limit)
    return EntryList(entries=found)


@router.get("/{space}/log/check", summary="Is the log whole?")
async def check_log(
    grant: Admin,
    last: Annotated[str | None, Query(description="A hash that an earlier check gave.")] = None,
) -> LogCheck:
    """Whether every entry is as it was written, and none is missing."""
    async with grant.memory() as memory:
        found = await memory.check_log(last=last)
    return LogCheck(whole=found.whole, **found.model_dump())


@router.post("/{space}/forget", summary="Forget")
async def forget(what: Forget, grant: Writer) -> ForgottenOut:
    """Forgets a card, a turn, a session, a subject or a period, on disk too. What was forgotten
    on its own does not come back with its session."""
    named = what.model_dump(exclude={"preview", "verify"})
    if what.preview:
        async with grant.memory() as memory:
            return ForgottenOut.of(await memory.preview_forget(**named), most=_SHOWN)
    by = grant.key.actor
    forgetting = grant.server.ingestion.forget(grant.space, by, verify=what.verify, **named)
    return ForgottenOut(preview=False, forgotten=await grant.server.within(forgetting))


@router.get(
    "/{space}/export",
    summary="Export",
    response_class=StreamingResponse,
    responses={200: {"content": {"application/x-ndjson": {"schema": {"type": "string"}}}}},
)
async def export(grant: Reader, vectors: bool = False) -> StreamingResponse:
    """Everything as JSON Lines, as `justmem import` takes it: a head, each session with its words,
    state and cards, what was forgotten and spent, and a last line
    that counts."""
    async with grant.memory():
        pass  # not there: said before the answer begins
    return StreamingResponse(_lines(grant, vectors), media_type="application/x-ndjson")


async def _lines(grant: Grant, vectors: bool) -> AsyncIterator[str]:
    """Read from the store by a task of its own: however slowly they are sent, the space can be
    erased and the server stopped. What is cut short has no last line."""
    lines: asyncio.Queue[str | JustMemError | None] = asyncio.Queue(_AHEAD)
    reading = grant.server.streaming(_read_into(lines, grant, vectors))
    try:
        while (line := await lines.get()) is not None:
            if isinstance(line, JustMemError):
                raise line
            yield line
    finally:
        reading.cancel()


async def _read_into(
    lines: asyncio.Queue[str | JustMemError | None], grant: Grant, vectors: bool
) -> None:
    seconds = grant.server.serving.stream_seconds
    try:
        async with asyncio.timeout(seconds):
            async with (
                grant.memory() as memory,
                aclosing(memory.export(vectors=vectors)) as exported,
            ):
                async for line in exported:
                    await lines.put(line)
            await lines.put(None)
            return
    except TimeoutError:
        end: JustMemError = TooSlow(f"The export was not read within {seconds:g} seconds.")
    except JustMemError as error:
        end = error
    while lines.full():
        lines.get_nowait()
    lines.put_nowait(end)
