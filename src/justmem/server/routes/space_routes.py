"""Spaces: list, count, change log, export, erase. And health and metrics."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel
from starlette.responses import PlainTextResponse, StreamingResponse

from justmem.domain import Checked, Entry, Forgotten, Stats
from justmem.errors import KeyTooWeak, NoRoom
from justmem.server import metrics
from justmem.server.routes.shared import (
    AdminAccess,
    Administrable,
    Limit,
    Readable,
    ReadAccess,
    SpaceAccess,
    Verify,
    key_of,
    server_of,
)

router = APIRouter(prefix="/v1/spaces", tags=["spaces"])
running = APIRouter(tags=["running"])
_LINES_AHEAD = 8  # lines of an export that are read before they are sent


class SpaceList(BaseModel):
    spaces: list[str]


@router.get("", summary="List spaces")
async def list_spaces(request: Request) -> SpaceList:
    """The spaces that the key opens."""
    key = key_of(request)
    names = await server_of(request).spaces.names()
    return SpaceList(spaces=[name for name in names if key.opens(name)])


@router.get("/{space}", summary="Count a space")
async def space_stats(memory: Readable) -> Stats:
    """What the space holds and what it has cost."""
    return await memory.stats()


@router.delete("/{space}", summary="Erase a space")
async def erase_space(access: AdminAccess, verify: Verify = False) -> Forgotten:
    """Forgets everything in the space, and the space itself."""
    work = access.server.spaces.erase(access.space, access.key.actor, verify=verify)
    return await asyncio.shield(access.server.start(work))


class EntryList(BaseModel):
    entries: list[Entry]


@router.get("/{space}/log", summary="Who changed what")
async def list_log(
    memory: Administrable,
    of: Annotated[str | None, Query(description="The id of a card or a session.")] = None,
    since: Annotated[datetime | None, Query(description="From this time on.")] = None,
    before: Annotated[int | None, Query(ge=1, le=2**53, description="A number.")] = None,
    limit: Limit = 100,
) -> EntryList:
    """The latest entries, in order."""
    return EntryList(entries=await memory.log(of=of, since=since, before=before, limit=limit))


@router.get("/{space}/log/check", summary="Is the log whole?")
async def check_log(
    memory: Administrable,
    last: Annotated[str | None, Query(description="A hash that an earlier check gave.")] = None,
) -> Checked:
    """Whether every entry is as it was written, and none is missing."""
    return await memory.check_log(last=last)


@router.get(
    "/{space}/export",
    summary="Export",
    response_class=StreamingResponse,
    responses={200: {"content": {"application/x-ndjson": {"schema": {"type": "string"}}}}},
)
async def export_space(access: ReadAccess, vectors: bool = False) -> StreamingResponse:
    """The whole space as JSON Lines, for `justmem import`."""
    async with access.server.spaces.use(access.space, access.key.actor):
        pass  # a missing space is an error before the response begins
    return StreamingResponse(_stream(access, vectors), media_type="application/x-ndjson")


async def _stream(access: SpaceAccess, vectors: bool) -> AsyncIterator[str]:
    """An export that was cut short has no last line."""
    async for line in access.server.read_ahead(_lines(access, vectors), _LINES_AHEAD):
        yield line


async def _lines(access: SpaceAccess, vectors: bool) -> AsyncGenerator[str]:
    async with (
        access.server.spaces.use(access.space, access.key.actor) as memory,
        aclosing(memory.export(vectors=vectors)) as lines,
    ):
        async for line in lines:
            yield line


# ---------------------------------------------------------------- health and metrics


class Health(BaseModel):
    status: str


@running.get("/health/live", summary="Is the process alive?")
async def health_live() -> Health:
    return Health(status="alive")


@running.get("/health/ready", summary="Can it answer?")
async def health_ready(request: Request) -> Health:
    """503 while local models load, and once the server is stopping."""
    if (reason := server_of(request).not_ready) is not None:
        raise NoRoom(reason)
    return Health(status="ready")


@running.get(
    "/metrics",
    summary="Metrics for Prometheus",
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
