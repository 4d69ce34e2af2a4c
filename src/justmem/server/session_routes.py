"""Spaces, sessions and notes: list, export, erase, remember, append, retry, rebuild, note."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Discriminator, Field, Tag, model_validator
from starlette.responses import StreamingResponse

from justmem.domain import (
    Card,
    Checked,
    Entry,
    Forgotten,
    Note,
    Quarantined,
    Remembered,
    Session,
    SessionRecord,
    SessionState,
    Stats,
)
from justmem.errors import InputError, NotInMemory
from justmem.server.requests import (
    AdminAccess,
    Administrable,
    Body,
    Id,
    Labels,
    Limit,
    Offset,
    Readable,
    ReadAccess,
    SpaceAccess,
    Time,
    WriteAccess,
    key_of,
    server_of,
    with_examples,
)

space_router = APIRouter(prefix="/v1/spaces", tags=["spaces"])
router = APIRouter(prefix="/v1/spaces/{space}", tags=["sessions"])
note_router = APIRouter(prefix="/v1/spaces/{space}/notes", tags=["notes"])

_LINES_AHEAD = 8  # lines of an export that are read before they are sent

# ---------------------------------------------------------------- spaces

Verify = Annotated[bool, Query(description="Search all files for it afterwards.")]


@space_router.get("")
async def list_spaces(request: Request) -> list[str]:
    """The spaces that the key opens."""
    key = key_of(request)
    names = await server_of(request).spaces.names()
    return [name for name in names if key.opens(name)]


@space_router.get("/{space}")
async def space_stats(memory: Readable) -> Stats:
    """What the space holds and what it has cost."""
    return await memory.stats()


@space_router.delete("/{space}")
async def erase_space(access: AdminAccess, verify: Verify = False) -> Forgotten:
    """Forgets everything in the space, and the space itself."""
    work = access.server.spaces.erase(access.space, access.key.actor, verify=verify)
    return await asyncio.shield(access.server.start(work))


@space_router.get("/{space}/log")
async def list_log(
    memory: Administrable,
    of: Annotated[str | None, Query(description="The id of a card or a session.")] = None,
    since: Annotated[datetime | None, Query(description="From this time on.")] = None,
    before: Annotated[int | None, Query(ge=1, le=2**53, description="A number.")] = None,
    limit: Limit = 100,
) -> list[Entry]:
    """The latest entries, in order."""
    return list(await memory.log(of=of, since=since, before=before, limit=limit))


@space_router.get("/{space}/log/check")
async def check_log(
    memory: Administrable,
    last: Annotated[str | None, Query(description="A hash that an earlier check gave.")] = None,
) -> Checked:
    """Whether every entry is as it was written, and none is missing."""
    return await memory.check_log(last=last)


@space_router.get(
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


# ---------------------------------------------------------------- remember and append


class TurnIn(BaseModel):
    """One utterance: `text` (or `content`), by a `speaker` (or `name`) or in a `role`. Other fields
    of chat messages are ignored."""

    role: Literal["user", "assistant", "system", "developer", "tool", "function"] | None = None
    speaker: str | None = None
    name: str | None = None
    text: str | None = None
    content: str | list[dict[str, Any]] | None = None
    at: Time | None = None
    key: str | None = Field(None, description="Your own key. A turn is added once under it.")
    forgotten: bool | None = Field(None, description="The words were forgotten: none are given.")


Turns = Annotated[list[TurnIn], Field(min_length=1, max_length=10_000)]


class SessionIn(Body):
    """A dated conversation, as `turns` or as chat `messages`. Without `id` one is made from the
    content. Without `at` it takes place now."""

    model_config = with_examples(
        {
            "id": "chat-17",
            "at": "2024-05-20T20:00",
            "turns": [
                {"role": "user", "text": "Bought a gravel bike today, 1,450 euros."},
                {"role": "assistant", "text": "Nice! What colour?"},
                {"role": "user", "text": "Moss green."},
            ],
        }
    )

    id: str | None = Field(None, max_length=200)
    at: Time | None = None
    labels: Labels = None
    until: None = Field(None, description="Only null: a note has its end set at its own address.")
    turns: Turns | None = None
    messages: Turns | None = None

    @model_validator(mode="after")
    def _one_list(self) -> SessionIn:
        if (self.turns is None) == (self.messages is None):
            raise ValueError("give either turns or messages")
        return self


def _form(value: object) -> str:
    return "messages" if isinstance(value, list) else "session"


# A session, or a bare list of chat messages that take place now
SessionBody = Annotated[
    Annotated[SessionIn, Tag("session")] | Annotated[Turns, Tag("messages")], Discriminator(_form)
]


class TurnsIn(Body):
    """Turns to add to a session. `at` is when they were said, if they do not say so themselves."""

    model_config = with_examples(
        {"turns": [{"role": "user", "text": "It has a bell now.", "key": "message-9"}]}
    )

    at: Time | None = None
    turns: Turns


Wait = Annotated[bool, Query(description="Respond when the cards are made.")]
_STORED: dict[int | str, dict[str, Any]] = {
    200: {"model": Remembered, "description": "The cards are made, or cannot be made."},
    202: {"model": Remembered, "description": "The words are stored; the cards follow."},
}


@router.post("/sessions", status_code=202, responses=_STORED)
async def remember(
    session: SessionBody, access: WriteAccess, response: Response, wait: Wait = False
) -> Remembered:
    """The words are stored before the response. Sending the same session again costs nothing; a
    changed one replaces its cards. The body may be a bare list of chat messages."""
    given = _dump(session) if isinstance(session, list) else session.model_dump(exclude_none=True)
    return await _stored(access, response, wait, given)


@router.post("/sessions/{id}/turns", status_code=202, responses=_STORED)
async def append(
    id: Id, body: TurnsIn, access: WriteAccess, response: Response, wait: Wait = False
) -> Remembered:
    """The turns are stored before the response. A turn whose `key` the session already has is left
    out. `at`: when they were said; default: now."""
    turns = _dump(body.turns)
    return await _stored(access, response, wait, turns, id=id, at=body.at, append=True)


async def _stored(
    access: SpaceAccess, response: Response, wait: bool, given: Any, **options: Any
) -> Remembered:
    done = await access.server.remember(
        access.key, access.space, given, wait=_seconds(access, wait), **options
    )
    response.status_code = 202 if done.state is SessionState.PENDING else 200
    return done


def _dump(turns: list[TurnIn]) -> list[dict[str, Any]]:
    return [turn.model_dump(exclude_none=True) for turn in turns]


def _seconds(access: SpaceAccess, wait: bool) -> float:
    """A little less than the time that the request has."""
    return 0.9 * access.server.serving.request_seconds if wait else 0.0


# ---------------------------------------------------------------- sessions


@router.get("/sessions")
async def list_sessions(
    memory: Readable, state: SessionState | None = None, limit: Limit = 100, offset: Offset = 0
) -> list[SessionRecord]:
    """In order of time, without their words."""
    chosen = [record for record in await memory.sessions() if state in (None, record.state)]
    return chosen[offset : offset + limit]


@router.get("/sessions/{id}")
async def get_session(id: Id, memory: Readable) -> Session:
    """The turns of a session."""
    return await memory.session(id)


@router.get("/sessions/{id}/status")
async def session_status(id: Id, memory: Readable) -> SessionRecord:
    """pending, stored, empty (nothing durable was said) or failed, with the reason."""
    for record in await memory.sessions():
        if record.id == id:
            return record
    raise NotInMemory(f"There is no session {id!r} in this space.")


@router.get("/sessions/{id}/quarantined")
async def list_quarantined(id: Id, memory: Readable) -> list[Quarantined]:
    """Cards that no turn supports. They are never used as memory."""
    return await memory.quarantined(id)


class Queued(BaseModel):
    sessions: int


OneSession = Annotated[str | None, Query(description="Only this session.")]


@router.post("/retry", status_code=202)
async def retry(access: WriteAccess, session: OneSession = None, wait: Wait = False) -> Queued:
    """Queues the pending and failed sessions."""
    return await _queued(access, session, wait, rebuild=False)


@router.post("/rebuild", status_code=202)
async def rebuild(access: WriteAccess, session: OneSession = None, wait: Wait = False) -> Queued:
    """Queues one session or all, to make their cards again. Corrections and pins stay."""
    return await _queued(access, session, wait, rebuild=True)


async def _queued(access: SpaceAccess, session: str | None, wait: bool, *, rebuild: bool) -> Queued:
    number = await access.server.queue(
        access.key, access.space, session=session, rebuild=rebuild, wait=_seconds(access, wait)
    )
    return Queued(sessions=number)


# ---------------------------------------------------------------- notes


class NoteIn(Body):
    """`value` is any JSON; `value_json` is JSON as a text, which stays byte for byte. Give one of
    them or none. The note expires at `until`. `at`: when it holds from; default: now."""

    model_config = with_examples({"text": "Ana is allergic to walnuts.", "value": 1})

    text: str = Field(min_length=1, max_length=100_000, examples=["Ana is allergic to walnuts."])
    value: Any = None
    value_json: str | None = Field(None, max_length=1_000_000)
    at: Time | None = None
    until: Time | None = None
    labels: Labels = None


@note_router.put("/{id}")
async def note(id: Id, body: NoteIn, access: WriteAccess) -> Card:
    """Stores a card exactly as given, without extraction. A note with the same key is replaced."""
    if body.value_json is not None and body.value is not None:
        raise InputError("Give value or value_json, not both.")
    value = body.value if body.value_json is None else body.value_json.encode()
    more: dict[str, Any] = body.model_dump(include={"at", "until", "labels"})
    async with access.server.spaces.use(access.space, access.key.actor, create=True) as memory:
        return await memory.note(body.text, key=id, value=value, **more)


@note_router.get("")
async def notes(
    memory: Readable, prefix: Annotated[str, Query(description="How their keys begin.")] = ""
) -> list[Note]:
    """In order of their keys."""
    return list(await memory.notes(prefix))


@note_router.get("/{id}")
async def note_at(id: Id, memory: Readable) -> Note:
    """The note with that key."""
    return await memory.note_at(id)
