"""The URLs of the proxy."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Header, Request
from starlette.responses import Response

from justmem.server.proxy.chat import forward
from justmem.server.proxy.formats import COMPLETIONS, MESSAGES, RESPONSES
from justmem.server.proxy.upstreams import pass_through
from justmem.server.requests import SpaceHeader

router = APIRouter(tags=["chat"], default_response_class=Response)
SessionHeader = Annotated[
    str | None,
    Header(alias="x-justmem-session", description="Names the conversation. Default: the day."),
]
_ASKED = [{"role": "user", "content": "What should I ride on Tuesday?"}]
Given = dict[str, Any]  # as the upstream takes it
Chat = Annotated[Given, Body(examples=[{"model": "gpt-4.1-mini", "messages": _ASKED}])]
Asked = Annotated[Given, Body(examples=[{"model": "gpt-4.1-mini", "input": _ASKED[0]["content"]}])]
Message = Annotated[
    Given, Body(examples=[{"model": "claude-sonnet-4-5", "max_tokens": 1024, "messages": _ASKED}])
]
_ANSWER: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The upstream's answer, as it is. X-JustMem-Receipt says what memory "
        "added; X-JustMem-Error, that it could not.",
        "content": {"application/json": {}, "text/event-stream": {}},
    }
}


@router.post("/v1/chat/completions", summary="Chat with memory", responses=_ANSWER)
async def chat(
    body: Chat, request: Request, space: SpaceHeader = None, session: SessionHeader = None
) -> Response:
    """Recalls what bears on the last message, adds it as a fenced system note of at most
    `note_tokens`, forwards to the upstream, and remembers the message and the reply. A key that
    may only read recalls and does not remember. The chat must fit what is left of the space's
    `day_tokens`."""
    return await forward(COMPLETIONS, body, request, space, session)


@router.post("/v1/responses", summary="Respond with memory", responses=_ANSWER)
async def respond(
    body: Asked, request: Request, space: SpaceHeader = None, session: SessionHeader = None
) -> Response:
    """The same for OpenAI's responses: the note comes after the instructions."""
    return await forward(RESPONSES, body, request, space, session)


@router.post("/v1/messages", summary="Message with memory", responses=_ANSWER)
async def message(
    body: Message, request: Request, space: SpaceHeader = None, session: SessionHeader = None
) -> Response:
    """The same for Anthropic's messages: the note is last in `system`. Needs
    `anthropic_upstream`."""
    return await forward(MESSAGES, body, request, space, session)


@router.post("/v1/messages/count_tokens", summary="Count tokens at the upstream")
async def count(body: Message, request: Request) -> Response:
    """Passes through."""
    return await pass_through(request, "messages/count_tokens", anthropic=True)


@router.get("/v1/models", summary="Models of the upstream")
async def models(request: Request) -> Response:
    """Passes through."""
    known = request.app.state.upstreams
    return await pass_through(request, "models", anthropic=True in known and False not in known)
