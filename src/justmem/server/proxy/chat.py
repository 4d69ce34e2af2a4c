"""One chat: recall, budget, forward, remember. If memory fails, the chat goes on without it."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import secrets
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import httpx
from fastapi import APIRouter, Header, Request
from fastapi import Body as BodyOf
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from justmem.domain import Receipt
from justmem.errors import InputError, JustMemError, ModelUnavailable, NotInMemory, TooSlow
from justmem.models.http_client import NOT_SENT
from justmem.prompts.evidence import PromptBlock, prompt_block
from justmem.server.access import SpaceAccess
from justmem.server.problems import public
from justmem.server.proxy.costs import Estimate, Expense, spent
from justmem.server.proxy.formats import (
    COMPLETIONS,
    MESSAGES,
    RESPONSES,
    Body,
    Exchange,
    Format,
    Reply,
    exchange_of,
)
from justmem.server.proxy.upstreams import Upstreams
from justmem.server.requests import SpaceHeader, key_of, server_of, space_for

router = APIRouter(tags=["chat"], default_response_class=Response)
log = logging.getLogger("justmem.server")

RECEIPT, ERROR = "x-justmem-receipt", "x-justmem-error"
_UNREADABLE = (ValueError, RecursionError)  # the latter: nesting made to do harm
_MEMORY_SECONDS = 10.0  # a chat does not wait longer for memory
_MOST_KNOWN = 1000
# The mark of a note depends on the question alone, so the provider's prompt cache holds through a
# tool loop. Nobody outside can know it.
_SECRET = secrets.token_bytes(16)

# ---------------------------------------------------------------- the URLs

SessionHeader = Annotated[
    str | None,
    Header(alias="x-justmem-session", description="Names the conversation. Default: the day."),
]
_ASKED = [{"role": "user", "content": "What should I ride on Tuesday?"}]
_CLAUDE = {"model": "claude-sonnet-4-5", "max_tokens": 1024, "messages": _ASKED}
ChatIn = Annotated[Body, BodyOf(examples=[{"model": "gpt-4.1-mini", "messages": _ASKED}])]
ResponseIn = Annotated[Body, BodyOf(examples=[{"model": "gpt-4.1-mini", "input": "Hello"}])]
MessageIn = Annotated[Body, BodyOf(examples=[_CLAUDE])]
_ANSWER: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The upstream's answer, as it is. X-JustMem-Receipt says what memory "
        "added; X-JustMem-Error, that it could not.",
        "content": {"application/json": {}, "text/event-stream": {}},
    }
}


@router.post("/v1/chat/completions", responses=_ANSWER)
async def chat(
    body: ChatIn, request: Request, space: SpaceHeader = None, session: SessionHeader = None
) -> Response:
    """Recalls what bears on the last message, adds it as a fenced system note of at most
    `note_tokens`, forwards to the upstream, and remembers the message and the reply. A key that
    may only read recalls and does not remember. The chat must fit what is left of the space's
    `day_tokens`."""
    return await _forward(COMPLETIONS, body, request, space, session)


@router.post("/v1/responses", responses=_ANSWER)
async def respond(
    body: ResponseIn, request: Request, space: SpaceHeader = None, session: SessionHeader = None
) -> Response:
    """The same for OpenAI's responses: the note comes after the instructions."""
    return await _forward(RESPONSES, body, request, space, session)


@router.post("/v1/messages", responses=_ANSWER)
async def message(
    body: MessageIn, request: Request, space: SpaceHeader = None, session: SessionHeader = None
) -> Response:
    """The same for Anthropic's messages: the note is last in `system`. Needs
    `anthropic_upstream`."""
    return await _forward(MESSAGES, body, request, space, session)


@router.post("/v1/messages/count_tokens")
async def count(body: MessageIn, request: Request) -> Response:
    """Passes through."""
    return await _upstreams(request).pass_through(request, "messages/count_tokens", anthropic=True)


@router.get("/v1/models")
async def models(request: Request) -> Response:
    """Passes through."""
    known = _upstreams(request)
    return await known.pass_through(request, "models", anthropic=known.openai is None)


def _upstreams(request: Request) -> Upstreams:
    known = request.app.state.upstreams
    assert isinstance(known, Upstreams)
    return known


