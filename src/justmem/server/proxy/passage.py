"""One chat on its way through: recall, budget, forward, remember."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import httpx
from fastapi import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from justmem.answer.prompt import PromptBlock, prompt_block
from justmem.domain import Evidence, Receipt
from justmem.errors import JustMemError, NotInMemory
from justmem.prompts import one_line
from justmem.server.access_keys import Key
from justmem.server.chat_budget import Estimate, Expense, spent
from justmem.server.chats import Exchange
from justmem.server.problems import public
from justmem.server.proxy.upstreams import answered, passed, read, send, upstream
from justmem.server.proxy.wire import Heard, Wire
from justmem.server.routes.access import key_of, server_of, space_for
from justmem.server.state import Inquiry, Server

log = logging.getLogger("justmem.server")

RECEIPT, ERROR = "x-justmem-receipt", "x-justmem-error"
_UNREADABLE = (ValueError, RecursionError)  # the latter: nesting made to do harm
_RECALL_SECONDS = 10.0  # a chat does not wait longer for memory
_MOST_KNOWN = 1000
# The same note twice is the same text, so that a provider's cache of the prompt holds through a
# tool loop; and nobody outside can know its mark.
_SECRET = secrets.token_bytes(16)


@dataclass
class _Chat:
    """One chat on its way through."""

    server: Server
    key: Key
    space: str
    conversation: str | None
    exchange: Exchange
    wire: Wire
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


async def forward(wire: Wire, request: Request, space: str | None, session: str | None) -> Response:
    server, key = server_of(request), key_of(request)
    client = upstream(request, wire.anthropic)
    body, raw = await request.json(), await request.body()
    passing = _Chat(server, key, space_for(key, space), session, wire.exchange(body), wire)
    server.check(key, passing.space, "read")
    if not passing.exchange.question:
        _continue(request, passing, body.get("previous_response_id"))
    await _recall(passing)
    content = _noted(wire, raw, passing.note.text)
    headers = passed(request) | {"content-type": "application/json"}
    query = request.url.query or None
    sent = client.build_request("POST", wire.path, content=content, headers=headers, params=query)
    passing.expense = await _allowed(passing, body)
    try:
        answer = await send(client, sent, passing.expense)
        shown = answered(request, answer) | passing.headers
        if "event-stream" in answer.headers.get("content-type", ""):
            return _Stream(request, passing, answer, shown)
        replied = await read(request, answer)
    except BaseException:
        passing.expense.abandon()
        raise
    heard = _heard(wire, replied)
    await _enter(passing, answer, heard)
    if answer.is_success:
        await _remember(request, passing, heard)
    server.metrics.chat(failed=bool(passing.trouble))
    return Response(replied, answer.status_code, shown | passing.headers)


def _noted(wire: Wire, raw: bytes, note: str) -> bytes:
    if not note:
        return raw
    encoding = json.detect_encoding(raw)
    return wire.add_note(raw.decode(encoding, "surrogatepass"), note).encode(
        encoding, "surrogatepass"
    )


def _heard(wire: Wire, content: bytes) -> Heard:
    heard = Heard(complete=True)
    try:
        reply = json.loads(content)
    except _UNREADABLE:
        heard.written.append(content.decode("utf-8", "replace"))
        return heard
    if isinstance(reply, Mapping):
        wire.hear(heard, reply)
    return heard


# ---------------------------------------------------------------- memory's part


async def _recall(passing: _Chat) -> None:
    question = passing.exchange.question
    if not question:
        return
    server, started = passing.server, time.perf_counter()
    try:
        work = server.recall(Inquiry(passing.key, passing.space, question))
        evidence = await server.within(work, _RECALL_SECONDS)
    except NotInMemory:  # nobody has said anything yet
        return
    except JustMemError as error:
        passing.failed("not recalled", error)
        return
    limit, mark = server.serving.note_tokens, _mark(question)
    passing.note = prompt_block(_without_echo(evidence, question), limit, mark=mark)
    passing.receipt = {
        "access": evidence.access.value,
        "cards": passing.note.cards,
        "sources": passing.note.sources,
        "tokens": passing.note.tokens,
        "model_tokens": evidence.receipt.tokens,
        "history_tokens": evidence.receipt.history_tokens,
        "ms": round((time.perf_counter() - started) * 1000),
    }


def _without_echo(evidence: Evidence, question: str) -> Evidence:
    """In a tool loop the question itself has been remembered already."""
    asked = one_line(question)
    new = [c for c in evidence.cards if one_line(c.fact.removeprefix("said: ")) not in asked]
    ids = {card.id for card in new}
    chosen = tuple(each for each in evidence.chosen if each.card.id in ids)
    return evidence.model_copy(update={"cards": tuple(new), "chosen": chosen})


def _note_question(request: Request, passing: _Chat, id: str) -> None:
    """The next request of a tool loop may name only the response that it continues."""
    known: OrderedDict[tuple[str, str], str] = request.app.state.questions
    known[passing.space, id] = passing.exchange.question
    while len(known) > _MOST_KNOWN:
        known.popitem(last=False)


def _continue(request: Request, passing: _Chat, id: Any) -> None:
    if isinstance(id, str):
        question = request.app.state.questions.get((passing.space, id), "")
        passing.exchange = replace(passing.exchange, question=question)


def _mark(question: str) -> str:
    digest = hashlib.blake2b(question.encode("utf-8", "replace"), key=_SECRET, digest_size=8)
    return f"{int.from_bytes(digest.digest()) % 10**9:09d}"


async def _remember(request: Request, passing: _Chat, heard: Heard) -> None:
    erased = passing.expense is not None and passing.expense.erased
    if erased or not passing.key.may("write"):
        return
    server, chats = passing.server, request.app.state.chats
    exchange = replace(passing.exchange, reply=heard.text)
    if passing.wire.continues:
        _note_question(request, passing, heard.id)
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


async def _enter(passing: _Chat, answer: httpx.Response, heard: Heard) -> None:
    expense = passing.expense
    assert expense is not None
    if answer.is_success:
        call = await asyncio.to_thread(
            spent, expense.estimate, heard.tokens_in, heard.tokens_out, heard.written
        )
        passing.server.metrics.receipt(Receipt(calls=(call,)))
        expense.close(call)
    elif answer.status_code in (408, 504):  # it may have left the model working on it
        expense.abandon()
    else:
        expense.close()


class _Stream(StreamingResponse):
    """An answer that passes piece by piece. However it ends, it is counted and remembered."""

    def __init__(
        self, request: Request, passing: _Chat, answer: httpx.Response, headers: dict[str, str]
    ) -> None:
        self._request = request
        self._passing = passing
        self._answer = answer
        self._heard = Heard()
        self._line = b""
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
                    self._listen(ready)
                    yield ready
            self._heard.complete = True
        except (httpx.TransportError, httpx.DecodingError):
            log.warning("the chat server broke off in the middle of its answer")
        if rest := blanked.end():
            self._listen(rest)
            yield rest

    async def _ended(self) -> None:
        passing, answer, heard = self._passing, self._answer, self._heard
        assert passing.expense is not None
        await answer.aclose()
        if heard.complete:
            await _enter(passing, answer, heard)
        else:
            passing.expense.abandon()
        if answer.is_success:
            await _remember(self._request, passing, heard)
        passing.server.metrics.chat(failed=bool(passing.trouble))

    def _listen(self, chunk: bytes) -> None:
        *lines, self._line = (self._line + chunk).split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                self._event(line[5:].strip())

    def _event(self, data: bytes) -> None:
        if data == b"[DONE]":
            self._heard.complete = True
            return
        try:
            event = json.loads(data)
        except _UNREADABLE:
            return
        if isinstance(event, Mapping):
            self._passing.wire.hear(self._heard, event)
