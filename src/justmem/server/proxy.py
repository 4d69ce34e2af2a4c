"""A chat URL that remembers: recall before, forward, remember after.

Whatever happens to memory, the chat goes on: the answer then says so in `X-JustMem-Error`.
"""

from __future__ import annotations

import asyncio
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
from starlette.types import Receive, Scope, Send

from justmem.answer.prompt import PromptBlock, prompt_block
from justmem.domain import Receipt
from justmem.errors import JustMemError, ModelUnavailable, NotInMemory
from justmem.models.connection import NOT_SENT, checked_url, is_local
from justmem.models.streaming import Gathered
from justmem.server.access_keys import Key
from justmem.server.chat_budget import Estimate, Expense, spent, written
from justmem.server.chats import Chats, Exchange, read_messages
from justmem.server.problems import public
from justmem.server.routes.access import SpaceHeader, key_of, server_of, space_for
from justmem.server.secret_mask import SecretMask, upstream_secrets
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
    note: PromptBlock = field(default_factory=PromptBlock)
    receipt: dict[str, Any] = field(default_factory=dict)
    trouble: str = ""
    expense: Expense | None = None

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
    key = server.settings.upstream_key
    secret = None if key is None else key.get_secret_value()
    app.state.blanks = SecretMask(upstream_secrets(serving.upstream, secret))
    if serving.upstream is None:
        yield
        return
    url = checked_url(serving.upstream)
    headers = {"accept-encoding": "identity"}  # read on its way through
    if secret is not None:
        headers["authorization"] = f"Bearer {secret}"
    async with httpx.AsyncClient(
        base_url=url,
        headers=headers,
        timeout=httpx.Timeout(30.0, connect=10.0, read=serving.request_seconds),
        limits=httpx.Limits(max_connections=1000, max_keepalive_connections=100),
        trust_env=not is_local(url),
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
    may only read recalls and does not remember. What it may cost has to fit what is left of the
    space's `day_tokens`."""
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
    passing.expense = await _allowed(passing, body)
    try:
        answer = await _sent(upstream, sent, passing.expense)
        headers = _answered(request, answer) | passing.headers
        if "event-stream" in answer.headers.get("content-type", ""):
            return _Stream(request, passing, answer, headers)
        replied = await _read(request, answer)
    except BaseException:
        passing.expense.abandon()
        raise
    reply, usage, texts = _reply_in(replied)
    await _enter(passing, answer, usage, texts)
    if answer.is_success:
        await _remember(request, passing, reply)
    server.metrics.proxied.add(memory="failed" if passing.trouble else "ok")
    return Response(replied, answer.status_code, headers | passing.headers)


@router.get("/v1/models", summary="Models of the upstream", response_class=Response)
async def models(request: Request) -> Response:
    """Passes through."""
    upstream = _upstream(request)
    sent = upstream.build_request("GET", "models", headers=_passed(request))
    answer = await _sent(upstream, sent)
    return Response(await _read(request, answer), answer.status_code, _answered(request, answer))


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
    passing.note = prompt_block(evidence, server.serving.note_tokens)
    passing.receipt = {
        "access": evidence.access.value,
        "cards": passing.note.cards,
        "sources": passing.note.sources,
        "tokens": passing.note.tokens,
        "model_tokens": evidence.receipt.tokens,
        "history_tokens": evidence.receipt.history_tokens,
        "ms": round((time.perf_counter() - started) * 1000),
    }


def _with_note(messages: list[dict[str, Any]], added: PromptBlock) -> list[dict[str, Any]]:
    """After the instructions that the chat begins with, before what was said."""
    if not added.text:
        return messages
    lead = 0
    while lead < len(messages) and messages[lead].get("role") in ("system", "developer"):
        lead += 1
    return [*messages[:lead], {"role": "system", "content": added.text}, *messages[lead:]]


async def _remember(request: Request, passing: _Chat, reply: str) -> None:
    erased = passing.expense is not None and passing.expense.erased
    if erased or not passing.key.may("write"):
        return
    server, chats = passing.server, request.app.state.chats
    exchange = replace(passing.exchange, reply=reply)
    try:
        by = passing.key.actor
        work = chats.add(passing.space, passing.conversation, exchange, server.clock(), by)
        passing.receipt["session"] = await server.within(work)
    except JustMemError as error:
        passing.failed("not remembered", error)


# ---------------------------------------------------------------- what it costs


async def _allowed(passing: _Chat, body: Mapping[str, Any]) -> Expense:
    """BudgetExceeded, and nothing is sent, if it does not fit what is left of the day. A ledger
    that cannot be used stops the chat only where there is a limit."""
    server = passing.server
    estimate = await asyncio.to_thread(Estimate.of, body)
    expense = Expense(server, passing.key, passing.space, estimate)
    try:
        await expense.allow()
    except JustMemError as error:
        if server.settings.budget.day_tokens is not None:
            raise
        if not isinstance(error, NotInMemory) and not passing.trouble:
            passing.failed("not counted", error)
    return expense


async def _enter(passing: _Chat, answer: httpx.Response, usage: Any, texts: list[str]) -> None:
    expense = passing.expense
    assert expense is not None
    if answer.is_success:
        call = await asyncio.to_thread(spent, expense.estimate, usage, texts)
        passing.server.metrics.receipt(Receipt(calls=(call,)))
        expense.close(call)
    elif answer.status_code in (408, 504):  # it may have left the model working on it
        expense.abandon()
    else:
        expense.close()


# ---------------------------------------------------------------- there and back


def _passed(request: Request) -> dict[str, str]:
    known = {name: request.headers[name] for name in _FORWARDED if name in request.headers}
    return {name: value for name, value in known.items() if value.isascii()}


def _answered(request: Request, answer: httpx.Response) -> dict[str, str]:
    blanks: SecretMask = request.app.state.blanks
    return {
        name: blanks.text(value)
        for name, value in answer.headers.items()
        if name not in _KEPT_BACK and value.isascii() and blanks.text(name) == name
    }


async def _sent(
    upstream: httpx.AsyncClient, request: httpx.Request, expense: Expense | None = None
) -> httpx.Response:
    try:
        return await upstream.send(request, stream=True)
    except httpx.TransportError as error:
        if expense is not None and type(error).__name__ in NOT_SENT:
            expense.close()
        raise ModelUnavailable(
            f"The chat server behind this one does not answer ({type(error).__name__}): "
            "try again in a moment."
        ) from None


async def _read(request: Request, answer: httpx.Response) -> bytes:
    blanks: SecretMask = request.app.state.blanks
    try:
        return blanks.whole(await answer.aread())
    except httpx.TransportError:
        raise ModelUnavailable("The chat server broke off in the middle of its answer.") from None
    except httpx.DecodingError:
        raise ModelUnavailable("The chat server's answer cannot be unpacked.") from None
    finally:
        await answer.aclose()


def _reply_in(content: bytes) -> tuple[str, Any, list[str]]:
    """The text, the usage as it was told, and everything that was written."""
    gathered = Gathered()
    try:
        reply = json.loads(content)
    except _UNREADABLE:
        return "", None, [content.decode("utf-8", "replace")]
    text = gathered.add(reply).strip()
    return text, gathered.whole["usage"], written(reply)


class _Stream(StreamingResponse):
    """An answer that passes piece by piece. However it ends, it is counted and remembered."""

    def __init__(
        self, request: Request, passing: _Chat, answer: httpx.Response, headers: dict[str, str]
    ) -> None:
        self._request = request
        self._passing = passing
        self._answer = answer
        self._heard = _Heard()
        super().__init__(self._pieces(), answer.status_code, headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            # In a task of its own: this one ends with a client that leaves.
            self._passing.server.background(self._ended())

    async def _pieces(self) -> AsyncIterator[bytes]:
        blanked = self._request.app.state.blanks.stream()
        loop = asyncio.get_running_loop()
        ends = loop.time() + self._passing.server.serving.stream_seconds
        try:
            async for chunk in self._answer.aiter_bytes():
                if loop.time() > ends:
                    log.warning("a forwarded chat was not read in time")
                    return
                if ready := blanked.add(chunk):
                    self._heard.listen(ready)
                    yield ready
            self._heard.complete = True
        except (httpx.TransportError, httpx.DecodingError):
            log.warning("the chat server broke off in the middle of its answer")
        if rest := blanked.end():
            self._heard.listen(rest)
            yield rest

    async def _ended(self) -> None:
        passing, answer, heard = self._passing, self._answer, self._heard
        assert passing.expense is not None
        await answer.aclose()
        if heard.complete:
            await _enter(passing, answer, heard.usage, heard.texts)
        else:
            passing.expense.abandon()
        if answer.is_success:
            await _remember(self._request, passing, heard.text)
        passing.server.metrics.proxied.add(memory="failed" if passing.trouble else "ok")


class _Heard:
    """The reply's text, put together from the events as they pass."""

    def __init__(self) -> None:
        self._rest = b""
        self._gathered = Gathered()
        self.texts: list[str] = []
        self.complete = False

    def listen(self, chunk: bytes) -> None:
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                self._event(line[5:].strip())

    def _event(self, data: bytes) -> None:
        if data == b"[DONE]":
            self.complete = True
            return
        try:
            event = json.loads(data)
        except _UNREADABLE:
            return
        self._gathered.add(event)
        self.texts += written(event)

    @property
    def usage(self) -> Any:
        return self._gathered.whole["usage"]

    @property
    def text(self) -> str:
        message: Mapping[str, Any] = self._gathered.whole["choices"][0]["message"]
        return str(message["content"]).strip()