# ---------------------------------------------------------------- one chat


async def _forward(
    format: Format, body: Body, request: Request, space: str | None, session: str | None
) -> Response:
    key, upstreams = key_of(request), _upstreams(request)
    upstreams.check(format.anthropic)
    access = SpaceAccess(server_of(request), key, space_for(key, space)).check("read")
    chat = _Chat(access, session, exchange_of(body), upstreams)
    await chat.recall(chat.question(body))
    content = await request.body()
    if chat.note.text:
        format.add_note(body, chat.note.text)
        content = json.dumps(body).encode()
    await chat.reserve(body)
    try:
        answer = await upstreams.send(request, format.path, content, anthropic=format.anthropic)
        headers = upstreams.headers(answer)
        if "event-stream" in answer.headers.get("content-type", ""):
            return _Stream(chat, format, answer, headers | chat.headers)
        replied = await upstreams.read(answer)
    except BaseException as error:
        refused = isinstance(error, ModelUnavailable) and type(error.__cause__).__name__ in NOT_SENT
        chat.expense.end(abandoned=not refused)
        raise
    await chat.finish(answer, _reply_of(format, replied))
    return Response(replied, answer.status_code, headers | chat.headers)


def _reply_of(format: Format, content: bytes) -> Reply:
    reply = Reply(complete=True)
    try:
        data = json.loads(content)
    except _UNREADABLE:
        reply.written.append(content.decode("utf-8", "replace"))
    else:
        if isinstance(data, Mapping):
            format.read(reply, data)
    return reply


@dataclass
class _Chat:
    access: SpaceAccess
    conversation: str | None
    exchange: Exchange
    upstreams: Upstreams
    note: PromptBlock = field(default_factory=PromptBlock)
    receipt: dict[str, Any] = field(default_factory=dict)
    trouble: str = ""
    asked: str = ""
    expense: Expense = field(init=False)

    @property
    def headers(self) -> dict[str, str]:
        shown = {RECEIPT: json.dumps(self.receipt, separators=(",", ":"))}
        if self.trouble:
            line = " ".join(self.trouble.split())[:300]
            shown[ERROR] = line.encode("ascii", "replace").decode()
        return shown

    def question(self, body: Body) -> str:
        """A step of a tool loop may name only the response that it continues."""
        earlier = (self.access.space, str(body.get("previous_response_id")))
        self.asked = self.exchange.question or self.upstreams.questions.get(earlier, "")
        return self.asked

    async def recall(self, question: str) -> None:
        if not question:
            return
        started = time.perf_counter()
        try:
            async with (
                asyncio.timeout(_MEMORY_SECONDS),
                self.access.asking() as memory,
            ):
                evidence = await memory.recall(question)
        except NotInMemory:  # nothing has been said yet
            return
        except (JustMemError, TimeoutError) as error:
            self._failed("not recalled", error)
            return
        self.access.server.metrics.receipt(evidence.receipt)
        limit = self.access.server.serving.note_tokens
        self.note = prompt_block(evidence, limit, mark=_mark(question))
        self.receipt = {
            "access": evidence.access.value,
            "cards": self.note.cards,
            "sources": self.note.sources,
            "tokens": self.note.tokens,
            "model_tokens": evidence.receipt.tokens,
            "history_tokens": evidence.receipt.history_tokens,
            "ms": round((time.perf_counter() - started) * 1000),
        }

    async def reserve(self, body: Body) -> None:
        """BudgetExceeded, and nothing is sent, if the chat does not fit what is left of the day.
        A ledger that cannot be used stops the chat only if there is a limit."""
        estimate = await asyncio.to_thread(Estimate.of, body)
        self.expense = Expense(self.access, estimate)
        try:
            await self.expense.allow()
        except JustMemError as error:
            if self.access.server.settings.budget.day_tokens is not None:
                raise
            if not isinstance(error, NotInMemory) and not self.trouble:
                self._failed("not counted", error)

    async def finish(self, answer: httpx.Response, reply: Reply) -> None:
        """Enters the cost and remembers the exchange."""
        if not reply.complete or answer.status_code in (408, 504):  # the model may still work on it
            self.expense.end(abandoned=True)
        elif answer.is_success:
            counts = reply.tokens_in, reply.tokens_out, reply.written
            call = await asyncio.to_thread(spent, self.expense.estimate, *counts)
            self.access.server.metrics.receipt(Receipt(calls=(call,)))
            self.expense.end(call)
        else:
            self.expense.end()
        if answer.is_success and not self.expense.erased and self.access.key.may("write"):
            await self._remember(reply)
        self.access.server.metrics.chat(failed=bool(self.trouble))

    async def _remember(self, reply: Reply) -> None:
        """A named conversation is a session of its own. The others belong to the session of the
        day. Cards are made when the chat has been quiet for a while."""
        if reply.id:
            known = self.upstreams.questions
            known[self.access.space, reply.id] = self.asked
            while len(known) > _MOST_KNOWN:
                known.popitem(last=False)
        turns = _turns(self.exchange, reply.text)
        if not turns:
            return
        try:
            name = (
                _checked(self.conversation)
                if self.conversation
                else f"{self.access.server.clock():%F}"
            )
            pause = self.access.server.serving.pause_seconds
            async with asyncio.timeout(_MEMORY_SECONDS):
                stored = await self.access.remember(
                    turns, id=f"chat-{name}", append=True, pause=pause
                )
            self.receipt["session"] = stored.session_id
        except (JustMemError, TimeoutError) as error:
            self._failed("not remembered", error)

    def _failed(self, what: str, error: JustMemError | TimeoutError) -> None:
        log.warning("a chat goes on without memory: %s: %s", what, type(error).__name__)
        if not isinstance(error, JustMemError):
            error = TooSlow(f"This took longer than {_MEMORY_SECONDS:g} seconds.")
        self.trouble = f"{what}: {public(error)}"


