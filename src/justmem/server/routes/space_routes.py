"""Spaces: list, count, timeline, change log, export, erase."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import StreamingResponse

from justmem.domain import Checked, Forgotten, Stats
from justmem.errors import JustMemError, TooSlow
from justmem.server.routes.access import Admin, Grant, Reader, key_of, server_of
from justmem.server.schemas import EntryList, SpaceList

router = APIRouter(prefix="/v1/spaces", tags=["spaces"])
_AHEAD = 8  # lines of an export that are read before they are sent


@router.get("", summary="List spaces")
async def list_spaces(request: Request) -> SpaceList:
    """The spaces that the key opens."""
    key = key_of(request)
    found = await server_of(request).spaces.names()
    return SpaceList(spaces=[name for name in found if key.opens(name)])


@router.get("/{space}", summary="Count a space")
async def space_stats(grant: Reader) -> Stats:
    """What the space holds and what it has cost."""
    async with grant.memory() as memory:
        return await memory.stats()


@router.delete("/{space}", summary="Erase a space")
async def erase_space(
    grant: Admin,
    verify: Annotated[bool, Query(description="Search all files for it afterwards.")] = False,
) -> Forgotten:
    """Forgets everything in the space, and the space itself."""
    forgetting = grant.server.ingestion.erase(grant.space, grant.key.actor, verify=verify)
    return await grant.server.within(forgetting)


class Month(BaseModel):
    """Sessions and cards are listed in order of time, so a month's cards are those from `offset`
    on, as many as `cards` says."""

    month: str = Field(examples=["2024-05"])
    sessions: int = 0
    turns: int = 0
    cards: int = 0
    offset: int = Field(0, description="The offset of the month's first card in the list of cards.")


class Timeline(BaseModel):
    months: list[Month]


@router.get("/{space}/timeline", summary="Count a space by months")
async def timeline(grant: Reader) -> Timeline:
    """Months in which something was said, in order of time."""
    async with grant.memory() as memory:
        records = await memory.sessions()
    months: dict[str, Month] = {}
    before = 0
    for record in records:
        name = record.at.isoformat()[:7]
        month = months.setdefault(name, Month(month=name, offset=before))
        month.sessions += 1
        month.turns += record.turns
        month.cards += record.cards
        before += record.cards
    return Timeline(months=list(months.values()))


@router.get("/{space}/log", summary="Who changed what")
async def list_log(
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
) -> Checked:
    """Whether every entry is as it was written, and none is missing."""
    async with grant.memory() as memory:
        return await memory.check_log(last=last)


@router.get(
    "/{space}/export",
    summary="Export",
    response_class=StreamingResponse,
    responses={200: {"content": {"application/x-ndjson": {"schema": {"type": "string"}}}}},
)
async def export_space(grant: Reader, vectors: bool = False) -> StreamingResponse:
    """The whole space as JSON Lines, for `justmem import`."""
    async with grant.memory():
        pass  # a missing space is an error before the response begins
    return StreamingResponse(_lines(grant, vectors), media_type="application/x-ndjson")


async def _lines(grant: Grant, vectors: bool) -> AsyncIterator[str]:
    """A separate task reads the store, so that a slow client does not block erasing the space or
    stopping the server. An export that was cut short has no last line."""
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
