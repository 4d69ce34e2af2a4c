"""One chat: recall, budget, forward, remember. If memory fails, the chat goes on without it."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
from anyio import BrokenResourceError, create_memory_object_stream
from fastapi import Request
from starlette.responses import Response

from justmem.budget import Tally
from justmem.domain import Evidence, Receipt
from justmem.errors import (
    BudgetExceeded,
    InputError,
    JustMemError,
    ModelUnavailable,
    NotInMemory,
    TooSlow,
)
from justmem.models.http_client import NOT_SENT
from justmem.prompts.evidence import prompt_block
from justmem.server.problems import public
from justmem.server.proxy.costs import Estimate, spent
from justmem.server.proxy.formats import ChatReply, Exchange, Format, exchange_of
from justmem.server.requests import ClosingStream
from justmem.server.space_access import SpaceAccess

log = logging.getLogger("justmem.server")

RECEIPT, ERROR = "x-justmem-receipt", "x-justmem-error"
_MEMORY_SECONDS = 10.0  # a chat does not wait longer for memory
_MOST_QUESTIONS = 1000
# The mark of a note depends on the question alone, so the provider's prompt cache holds through a
# tool loop. Nobody outside can know it.
_SECRET = secrets.token_bytes(16)


@dataclass
class Chat:
    access: SpaceAccess
    format: Format
    request: Request
    body: dict[str, Any]
    conversation: str | None
    tally: Tally = field(default_factory=lambda: Tally(abandoned=True))
    receipt: dict[str, Any] = field(default_factory=dict)
    trouble: str = ""
    answered: asyncio.Future[Response] = field(default_factory=asyncio.Future)

    def __post_init__(self) -> None:
        self.server = self.access.server
        self.upstream = self.server.upstreams[self.format.upstream]
        self.exchange = exchange_of(self.body)
        # A step of a tool loop may name only the response that it continues.
        earlier = (self.access.space, str(self.body.get("previous_response_id")))
        self.question = self.exchange.question or self.upstream.questions.get(earlier, "")

    async def response(self) -> Response:
        """A task does the work, so that a chat whose client leaves is counted and remembered."""
        self.upstream.check()
        work = self.server.start(self._run())
        either: list[asyncio.Future[Any]] = [work, self.answered]
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self.answered.cancel()
            raise
        if not self.answered.done():
            await work  # raises its error
        return self.answered.result()

    def _answer(self, response: Response) -> None:
        if not self.answered.cancelled():  # the client is still there
            self.answered.set_result(response)

    async def _run(self) -> None:
        content = await self._content_with_note()
        estimate = await asyncio.to_thread(Estimate.of, self.body)
        async with self._reserved(estimate):
            answer = await self._sent(content)
            if "event-stream" in answer.headers.get("content-type", ""):
                reply = await self._stream(answer)
                await self._end(answer, reply, estimate)
            else:
                content = await self.upstream.read(answer)
                reply = ChatReply(complete=True)
                reply.read(content)
                await self._end(answer, reply, estimate)
                self._answer(Response(content, answer.status_code, self._headers(answer)))

    # ------------------------------------------------------------ before

    async def _content_with_note(self) -> bytes:
        """The body to forward, byte for byte as it came if memory adds nothing."""
        started = time.perf_counter()
        evidence = await self._recalled() if self.question else None
        if evidence is not None:
            limit = self.server.serving.note_tokens
            note = prompt_block(evidence, limit, mark=_mark(self.question))
            self.receipt = {
                "access": evidence.access.value,
                "cards": note.cards,
                "sources": note.sources,
                "tokens": note.tokens,
                "model_tokens": evidence.receipt.tokens,
                "history_tokens": evidence.receipt.history_tokens,
                "ms": round((time.perf_counter() - started) * 1000),
            }
            if note.text:
                self.format.add_note(self.body, note.text)
                return json.dumps(self.body).encode()
        return await self.request.body()

    async def _recalled(self) -> Evidence | None:
        try:
            async with asyncio.timeout(_MEMORY_SECONDS):
                return await self.access.recall(self.question)
        except NotInMemory:  # nothing has been said yet
            return None
        except (JustMemError, TimeoutError) as error:
            self._failed("not recalled", error)
            return None

    @asynccontextmanager
    async def _reserved(self, estimate: Estimate) -> AsyncIterator[None]:
        """Reserves the tokens of the chat, and enters those of the tally afterwards. Nothing is
        sent if the chat does not fit what is left of the day. A ledger that cannot be used stops
        the chat only if there is a limit."""
        async with AsyncExitStack() as stack:
            try:
                memory = await stack.enter_async_context(
                    self.access.memory(create=self.access.key.may("write"))
                )
                limit = await stack.enter_async_context(
                    memory.ledger.allow(estimate.whole, self.tally)
                )
            except JustMemError as error:
                if self.server.settings.budget.day_tokens is not None:
                    raise
                if not isinstance(error, NotInMemory):
                    self._failed("not counted", error)
            else:
                if limit is not None and limit < estimate.whole:
                    self.tally.abandoned = False
                    raise BudgetExceeded(
                        f"The chat was not forwarded: it needs up to {estimate.whole} tokens and "
                        f"{limit} are left of the daily limit. Ask for a shorter reply "
                        "(max_tokens), send less, or raise day_tokens in [budget]."
                    )
            yield

    # ------------------------------------------------------------ forward

    async def _sent(self, content: bytes) -> httpx.Response:
        try:
            return await self.upstream.send(self.request, self.format.path, content)
        except ModelUnavailable as error:
            self.tally.abandoned = type(error.__cause__).__name__ not in NOT_SENT
            raise

    async def _stream(self, answer: httpx.Response) -> ChatReply:
        """Passes an answer on line by line, for as long as the client reads it."""
        into, lines = create_memory_object_stream[bytes]()
        self._answer(ClosingStream(lines, answer.status_code, self._headers(answer)))
        reply = ChatReply()
        try:
            async with into, asyncio.timeout(self.server.serving.stream_seconds):
                async for piece in self.upstream.lines(answer):
                    reply.read_stream(piece)
                    await into.send(piece)
                reply.complete = True
        except (BrokenResourceError, TimeoutError):
            pass  # the client left, or did not read
        except (httpx.TransportError, httpx.DecodingError):
            log.warning("the chat server stopped in the middle of its answer")
        finally:
            await answer.aclose()
        return reply

    def _headers(self, answer: httpx.Response) -> dict[str, str]:
        ours = {RECEIPT: json.dumps(self.receipt, separators=(",", ":"))}
        if self.trouble:
            line = " ".join(self.trouble.split())[:300]
            ours[ERROR] = line.encode("ascii", "replace").decode()
        return self.upstream.headers(answer) | ours

    # ------------------------------------------------------------ after

    async def _end(self, answer: httpx.Response, reply: ChatReply, estimate: Estimate) -> None:
        """Enters the cost and remembers the exchange. An answer that broke off may be billed, so
        the whole reservation counts."""
        if reply.complete and answer.status_code not in (408, 504):
            self.tally.abandoned = False
            if answer.is_success:
                call = await asyncio.to_thread(spent, estimate, reply)
                self.tally.calls.append(call)
                self.server.metrics.receipt(Receipt(calls=(call,)))
        if answer.is_success and self.access.key.may("write"):
            known = self.upstream.questions
            known[self.access.space, reply.id] = self.question
            if len(known) > _MOST_QUESTIONS:
                del known[next(iter(known))]
            await self._remember(_turns(self.exchange, reply.text))
        self.server.metrics.count("proxy_chats", "failed" if self.trouble else "ok")

    async def _remember(self, turns: list[dict[str, str]]) -> None:
        """A named conversation is a session of its own. The others belong to the session of the
        day. Cards are made when the chat has been quiet for a while."""
        if not turns:
            return
        try:
            name = self.conversation or f"{self.server.clock():%F}"
            if len(name) > 150 or not name.strip() or not name.isprintable():
                raise InputError("X-JustMem-Session is 1 to 150 printable characters.")
            id, pause = f"chat-{name.strip()}", self.server.serving.pause_seconds
            async with asyncio.timeout(_MEMORY_SECONDS):
                await self.access.remember(turns, id=id, append=True, pause=pause)
            self.receipt["session"] = id
        except (JustMemError, TimeoutError) as error:
            self._failed("not remembered", error)

    def _failed(self, what: str, error: JustMemError | TimeoutError) -> None:
        log.warning("a chat goes on without memory: %s: %s", what, type(error).__name__)
        if not isinstance(error, JustMemError):
            error = TooSlow(f"This took longer than {_MEMORY_SECONDS:g} seconds.")
        self.trouble = self.trouble or f"{what}: {public(error)}"


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


def _mark(question: str) -> str:
    digest = hashlib.blake2b(question.encode("utf-8", "replace"), key=_SECRET, digest_size=8)
    return f"{int.from_bytes(digest.digest()) % 10**9:09d}"
