"""Sessions and notes: remember, append, list, read, retry, rebuild, note."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import BaseModel, Field, model_validator

from justmem.domain import (
    Card,
    Note,
    Quarantined,
    Remembered,
    Session,
    SessionRecord,
    SessionState,
)
from justmem.errors import InputError
from justmem.server.requests import (
    Body,
    Deadline,
    Id,
    Labels,
    Limit,
    Offset,
    Readable,
    Time,
    WriteAccess,
    server_of,
    with_example,
)
from justmem.server.space_access import record_of

router = APIRouter(prefix="/v1/spaces/{space}", tags=["sessions and notes"])

# ---------------------------------------------------------------- remember and append


Turns = Annotated[
    list[dict[str, Any]],
    Field(
        max_length=10_000,
        description="Each has a `text` (or `content`), and a `speaker` (or `name`) or a `role`. It "
        "may have an `at`, and a `key`: a turn is added once under it. Other fields of chat "
        "messages are ignored.",
    ),
]


class _Said(Body):
    """The fields of a session that `append` takes too."""

    at: Time | None = None
    labels: Labels | None = None
    turns: Turns | None = None
    messages: Turns | None = None

    @model_validator(mode="before")
    @classmethod
    def _from_bare(cls, value: Any) -> Any:
        """A text, or a list of messages."""
        if isinstance(value, str):
            value = [{"role": "user", "text": value}]
        return {"messages": value} if isinstance(value, list) else value


class SessionIn(_Said):
    """A dated conversation, as `turns` or as chat `messages`; a bare list of messages or a text
    will do. Without `id` one is made from the content. Without `at` it takes place now."""

    model_config = with_example(
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

    id: str | None = None
    until: None = Field(None, description="Always null: only notes expire by themselves.")


class TurnsIn(_Said):
    """Turns to add to a session. `at` is when they were said, if they do not say so themselves.
    `labels` replace those of the session."""

    model_config = with_example(
        {"turns": [{"role": "user", "text": "It has a bell now.", "key": "message-9"}]}
    )


def _wait_seconds(
    request: Request,
    wait: Annotated[bool, Query(description="Respond when the cards are made.")] = False,
) -> float:
    """A little less than the time that the request has."""
    return 0.9 * server_of(request).serving.request_seconds if wait else 0.0


Wait = Annotated[float, Depends(_wait_seconds)]
_STORED: dict[int | str, dict[str, Any]] = {
    200: {"model": Remembered, "description": "The cards are made, or cannot be made."},
    202: {"model": Remembered, "description": "The words are stored; the cards follow."},
}


@router.post("/sessions", status_code=202, responses=_STORED)
async def remember(
    session: SessionIn, access: WriteAccess, response: Response, wait: Wait
) -> Remembered:
    """The words are stored before the response. Sending the same session again costs nothing; a
    changed one replaces its cards."""
    done = await access.remember(session.given(), wait=wait)
    response.status_code = 202 if done.state is SessionState.PENDING else 200
    return done


@router.post("/sessions/{id}/turns", status_code=202, responses=_STORED)
async def append(
    id: Id, body: TurnsIn, access: WriteAccess, response: Response, wait: Wait
) -> Remembered:
    """The turns are stored before the response. A turn whose `key` the session already has is left
    out. `at`: when they were said; default: now."""
    done = await access.remember(body.given("at"), id=id, at=body.at, append=True, wait=wait)
    response.status_code = 202 if done.state is SessionState.PENDING else 200
    return done


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
    return await record_of(memory, id)


@router.get("/sessions/{id}/quarantined")
async def list_quarantined(id: Id, memory: Readable) -> list[Quarantined]:
    """Cards that no turn supports. They are never used as memory."""
    await record_of(memory, id)
    return await memory.quarantined(id)


class Queued(BaseModel):
    sessions: int


OneSession = Annotated[str | None, Query(description="Only this session.")]


@router.post("/retry", status_code=202)
async def retry(access: WriteAccess, wait: Wait, session: OneSession = None) -> Queued:
    """Queues the pending and failed sessions."""
    return Queued(sessions=await access.make_cards(session, rebuild=False, wait=wait))


@router.post("/rebuild", status_code=202)
async def rebuild(access: WriteAccess, wait: Wait, session: OneSession = None) -> Queued:
    """Queues one session or all, to make their cards again. Corrections and pins stay."""
    return Queued(sessions=await access.make_cards(session, rebuild=True, wait=wait))


# ---------------------------------------------------------------- notes


class NoteIn(Body):
    """`value` is any JSON; `value_json` is JSON as a text, which stays byte for byte. Give one of
    them or none. The note expires at `until`. `at`: when it holds from; default: now."""

    model_config = with_example({"text": "Ana is allergic to walnuts.", "value": 1})

    text: str
    value: Any = None
    value_json: str | None = None
    at: Time | None = None
    until: Deadline | None = None
    labels: Labels | None = None


@router.put("/notes/{id}")
async def note(id: Id, body: NoteIn, access: WriteAccess) -> Card:
    """Stores a card exactly as given, without extraction. A note with the same key is replaced."""
    given = body.given("value_json")
    if body.value_json is not None:
        if body.value is not None:
            raise InputError("Give value or value_json, not both.")
        given["value"] = body.value_json.encode()
    async with access.memory(create=True) as memory:
        return await memory.note(key=id, **given)


@router.get("/notes")
async def notes(
    memory: Readable, prefix: Annotated[str, Query(description="How their keys begin.")] = ""
) -> list[Note]:
    """In order of their keys."""
    return list(await memory.notes(prefix))


@router.get("/notes/{id}")
async def note_at(id: Id, memory: Readable) -> Note:
    """The note with that key."""
    return await memory.note_at(id)
