"""The URLs of the chat proxy."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, Header, Request
from starlette.responses import Response

from justmem.server.proxy.chat import Chat
from justmem.server.proxy.formats import COMPLETIONS, MESSAGES, RESPONSES
from justmem.server.requests import SpaceHeader, ThisKey, ThisServer, space_for
from justmem.server.space_access import SpaceAccess

router = APIRouter(tags=["chat"], default_response_class=Response)

SessionHeader = Annotated[
    str | None,
    Header(alias="x-justmem-session", description="Names the conversation. Default: the day."),
]
_ASKED = [{"role": "user", "content": "What should I ride on Tuesday?"}]
_CLAUDE = {"model": "claude-sonnet-4-5", "max_tokens": 1024, "messages": _ASKED}
ChatIn = Annotated[dict[str, Any], Body(examples=[{"model": "gpt-4.1-mini", "messages": _ASKED}])]
ResponseIn = Annotated[dict[str, Any], Body(examples=[{"model": "gpt-4.1-mini", "input": "Hello"}])]
MessageIn = Annotated[dict[str, Any], Body(examples=[_CLAUDE])]
_ANSWER: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The upstream's answer, as it is. X-JustMem-Receipt says what memory "
        "added; X-JustMem-Error, that it could not.",
        "content": {"application/json": {}, "text/event-stream": {}},
    }
}


def _access(server: ThisServer, key: ThisKey, space: SpaceHeader = None) -> SpaceAccess:
    return SpaceAccess(server, key, space_for(key, space)).check("read")


Access = Annotated[SpaceAccess, Depends(_access)]


@router.post("/v1/chat/completions", responses=_ANSWER)
async def chat(
    body: ChatIn, request: Request, access: Access, session: SessionHeader = None
) -> Response:
    """Recalls what bears on the last message, adds it as a fenced system note of at most
    `note_tokens`, forwards to the upstream, and remembers the message and the reply. A key that
    may only read recalls and does not remember. The chat must fit what is left of the space's
    `day_tokens`."""
    return await Chat(access, COMPLETIONS, request, body, session).response()


@router.post("/v1/responses", responses=_ANSWER)
async def respond(
    body: ResponseIn, request: Request, access: Access, session: SessionHeader = None
) -> Response:
    """The same for OpenAI's responses: the note comes after the instructions."""
    return await Chat(access, RESPONSES, request, body, session).response()


@router.post("/v1/messages", responses=_ANSWER)
async def message(
    body: MessageIn, request: Request, access: Access, session: SessionHeader = None
) -> Response:
    """The same for Anthropic's messages: the note is last in `system`. Needs
    `anthropic_upstream`."""
    return await Chat(access, MESSAGES, request, body, session).response()


@router.post("/v1/messages/count_tokens")
async def count(body: MessageIn, request: Request, server: ThisServer) -> Response:
    """Passes through."""
    return await server.upstreams["anthropic"].pass_through(request, "messages/count_tokens")


@router.get("/v1/models")
async def models(request: Request, server: ThisServer) -> Response:
    """Passes through."""
    upstream = server.upstreams["openai" if server.serving.upstream else "anthropic"]
    return await upstream.pass_through(request, "models")
