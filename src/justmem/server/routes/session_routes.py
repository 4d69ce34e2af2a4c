"""Sessions: remember, append, read, status, retry."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Query, Request, Response

from justmem.domain import Quarantined, Remembered, Session, SessionState
from justmem.errors import NotInMemory
from justmem.intake.sessions import as_session
from justmem.server.ingestion import Job
from justmem.server.routes.access import Grant, Id, Reader, Writer
from justmem.server.schemas import (
    Accepted,
    Retried,
    SessionBody,
    SessionIn,
    SessionList,
    SessionStatus,
    TurnIn,
    TurnsIn,
)

router = APIRouter(prefix="/v1/spaces/{space}", tags=["sessions"])
Wait = Annotated[bool, Query(description="Respond when the cards are made.")]
_STORED: dict[int | str, dict[str, Any]] = {
    200: {"model": Remembered, "description": "With `wait`: the result."},
    202: {"model": Accepted, "description": "The words are stored; the cards follow."},
}


@router.post(
    "/sessions",
    status_code=202,
    summary="Remember a session",
    responses=_STORED,
    response_model=None,
)
async def remember(
    session: SessionBody,
    grant: Writer,
    request: Request,
    response: Response,
    wait: Wait = False,
) -> Remembered | Accepted:
    """The words are stored before the response. Sending the same session again costs nothing; a
    changed one replaces its cards. The body may be a bare list of chat messages."""
    known = as_session(_given(session), otherwise=grant.server.moment(None))
    job = await grant.server.ingestion.accept(grant.space, known, grant.key.actor)
    return await _answered(job, grant, request, response, wait)


@router.post(
    "/sessions/{id}/turns",
    status_code=202,
    summary="Append turns to a session",
    responses=_STORED,
    response_model=None,
)
async def append(
    id: Id,
    turns: TurnsIn,
    grant: Writer,
    request: Request,
    response: Response,
    wait: Wait = False,
) -> Remembered | Accepted:
    """The turns are stored before the response. A turn whose `key` the session already has is left
    out. A new session is made at the time `at` (default: now)."""
    given = [turn.model_dump(exclude_none=True) for turn in turns.turns]
    at = grant.server.moment(turns.at)
    job = await grant.server.ingestion.append(grant.space, id, given, at, grant.key.actor)
    return await _answered(job, grant, request, response, wait)


def _given(session: SessionIn | list[TurnIn]) -> Any:
    if isinstance(session, list):
        return [turn.model_dump(exclude_none=True) for turn in session]
    return session.model_dump(exclude_none=True)


async def _answered(
    job: Job, grant: Grant, request: Request, response: Response, wait: bool
) -> Remembered | Accepted:
    root = request.scope.get("root_path", "")
    space, id = quote(grant.space, safe=""), quote(job.session_id, safe="")
    url = f"{root}/v1/spaces/{space}/sessions/{id}/status"
    if wait:  # a timeout is no failure: the words are stored, and the status shows the result
        await asyncio.wait({job.done}, timeout=grant.server.serving.request_seconds)
        if job.done.done() and not job.done.cancelled():
            response.status_code = 200
            return job.done.result()
    response.headers["location"] = url
    return Accepted(session_id=job.session_id, state=SessionState.PENDING, status_url=url)


@router.get("/sessions", summary="List sessions")
async def list_sessions(
    grant: Reader,
    state: SessionState | None = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    offset: Annotated[int, Query(ge=0, le=2**31)] = 0,
) -> SessionList:
    """In order of time, without their words."""
    async with grant.memory() as memory:
        found = await memory.sessions()
    chosen = [record for record in found if state in (None, record.state)]
    more = offset + limit < len(chosen)
    return SessionList(
        sessions=chosen[offset : offset + limit], next=offset + limit if more else None
    )


@router.get("/sessions/{id}", summary="Read a session")
async def get_session(id: Id, grant: Reader) -> Session:
    """The turns of a session."""
    async with grant.memory() as memory:
        return await memory.session(id)


@router.get("/sessions/{id}/status", summary="Status of a session")
async def session_status(id: Id, grant: Reader) -> SessionStatus:
    """pending, stored, empty (nothing durable was said) or failed, with the reason."""
    async with grant.memory() as memory:
        record = next((each for each in await memory.sessions() if each.id == id), None)
    if record is None:
        raise NotInMemory(f"There is no session {id!r} in this space.")
    result = grant.server.ingestion.result(grant.space, id)
    return SessionStatus(
        session=record,
        waiting=grant.server.ingestion.is_waiting(grant.space, id),
        receipt=result.receipt if result else None,
    )


@router.get("/sessions/{id}/quarantined", summary="Cards that no turn supports")
async def list_quarantined(id: Id, grant: Reader) -> list[Quarantined]:
    """Cards that no turn supports. They are never used as memory."""
    async with grant.memory() as memory:
        return await memory.quarantined(id)


@router.post("/sessions/{id}/retry", status_code=202, summary="Try one session again")
async def retry_session(id: Id, grant: Writer) -> Retried:
    """Queues a pending or failed session."""
    return await _retried(grant, id)


@router.post("/retry", status_code=202, summary="Try again")
async def retry_sessions(grant: Writer) -> Retried:
    """Queues every pending or failed session."""
    return await _retried(grant, None)


async def _retried(grant: Grant, id: str | None) -> Retried:
    return Retried(sessions=await grant.server.ingestion.retry(grant.space, id, grant.key.actor))
