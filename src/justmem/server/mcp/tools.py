"""The verbs as tools for agents."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Annotated, Any

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult, TextContent, ToolAnnotations
from pydantic import BaseModel, Field

from justmem.domain import Evidence, SessionState
from justmem.errors import InputError, JustMemError
from justmem.intake.sessions import as_session
from justmem.integrations.arguments import PLAN, Question
from justmem.memory import AsyncMemory
from justmem.prompts.evidence import card_line
from justmem.server.access_keys import OWNER, Key, Right
from justmem.server.mcp.results import (
    AskResult,
    FetchResult,
    ForgetResult,
    RecallResult,
    RememberResult,
    ReplayResult,
    Said,
    SearchResult,
    SessionsResult,
    full,
    lines,
    quoted,
    said,
    session_line,
)
from justmem.server.middleware import KEY
from justmem.server.problems import public
from justmem.server.routes.access import space_for
from justmem.server.state import Inquiry, Server

_WAIT = 20.0  # seconds that `remember` waits for the cards
_SHOWN = 50
Call = Context[Any, Any]
When = Annotated[str | None, Field(description="As 2024-05-20T14:30. Default: now.")]


class Tools:
    """`space` is set for a server that has one user at the other end of a pipe. Over HTTP the
    key or a header names the space."""

    def __init__(self, server: Server, space: str | None = None) -> None:
        self._server = server
        self._space = space

    @asynccontextmanager
    async def _may(self, context: Call, right: Right) -> AsyncIterator[tuple[Key, str]]:
        """The key and the space of a call. Our errors become the tool's own."""
        try:
            key, space = self._caller(context)
            self._server.check(key, space, right)
            yield key, space
        except JustMemError as error:
            raise ToolError(public(error)) from error

    @asynccontextmanager
    async def opened(self, context: Call) -> AsyncIterator[AsyncMemory]:
        async with (
            self._may(context, "read") as (key, space),
            self._server.spaces.use(space, key.actor) as memory,
        ):
            yield memory

    def _caller(self, context: Call) -> tuple[Key, str]:
        if self._space is not None:
            return replace(OWNER, name=_client(context)), self._space
        request: Any = context.request_context.request
        key = request.scope[KEY]
        return key, space_for(key, request.headers.get("x-justmem-space"))

    async def evidence(
        self, context: Call, question: str, at: str | None, plan: dict[str, Any] | None
    ) -> Evidence:
        async with self._may(context, "read") as (key, space):
            return await self._server.recall(Inquiry(key, space, question, at, plan=plan))

    # ------------------------------------------------------------ tools

    @PLAN
    async def recall(
        self,
        context: Call,
        question: Question,
        at: When = None,
        plan: dict[str, Any] | None = None,
    ) -> Annotated[CallToolResult, RecallResult]:
        """Find what was said in earlier chats. Call it at the start of a task and before a reply
        that may depend on the user's life, plans, tastes or past decisions. Returns lines
        `id day words`, where the day is the one it was said. Set the other
        arguments if you can: they improve the search and cost nothing."""
        return _result(RecallResult.of(await self.evidence(context, question, at, plan)))

    @PLAN
    async def ask(
        self,
        context: Call,
        question: Question,
        at: When = None,
        plan: dict[str, Any] | None = None,
    ) -> Annotated[CallToolResult, AskResult]:
        """Get one finished answer from memory with the quotes it rests on, or a refusal. Use it
        instead of recall only if the user wants proof: it may call a model. Arguments as in
        recall."""
        async with self._may(context, "read") as (key, space):
            answer = await self._server.ask(Inquiry(key, space, question, at, plan=plan))
        return _result(AskResult.of(answer))

    async def remember(
        self,
        context: Call,
        text: Annotated[
            str | None, Field(description="One thing to remember, in the user's words.")
        ] = None,
        turns: Annotated[
            list[Said] | None, Field(description="Or a stretch of conversation, in order.")
        ] = None,
        at: When = None,
        session: Annotated[
            str | None, Field(description="An id. The same id again replaces it.")
        ] = None,
    ) -> Annotated[CallToolResult, RememberResult]:
        """Save something for later chats: a fact, preference, plan, decision or correction the
        user states. Not small talk and no secrets. Give text or turns."""
        async with self._may(context, "write") as (key, space):
            if bool(text) == bool(turns):
                raise InputError("Give either text or turns.")
            spoken = turns or [Said(text=text or "")]
            known = as_session(
                [turn.model_dump(exclude_none=True) for turn in spoken],
                at=self._server.moment(at),
                id=session,
            )
            job = await self._server.ingestion.accept(space, known, key.actor)
            await asyncio.wait({job.done}, timeout=_WAIT)
            if not job.done.done() or job.done.cancelled():
                pending = SessionState.PENDING.value
                return _result(RememberResult(session=job.session_id, state=pending, cards=[]))
            done = job.done.result()
        return _result(
            RememberResult(
                session=done.session_id,
                state=done.state.value,
                reason=done.reason,
                cards=lines(done.cards),
            )
        )

    async def replay(
        self, context: Call, card: Annotated[str, Field(description="A card's id from recall.")]
    ) -> Annotated[CallToolResult, ReplayResult]:
        """Read the original conversation behind one card, when the card is unclear or too short."""
        return _result(await self._replayed(context, card))

    async def forget(
        self,
        context: Call,
        card: Annotated[str | None, Field(description="A card's id.")] = None,
        turn: Annotated[str | None, Field(description="As in chat-17#3.")] = None,
        session: Annotated[str | None, Field(description="A session's id.")] = None,
        subject: Annotated[str | None, Field(description="A person or thing.")] = None,
        since: Annotated[str | None, Field(description="Sessions from this day on.")] = None,
        until: Annotated[str | None, Field(description="Sessions up to this day.")] = None,
        preview: Annotated[bool, Field(description="Only count what would go.")] = False,
        verify: Annotated[bool, Field(description="Search for leftovers afterwards.")] = False,
    ) -> Annotated[CallToolResult, ForgetResult]:
        """Erase for good: one card, turn, session, subject or period (since, until). Only when the
        user asks for it; show a preview first."""
        what: dict[str, Any] = {"card": card, "turn": turn, "session": session}
        what |= {"subject": subject, "since": since, "until": until}
        async with self._may(context, "write") as (key, space):
            if not any(what.values()):
                raise InputError(
                    "Say what to forget: give card, turn, session, subject, or since and until."
                )
            if card:
                async with self._server.spaces.use(space, key.actor) as memory:
                    what["card"] = await full(memory, card)
            if preview:
                async with self._server.spaces.use(space, key.actor) as memory:
                    gone = (await memory.preview_forget(**what)).forgotten
            else:
                work = self._server.ingestion.forget(space, key.actor, verify=verify, **what)
                gone = await self._server.within(work)
        return _result(ForgetResult.of(gone))

    async def list_sessions(
        self,
        context: Call,
        limit: Annotated[int, Field(ge=1, le=200)] = _SHOWN,
        offset: Annotated[int, Field(ge=0)] = 0,
    ) -> Annotated[CallToolResult, SessionsResult]:
        """List the remembered conversations, latest first. Use it to find a session's id or to
        show what memory covers, not to search."""
        async with self.opened(context) as memory:
            found = await memory.sessions()
        latest = found[::-1][offset : offset + limit]
        rows = {each.id: session_line(each) for each in latest}
        return _result(SessionsResult(sessions=rows, total=len(found)))

    # ------------------------------------------------------------ as ChatGPT's connectors want it

    async def search(
        self, context: Call, query: Annotated[str, Field(description="A question.")]
    ) -> Annotated[CallToolResult, SearchResult]:
        """Search memory. Returns ids for fetch."""
        cards = (await self.evidence(context, query, None, None)).cards
        rows = [{"id": c.id, "title": card_line(c), "url": card_url(c.id)} for c in cards]
        return _result(SearchResult(results=rows))

    async def fetch(
        self, context: Call, id: Annotated[str, Field(description="An id that search returned.")]
    ) -> Annotated[CallToolResult, FetchResult]:
        """Read one memory with the conversation it comes from."""
        found = await self._replayed(context, id)
        about = {"said_at": found.at, "session": found.session}
        title, text = found.card, found.source
        return _result(FetchResult(id=id, title=title, text=text, url=card_url(id), metadata=about))

    async def _replayed(self, context: Call, id: str) -> ReplayResult:
        async with self.opened(context) as memory:
            id = await full(memory, id)
            card, source = await memory.card(id), await memory.source(id)
        return ReplayResult(
            card=card_line(card),
            session=card.session_id,
            at=card.said_at.isoformat(timespec="minutes"),
            quotes=[quoted(citation) for citation in source.citations],
            source=said(source),
        )

    # ------------------------------------------------------------ their definitions

    def offered(self) -> list[Tool]:
        tools = [
            _defined(self.recall, "Recall", reads=True),
            _defined(self.ask, "Ask memory", reads=True),
            # It is destructive where it replaces a session of the same id.
            _defined(self.remember, "Remember", destroys=True, repeats=False),
            _defined(self.forget, "Forget", destroys=True),
            _defined(self.list_sessions, "List sessions", reads=True),
        ]
        if not self._server.serving.search_and_fetch:
            return [*tools, _defined(self.replay, "Replay a source", reads=True)]
        tools.append(_defined(self.search, "Search memory", reads=True))
        return [*tools, _defined(self.fetch, "Fetch a memory", reads=True)]  # instead of replay


