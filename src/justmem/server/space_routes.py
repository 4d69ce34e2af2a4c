"""Spaces: list, count, change log, export, erase. And health and metrics."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel
from starlette.responses import PlainTextResponse, StreamingResponse

from justmem.domain import Checked, Entry, Forgotten, Stats
from justmem.errors import KeyTooWeak, NoRoom
from justmem.server import metrics
from justmem.server.requests import (
    AdminAccess,
    Administrable,
    Limit,
    Readable,
    ReadAccess,
    SpaceAccess,
    key_of,
    server_of,
)

router = APIRouter(prefix="/v1/spaces", tags=["spaces"])
running = APIRouter(tags=["running"])
Verify = Annotated[bool, Query(description="Search all files for it afterwards.")]
_LINES_AHEAD = 8  # lines of an export that are read before they are sent


@router.get("")
async def list_spaces(request: Request) -> list[str]:
    """The spaces that the key opens."""
    key = key_of(request)
    names = await server_of(request).spaces.names()
    return [name for name in names if key.opens(name)]


@router.get("/{space}")
async def space_stats(memory: Readable) -> Stats:
    """What the space holds and what it has cost."""
    return await memory.stats()


@router.delete("/{space}")
async def erase_space(access: AdminAccess, verify: Verify = False) -> Forgotten:
    """Forgets everything in the space, and the space itself."""
    work = access.server.spaces.erase(access.space, access.key.actor, verify=verify)
    return await asyncio.shield(access.server.start(work))


@router.get("/{space}/log")
async def list_log(
    memory: Administrable,
    of: Annotated[str | None, Query(description="The id of a card or a session.")] = None,
    since: Annotated[datetime | None, Query(description="From this time on.")] = None,
    before: Annotated[int | None, Query(ge=1, le=2**53, description="A number.")] = None,
    limit: Limit = 100,
) -> list[Entry]:
    """The latest entries, in order."""
    return list(await memory.log(of=of, since=since, before=before, limit=limit))


@router.get("/{space}/log/check")
async def check_log(
    memory: Administrable,
    last: Annotated[str | None, Query(description="A hash that an earlier check gave.")] = None,
) -> Checked:
    """Whether every entry is as it was written, and none is missing."""
    return await memory.check_log(last=last)


@router.get(
    "/{space}/export",
    response_class=StreamingResponse,
    responses={200: {"content": {"application/x-ndjson": {"schema": {"type": "string"}}}}},
)
async def export_space(access: ReadAccess, vectors: bool = False) -> StreamingResponse:
    """The whole space as JSON Lines, for `justmem import`."""
    async with access.server.spaces.use(access.space, access.key.actor):
        pass  # a missing space is an error before the response begins
    return StreamingResponse(_stream(access, vectors), media_type="application/x-ndjson")


async def _stream(access: SpaceAccess, vectors: bool) -> AsyncIterator[str]:
    """Reads in a task of its own, a few lines ahead, so that a slow client does not keep the space
    open. An export that was cut short has no last line."""
    lines: asyncio.Queue[str] = asyncio.Queue(_LINES_AHEAD)
    reading = access.server.start(_read(access, vectors, lines))
    try:
        while not (reading.done() and lines.empty()):
            line = asyncio.ensure_future(lines.get())
            await asyncio.wait({line, reading}, return_when=asyncio.FIRST_COMPLETED)
            if line.done():
                yield line.result()
            else:
                line.cancel()
        reading.result()
    finally:
        reading.cancel()


async def _read(access: SpaceAccess, vectors: bool, lines: asyncio.Queue[str]) -> None:
    async with (
        access.server.spaces.use(access.space, access.key.actor) as memory,
        aclosing(memory.export(vectors=vectors)) as found,
    ):
        async for line in found:
            await lines.put(line)


# ---------------------------------------------------------------- health and metrics


class Health(BaseModel):
    status: str


@running.get("/health/live")
async def health_live() -> Health:
    return Health(status="alive")


@running.get("/health/ready")
async def health_ready(request: Request) -> Health:
    """503 while local models load, and once the server is stopping."""
    if (reason := server_of(request).not_ready) is not None:
        raise NoRoom(reason)
    return Health(status="ready")


@running.get(
    "/metrics",
    response_class=PlainTextResponse,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def read_metrics(request: Request) -> PlainTextResponse:
    """Tokens by stage, latencies, sessions by state, requests. Only for admin keys that open all
    spaces, because the numbers cover all spaces."""
    key = key_of(request)
    if not (key.may("admin") and key.opens_all):
        raise KeyTooWeak("Metrics cover all spaces: they need an admin key that opens all.")
    text = server_of(request).metrics.text()
    return PlainTextResponse(text, media_type=metrics.CONTENT_TYPE)