def _turns(exchange: Exchange, reply: str) -> list[dict[str, str]]:
    """The same message or reply after the same words has the same key, so it is stored once."""
    turns = [{"role": "user", "text": text} for text in exchange.messages]
    if reply:
        turns.append({"role": "assistant", "text": reply})
    key = exchange.before
    for turn in turns:
        place = json.dumps([key, turn["text"]]).encode()
        key = turn["key"] = hashlib.blake2b(place, digest_size=16).hexdigest()
    return turns


def _checked(conversation: str) -> str:
    name = conversation.strip()
    if not name or len(name) > 150 or not name.isprintable():
        raise InputError("X-JustMem-Session is 1 to 150 printable characters.")
    return name


def _mark(question: str) -> str:
    digest = hashlib.blake2b(question.encode("utf-8", "replace"), key=_SECRET, digest_size=8)
    return f"{int.from_bytes(digest.digest()) % 10**9:09d}"


class _Stream(StreamingResponse):
    """An answer that passes line by line. However it ends, it is counted and remembered."""

    def __init__(
        self, chat: _Chat, format: Format, answer: httpx.Response, headers: dict[str, str]
    ) -> None:
        self._chat = chat
        self._format = format
        self._answer = answer
        self._reply = Reply()
        super().__init__(self._lines(), answer.status_code, headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            # A separate task: this one ends when the client disconnects.
            self._chat.access.server.start(self._end())

    async def _end(self) -> None:
        await self._answer.aclose()
        await self._chat.finish(self._answer, self._reply)

    async def _lines(self) -> AsyncIterator[bytes]:
        mask = self._chat.upstreams.mask
        rest = b""
        try:
            async for chunk in self._answer.aiter_bytes():
                # Only whole lines are sent: a secret may be split between two chunks.
                lines, newline, rest = (rest + chunk).rpartition(b"\n")
                if newline:
                    lines = mask.bytes(lines)
                    self._read(lines)
                    yield lines + newline
            self._reply.complete = True
        except (httpx.TransportError, httpx.DecodingError):
            log.warning("the chat server stopped in the middle of its answer")
        if rest:
            yield mask.bytes(rest)

    def _read(self, lines: bytes) -> None:
        for line in lines.split(b"\n"):
            data = line.removeprefix(b"data:").strip() if line.startswith(b"data:") else b""
            if data == b"[DONE]":
                self._reply.complete = True
                continue
            try:
                event = json.loads(data) if data else None
            except _UNREADABLE:
                continue
            if isinstance(event, Mapping):
                self._format.read(self._reply, event)