def card_url(id: str) -> str:
    return f"justmem://cards/{id}"


def _client(context: Call) -> str:
    """Who is at the other end of the pipe, by its own word: for the change log, not for rights."""
    known = context.session.client_params
    return f"mcp:{known.client_info.name[:100]}" if known else "mcp"


def _result(found: BaseModel) -> CallToolResult:
    """The same twice: as data, and as text for clients that show only text."""
    text = found.text if isinstance(found, RecallResult) else found.model_dump_json()
    content = TextContent(type="text", text=text)
    return CallToolResult(content=[content], structured_content=found.model_dump(mode="json"))


def _defined(
    work: Callable[..., Any],
    title: str,
    *,
    reads: bool = False,
    destroys: bool = False,
    repeats: bool = True,
) -> Tool:
    """With all four hints. No tool reaches beyond this memory."""
    hints = ToolAnnotations(
        title=title,
        read_only_hint=reads,
        destructive_hint=destroys,
        idempotent_hint=repeats,
        open_world_hint=False,
    )
    about = " ".join((work.__doc__ or "").split())
    tool = Tool.from_function(work, description=about, annotations=hints, structured_output=True)
    tool.parameters = _slim(tool.parameters)
    if work.__name__ == "ask":
        for each in tool.parameters["properties"].values():
            each.pop("description", None)  # recall has the same ones
    tool.fn_metadata.output_schema = _slim(tool.fn_metadata.output_schema or {})
    return tool


def _slim(schema: Any) -> Any:
    """Without what a model does not need: a client sends every definition with every request."""
    if isinstance(schema, list):
        return [_slim(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    dropped = {"title", "default"} if "type" in schema or "anyOf" in schema else set()
    if "properties" in schema:
        dropped.add("description")  # of a whole object: its docstring
    kept = {name: _slim(each) for name, each in schema.items() if name not in dropped}
    options = kept.get("anyOf", [])
    if {"type": "null"} in options and len(options) == 2:
        kept |= next(each for each in options if each != {"type": "null"})
        del kept["anyOf"]
    return kept
