"""A whole space: list, count, log, export, erase."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import datetime
from typing import Annotated

from anyio import create_memory_object_stream
from anyio.streams.memory import MemoryObjectSendStream
from fastapi import APIRouter, Query
from starlette.responses import StreamingResponse

from justmem.domain import Checked, Entry, Forgotten, Stats
from justmem.server.access import SpaceAccess
from justmem.server.requests import (
    AdminAccess,
    Administrable,
    Limit,
    Readable,
    ReadAccess,
    ThisKey,
    ThisServer,
)

router = APIRouter(prefix="/v1/spaces", tags=["spaces"])


@router.get("")
async def list_spaces(server: ThisServer, key: ThisKey) -> list[str]:
    """The spaces that the key opens."""
    return [name for name in await server.spaces.names() if key.opens(name)]


@router.get("/{space}")
async def space_stats(memory: Readable) -> Stats:
    """What the space holds and what it has cost."""
    return await memory.stats()


@router.delete("/{space}")
async def erase_space(
    access: AdminAccess,
    verify: Annotated[bool, Query(description="Search all files for it afterwards.")] = False,
) -> Forgotten:
    """Forgets everything in the space, and the space itself."""
    work = access.server.spaces.erase(access.space, access.key.actor, verify=verify)
    return await asyncio.shield(access.server.start(work))


@router.get("/{space}/log")
async def list_log(
    memory: Administrable,
    of: Annotated[str | None, Query(description="The id of a card or a session.")] = None,
    since: Annotated[datetime | None, Query(description="From this time on.")] = None,
    before: Annotated[int | None, Query(ge=1, description="The number of an entry.")] = None,
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
    async with access.memory():
        pass  # a missing space is an error before the response begins
    return StreamingResponse(_lines(access, vectors), media_type="application/x-ndjson")


async def _lines(access: SpaceAccess, vectors: bool) -> AsyncIterator[str]:
    """A task of its own reads a few lines ahead, so that the space can be erased while a client
    reads slowly. An export that was cut short has no last line."""
    into, lines = create_memory_object_stream[str](2)
    reading = access.server.start(_read(access, vectors, into))
    try:
        async with lines:
            async for line in lines:
                yield line
        await reading
    finally:
        reading.cancel()


async def _read(access: SpaceAccess, vectors: bool, into: MemoryObjectSendStream[str]) -> None:
    async with into, access.memory() as memory, aclosing(memory.export(vectors=vectors)) as lines:
        async for line in lines:
            await into.send(line)
