"""The URLs of the proxy."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from justmem.server.proxy.completions import COMPLETIONS
from justmem.server.proxy.messages import MESSAGES
from justmem.server.proxy.passage import forward
from justmem.server.proxy.responses import RESPONSES
from justmem.server.proxy.upstreams import answered, passed, read, send, upstream
from justmem.server.routes.access import SpaceHeader

router = APIRouter(tags=["chat"])
SessionHeader = Annotated[
    str | None,
    Header(alias="x-justmem-session", description="Names the conversation. Default: the day."),
]
_ANSWER: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The upstream's answer, as it is. X-JustMem-Receipt says what memory "
        "added; X-JustMem-Error, that it could not.",
        "content": {"application/json": {}, "text/event-stream": {}},
    }
}


class ChatIn(BaseModel):
    """A chat request as the upstream takes it. All but the memory note passes as it is."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={
            "examples": [
                {
                    "model": "gpt-4.1-mini",
                    "messages": [{"role": "user", "content": "What should I ride on Tuesday?"}],
                }
            ]
        },
    )

    messages: list[dict[str, Any]] = Field(min_length=1)
    stream: bool | None = None


class ResponseIn(BaseModel):
    """A request for a response as the upstream takes it. All but the memory note passes as it
    is."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={
            "examples": [{"model": "gpt-4.1-mini", "input": "What should I ride on Tuesday?"}]
        },
    )

    input: str | list[dict[str, Any]] | None = None
    instructions: str | None = None


class MessageIn(ChatIn):
    """A request for a message as the upstream takes it. All but the memory note passes as it
    is."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={
            "examples": [
                {
                    "model": "claude-sonnet-4-5",
                    "max_tokens": 1024,
                    "messages": [{"role": "user", "content": "What should I ride on Tuesday?"}],
                }
            ]
        },
    )

    system: str | list[dict[str, Any]] | None = None


@router.post(
    "/v1/chat/completions",
    summary="Chat with memory",
    response_class=Response,
    responses=_ANSWER,
)
async def chat(
    wish: ChatIn, request: Request, space: SpaceHeader = None, session: SessionHeader = None
) -> Response:
    """Recalls what bears on the last message, adds it as a fenced system note of at most
    `note_tokens`, forwards to the upstream, and remembers the message and the reply. A key that
    may only read recalls and does not remember. What it may cost has to fit what is left of the
    space's `day_tokens`."""
    return await forward(COMPLETIONS, request, space, session)


@router.post(
    "/v1/responses", summary="Respond with memory", response_class=Response, responses=_ANSWER
)
async def respond(
    wish: ResponseIn, request: Request, space: SpaceHeader = None, session: SessionHeader = None
) -> Response:
    """The same for OpenAI's responses: the note comes after the instructions."""
    return await forward(RESPONSES, request, space, session)


@router.post(
    "/v1/messages", summary="Message with memory", response_class=Response, responses=_ANSWER
)
async def message(
    wish: MessageIn, request: Request, space: SpaceHeader = None, session: SessionHeader = None
) -> Response:
    """The same for Anthropic's messages: the note is last in `system`. Needs
    `anthropic_upstream`."""
    return await forward(MESSAGES, request, space, session)


@router.post(
    "/v1/messages/count_tokens", summary="Count tokens at the upstream", response_class=Response
)
async def count(wish: MessageIn, request: Request) -> Response:
    """Passes through."""
    return await _through(request, "messages/count_tokens", anthropic=True)


@router.get("/v1/models", summary="Models of the upstream", response_class=Response)
async def models(request: Request) -> Response:
    """Passes through."""
    known = request.app.state.upstreams
    return await _through(request, "models", anthropic=True in known and False not in known)


async def _through(request: Request, path: str, *, anthropic: bool) -> Response:
    client = upstream(request, anthropic)
    headers = passed(request)
    if body := await request.body():
        headers["content-type"] = "application/json"
    query = request.url.query
    sent = client.build_request(
        request.method, path, content=body or None, headers=headers, params=query or None
    )
    answer = await send(client, sent)
    return Response(await read(request, answer), answer.status_code, answered(request, answer))
