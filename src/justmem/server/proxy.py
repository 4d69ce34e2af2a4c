"""A chat URL that remembers: recall before, forward, remember after.

Whatever happens to memory, the chat goes on: the answer then says so in `X-JustMem-Error`.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import httpx
from fastapi import APIRouter, FastAPI, Header, HTTPException, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response, StreamingResponse

from justmem.errors import JustMemError, ModelUnavailable, NotInMemory
from justmem.models.connection import checked_url, is_loopback
from justmem.models.streaming import Gathered
from justmem.server.chats import Chats, Exchange, read_messages
from justmem.server.keys import Key
from justmem.server.notes import Note, note
from justmem.server.problems import public
from justmem.server.routes.access import SpaceHeader, key_of, server_of, space_for
from justmem.server.state import Inquiry, Server

router = APIRouter(tags=["chat"])
log = logging.getLogger("justmem.server")

RECEIPT, ERROR = "x-justmem-receipt", "x-justmem-error"
_UNREADABLE = (ValueError, RecursionError)  # the latter: nesting made to do harm
_RECALL_SECONDS = 10.0  # a chat does not wait longer for memory
_FORWARDED = ("accept", "openai-organization", "openai-project", "openai-beta", "user-agent")
_KEPT_BACK = {
    *("connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade"),
    *("content-length", "content-encoding", "date", "server", "set-cookie", "alt-svc"),
}


class ChatIn(BaseModel):
    """A chat request as the upstream takes it: everything but `messages` passes as it is."""

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


@dataclass
class _Chat:
    """One chat on its way through."""

    server: Server
    key: Key
    space: str
    conversation: str | None
    exchange: Exchange
    note: Note = field(default_factory=Note)
    receipt: dict[str, Any] = field(default_factory=dict)
    trouble: str = ""

    def failed(self, what: str, error: JustMemError) -> None:
        log.warning("a chat goes on without memory: %s: %s", what, type(error).__name__)
        self.trouble = f"{what}: {public(error)}"

    @property
    def headers(self) -> dict[str, str]:
        shown = {RECEIPT: json.dumps(self.receipt, separators=(",", ":"))}
        if self.trouble:
            said = " ".join(self.trouble.split())[:300]
            shown[ERROR] = said.encode("ascii", "replace").decode()
        return shown


@asynccontextmanager
async def connected(app: FastAPI) -> AsyncIterator[None]:
    server: Server = app.state.server
    serving = server.serving
    app.state.chats = Chats(
        server.ingestion, pause=serving.pause_seconds, most_turns=serving.chat_turns
    )
    app.state.upstream = None
    if serving.upstream is None:
        yield
        return
    url = checked_url(serving.upstream)
    headers = {"accept-encoding": "identity"}  # read on its way through
    if server.settings.upstream_key is not None:
        headers["authorization"] = f"Bearer {server.settings.upstream_key.get_secret_value()}"
    async with httpx.AsyncClient(
        base_url=url,
        headers=headers,
        timeout=httpx.Timeout(30.0, connect=10.0, read=serving.request_seconds),
        limits=httpx.Limits(max_connections=1000, max_keepalive_connections=100),
        trust_env=not is_loopback(url),
    ) as app.state.upstream:
        yield


# ---------------------------------------------------------------- routes


@router.post(
    "/v1/chat/completions",
    summary="Chat with memory",
    response_class=Response,
    responses={
        200: {
            "description": "The upstream's answer, as it is. X-JustMem-Receipt says what memory "
            "added; X-JustMem-Error, that it could not.",
            "content": {"application/json": {}, "text/event-stream": {}},
        }
    },
)
async def chat(
    wish: ChatIn,
    request: Request,
    space: SpaceHeader = None,
    session: Annotated[
        str | None,
        Header(alias="x-justmem-session", description="Names the conversation. Default: the day."),
    ] = None,
) -> Response:
    """Recalls what bears on the last message, adds it as a fenced system note of at most
    `note_tokens`, forwards to the upstream, and remembers the message and the reply. A key that
    may only read recalls and does not remember."""
    server, key = server_of(request), key_of(request)
    upstream = _upstream(request)
    passing = _Chat(server, key, space_for(key, space), session, read_messages(wish.messages))
    server.check(key, passing.space, "read")
    await _recall(passing)
    body = await request.json()
    body["messages"] = _with_note(wish.messages, passing.note)
    # Written here, in ASCII: what was sent as \ud83d or NaN goes on as it came.
    content = json.dumps(body).encode("ascii")
    passed = _passed(request) | {"content-type": "application/json"}
    sent = upstream.build_request("POST", "chat/completions", content=content, headers=passed)
    answer = await _sent(upstream, sent)
    headers = _answered(answer) | passing.headers
    if "event-stream" in answer.headers.get("content-type", ""):
        stream = _streamed(request, passing, answer)
        return StreamingResponse(stream, answer.status_code, headers)
    replied = await _read(answer)
    if answer.is_success:
        await _remember(request, passing, _reply_in(replied))
    server.metrics.proxied.add(memory="failed" if passing.trouble else "ok")
    return Response(replied, answer.status_code, headers | passing.headers)


@router.get("/v1/models", summary="Models of the upstream", response_class=Response)
async def models(request: Request) -> Response:
    """Passes through."""
    upstream = _upstream(request)
    sent = upstream.build_request("GET", "models", headers=_passed(request))
    answer = await _sent(upstream, sent)
    return Response(await _read(answer), answer.status_code, _answered(answer))


def _upstream(request: Request) -> httpx.AsyncClient:
    upstream: httpx.AsyncClient | None = request.app.state.upstream
    if upstream is None:
        raise HTTPException(404, "The chat proxy is not set up: name an `upstream` in [server].")
    return upstream


# ---------------------------------------------------------------- memory's part


async def _recall(passing: _Chat) -> None:
    question = "\n".join(passing.exchange.said)
    if not question:
        return  # a tool's result: what the user said was recalled for before
    server, started = passing.server, time.perf_counter()
    try:
        work = server.recall(Inquiry(passing.key, passing.space, question))
        evidence = await server.within(work, _RECALL_SECONDS)
    except NotInMemory:  # nobody has said anything yet
        return
    except JustMemError as error:
        passing.failed("not recalled", error)
        return
    passing.note = note(evidence, server.serving.note_tokens)
    passing.receipt = {
        "access": evidence.access.value,
        "cards": passing.note.cards,
        "sources": passing.note.sources,
        "tokens": passing.note.tokens,
        "model_tokens": evidence.receipt.tokens,
        "history_tokens": evidence.receipt.history_tokens,
        "ms": round((time.perf_counter() - started) * 1000),
    }


def _with_note(messages: list[dict[str, Any]], added: Note) -> list[dict[str, Any]]:
    """After the instructions that the chat begins with, before what was said."""
    if not added.text:
        return messages
    lead = 0
    while lead < len(messages) and messages[lead].get("role") in ("system", "developer"):
        lead += 1
    return [*messages[:lead], {"role": "system", "content": added.text}, *messages[lead:]]


async def _remember(request: Request, passing: _Chat, reply: str) -> None:
    if not passing.key.may("write"):
        return
    server, chats = passing.server, request.app.state.chats
    exchange = replace(passing.exchange, reply=reply)
    try:
        by = passing.key.actor
        work = chats.add(passing.space, passing.conversation, exchange, server.clock(), by)
        passing.receipt["session"] = await server.within(work)
    except JustMemError as error:
        passing.failed("not remembered", error)


# ---------------------------------------------------------------- there and back


def _passed(request: Request) -> dict[str, str]:
    known = {name: request.headers[name] for name in _FORWARDED if name in request.headers}
    return {name: value for name, value in known.items() if value.isascii()}


def _answered(answer: httpx.Response) -> dict[str, str]:
    return {
        name: value
        for name, value in answer.headers.items()
        if name not in _KEPT_BACK and value.isascii()
    }


async def _sent(upstream: httpx.AsyncClient, request: httpx.Request) -> httpx.Response:
    try:
        return await upstream.send(request, stream=True)
    except httpx.TransportError as error:
        raise ModelUnavailable(
            f"The chat server behind this one does not answer ({type(error).__name__}): "
            "try again in a moment."
        ) from None


async def _read(answer: httpx.Response) -> bytes:
    try:
        return await answer.aread()
    except httpx.TransportError:
        raise ModelUnavailable("The chat server broke off in the middle of its answer.") from None
    except httpx.DecodingError:
        raise ModelUnavailable("The chat server's answer cannot be unpacked.") from None
    finally:
        await answer.aclose()


def _reply_in(content: bytes) -> str:
    gathered = Gathered()
    try:
        return gathered.add(json.loads(content)).strip()
    except _UNREADABLE:
        return ""


async def _streamed(
    request: Request, passing: _Chat, answer: httpx.Response
) -> AsyncIterator[bytes]:
    heard = _Heard()
    try:
        async for chunk in answer.aiter_raw():
            heard.listen(chunk)
            yield chunk
    except httpx.TransportError:
        log.warning("the chat server broke off in the middle of its answer")
    finally:
        # In a task of its own: this one ends with a client that leaves.
        passing.server.background(_ended(request, passing, answer, heard.text))


async def _ended(request: Request, passing: _Chat, answer: httpx.Response, reply: str) -> None:
    await answer.aclose()
    if answer.is_success:
        await _remember(request, passing, reply)
    passing.server.metrics.proxied.add(memory="failed" if passing.trouble else "ok")


class _Heard:
    """The reply's text, put together from the events as they pass."""

    def __init__(self) -> None:
        self._rest = b""
        self._gathered = Gathered()

    def listen(self, chunk: bytes) -> None:
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            if line.startswith(b"data:") and (data := line[5:].strip()) != b"[DONE]":
                try:
                    self._gathered.add(json.loads(data))
                except _UNREADABLE:
                    continue

    @property
    def text(self) -> str:
        message: Mapping[str, Any] = self._gathered.whole["choices"][0]["message"]
        return str(message["content"]).strip()
