"""A whole space: list, count, log, export, erase."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import StreamingResponse

from justmem.domain import Checked, Entry, Forgotten, Stats
from justmem.server.requests import (
    AdminAccess,
    Administrable,
    ClosingStream,
    Limit,
    Readable,
    ReadAccess,
    ThisKey,
    ThisServer,
)
from justmem.server.space_access import SpaceAccess
from justmem.spaces import no_such_space

_PIECE = 16_384  # characters of an export that are sent at a time

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
    return ClosingStream(_pieces(access, vectors), media_type="application/x-ndjson")


async def _pieces(access: SpaceAccess, vectors: bool) -> AsyncIterator[str]:
    """Nothing more is sent of a space once it is erased, also not what was read before. An export
    that was cut short has no last line."""
    async with access.memory() as memory, aclosing(memory.export(vectors=vectors)) as lines:
        async for line in lines:
            for start in range(0, len(line), _PIECE):
                if not await access.server.spaces.holds(access.space, memory):
                    raise no_such_space(access.space)
                yield line[start : start + _PIECE]
