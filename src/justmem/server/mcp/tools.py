"""The operations as tools for agents."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Annotated, Any, Literal

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp.types import TextContent, ToolAnnotations
from pydantic import Field, ValidationError

from justmem.domain import Card
from justmem.errors import JustMemError
from justmem.integrations.arguments import (
    NeedsSource,
    Period,
    Question,
    Rewrites,
    SpansSessions,
    plan_of,
)
from justmem.memory import AsyncMemory
from justmem.server.access_keys import OWNER, Right
from justmem.server.mcp.results import (
    AskResult,
    CardResult,
    ForgetResult,
    RecallResult,
    RememberResult,
    ShowResult,
    card_lines,
    conversation,
    full_id,
    quotation,
    show,
)
from justmem.server.middleware import KEY
from justmem.server.problems import mistake, public
from justmem.server.requests import space_for
from justmem.server.space_access import SpaceAccess
from justmem.server.state import Server

_WAIT = 20.0  # seconds that `remember` waits for the cards
Call = Context[Any, Any]
When = Annotated[str | None, Field(description="As 2024-05-20T14:30. Default: now.")]
Labels = dict[str, str] | None


class Tools:
    """`space` is set over standard input and output, where one user has one space. Over HTTP the
    key or a header names the space."""

    def __init__(self, server: Server, space: str | None = None) -> None:
        self._server = server
        self._space = space

    @asynccontextmanager
    async def access(self, context: Call, right: Right) -> AsyncIterator[SpaceAccess]:
        """The key and the space of a call. Our errors become the tool's own."""
        try:
            yield self._caller(context).check(right)
        except JustMemError as error:
            raise ToolError(public(error)) from error

    @asynccontextmanager
    async def memory(
        self, context: Call, right: Right = "read", *, create: bool = False
    ) -> AsyncIterator[AsyncMemory]:
        async with (
            self.access(context, right) as access,
            access.memory(create=create) as memory,
        ):
            yield memory

    def _caller(self, context: Call) -> SpaceAccess:
        if self._space is not None:
            key = OWNER.model_copy(update={"name": _client(context)})
            return SpaceAccess(self._server, key, self._space)
        request: Any = context.request_context.request
        key = request.scope[KEY]
        space = space_for(key, request.headers.get("x-justmem-space"))
        return SpaceAccess(self._server, key, space)

    # ------------------------------------------------------------ read

    async def recall(
        self,
        context: Call,
        question: Question,
        at: When = None,
        rewrites: Rewrites = None,
        needs_source: NeedsSource = None,
        spans_sessions: SpansSessions = None,
        period: Period = None,
        as_of: Annotated[str | None, Field(description="Memory as of this day.")] = None,
        since: Annotated[str | None, Field(description="Said on this day or later.")] = None,
        until: Annotated[str | None, Field(description="Said on this day or earlier.")] = None,
        labels: Labels = None,
        sessions: list[str] | None = None,
        limit: int | None = None,
    ) -> RecallResult:
        """Find what was said in earlier chats. Call it at the start of a task and before a reply
        that may depend on the user's life, plans, tastes or past decisions. Returns lines
        `id day words`; a line without a day has the day of the line above."""
        plan = plan_of(rewrites, needs_source, spans_sessions, period)
        filters: dict[str, Any] = {"as_of": as_of, "since": since, "until": until}
        filters |= {"labels": labels, "sessions": sessions, "limit": limit}
        async with self.access(context, "read") as access:
            found = await access.recall(question, at=at, plan=plan, **filters)
        return RecallResult(
            access=found.access.value,
            cards=card_lines(found.cards, found.earlier),
            sources=[conversation(source) for source in found.sources],
            tokens=found.receipt.tokens,
        )

    async def ask(
        self,
        context: Call,
        question: Question,
        at: When = None,
        rewrites: Rewrites = None,
        needs_source: NeedsSource = None,
        spans_sessions: SpansSessions = None,
        period: Period = None,
    ) -> AskResult:
        """Get one finished answer from memory with its quotes, or a refusal. Use it instead of
        recall only if the user wants proof: it may call a model. Arguments as in recall."""
        plan = plan_of(rewrites, needs_source, spans_sessions, period)
        async with self.access(context, "read") as access:
            answer = await access.ask(question, at=at, plan=plan)
        return AskResult(
            answer=answer.text,
            sufficient=answer.sufficient,
            quotes=[quotation(citation) for citation in answer.citations],
            tokens=answer.receipt.tokens,
        )

    async def show(
        self,
        context: Call,
        what: Literal["profile", "history", "about", "notes", "sessions", "session", "source"],
        name: str | None = None,
        limit: int = 50,
        offset: int = 0,
    ) -> ShowResult:
        """Look up by name: the profile of a person (default: the user), the history of a person or
        card (what was true when), all about a subject, notes by the start of their key, all
        sessions, one session, the source of a card that is unclear."""
        async with self.memory(context) as memory:
            lines = await show(memory, what, name)
        return ShowResult(lines=lines[max(0, offset) :][: max(1, limit)])

    # ------------------------------------------------------------ write

    async def remember(
        self,
        context: Call,
        text: Annotated[str | None, Field(description="In the user's words.")] = None,
        turns: Annotated[
            list[dict[str, str]] | None,
            Field(description="Or a conversation: each {text, role: user or assistant, speaker}."),
        ] = None,
        at: When = None,
        session: Annotated[str | None, Field(description="An id. Replaces its session.")] = None,
        labels: Labels = None,
        append: Annotated[bool, Field(description="Add to the session instead.")] = False,
        rebuild: Annotated[bool, Field(description="Only make its cards again.")] = False,
    ) -> RememberResult:
        """Save something for later chats: a fact, preference, plan, decision or correction the
        user states. Not small talk and no secrets. Give text or turns."""
        if (append or rebuild) and session is None:
            raise ToolError("append and rebuild need a session: name it.")
        if (text is not None) + (turns is not None) != (0 if rebuild else 1):
            raise ToolError("Give either text or turns. With rebuild, give neither.")
        async with self.access(context, "write") as access:
            if rebuild:
                async with access.memory() as memory:
                    (done,) = await memory.rebuild(session)
            else:
                said = turns if text is None else [{"text": text}]
                own = [{"role": "user", **turn} for turn in said or ()]
                given = {"turns": own, "labels": labels}
                done = await access.remember(given, id=session, at=at, append=append, wait=_WAIT)
        return RememberResult(
            session=done.session_id,
            state=done.state.value,
            reason=done.reason,
            cards=card_lines(done.cards),
        )

    async def note(
        self,
        context: Call,
        text: Annotated[str, Field(description="Stored exactly as given.")],
        key: Annotated[str | None, Field(description="Replaces the note of this key.")] = None,
        value: Any = None,
        until: Annotated[str | None, Field(description="When it expires.")] = None,
        labels: Labels = None,
    ) -> CardResult:
        """Store a fact or setting of your own under a key, to read it again with show notes. What
        the user said goes to remember."""
        async with self.memory(context, "write", create=True) as memory:
            card = await memory.note(text, key=key, value=value, until=until, labels=labels)
        return _card(card)

    async def correct(
        self,
        context: Call,
        card: str,
        action: Literal["correct", "pin", "unpin", "undo"] = "correct",
        fact: Annotated[str | None, Field(description="The right words.")] = None,
        subject: str | None = None,
        event_date: Annotated[str | None, Field(description="As 2024-05.")] = None,
        status: str | None = None,
        kind: str | None = None,
    ) -> CardResult:
        """Replace a wrong card, whose history stays; pin one, so that every recall of its subject
        has it; or undo the last change. Only when the user asks for it or contradicts a card."""
        changes = {"fact": fact, "subject": subject, "event_date": event_date}
        changes |= {"status": status, "kind": kind}
        async with self.memory(context, "write") as memory:
            id = await full_id(memory, card)
            if action == "correct":
                return _card(await memory.correct(id, **changes))
            change = {"pin": memory.pin, "unpin": memory.unpin, "undo": memory.undo}[action]
            return _card(await change(id))

    async def forget(
        self,
        context: Call,
        card: str | None = None,
        turn: Annotated[str | None, Field(description="As in chat-17#3.")] = None,
        session: str | None = None,
        subject: str | None = None,
        key: Annotated[str | None, Field(description="Of a note.")] = None,
        since: str | None = None,
        until: str | None = None,
        preview: Annotated[bool, Field(description="Only count what would go.")] = False,
        verify: Annotated[bool, Field(description="Search for leftovers afterwards.")] = False,
    ) -> ForgetResult:
        """Erase for good: one card, turn, session, subject, note or period (since, until). Only
        when the user asks for it; show a preview first."""
        what: dict[str, Any] = {"turn": turn, "session": session, "subject": subject}
        what |= {"key": key, "since": since, "until": until}
        if not card and not any(what.values()):
            raise ToolError(
                "Say what to forget: give card, turn, session, subject, key, since or until."
            )
        async with self.memory(context, "write") as memory:
            what["card"] = await full_id(memory, card) if card else None
            if preview:
                gone = (await memory.preview_forget(**what)).forgotten
            else:
                gone = await memory.forget(**what, verify=verify)
        return ForgetResult(
            cards=gone.cards,
            sessions=gone.sessions,
            turns=gone.turns,
            labels=gone.labels,
            verified=gone.certificate is not None,
        )

    # ------------------------------------------------------------ their definitions

    def offered(self) -> list[Tool]:
        return [
            _defined(self.recall, reads=True),
            _defined(self.ask, reads=True),
            _defined(self.remember),
            _defined(self.note, repeats=True),
            _defined(self.correct),
            _defined(self.forget, repeats=True),
            _defined(self.show, reads=True),
        ]


class _Tool(Tool):
    """Refuses unknown arguments, such as `dry_run` for `forget`, which would be ignored. Its text
    is JSON in one line, which takes fewer tokens than the indented text of the SDK."""

    async def run(
        self, arguments: dict[str, Any], context: Call, convert_result: bool = False
    ) -> Any:
        known = self.parameters["properties"]
        for name in arguments:
            if name not in known:
                raise ToolError(f"{self.name} has no argument {name!r}. It has {', '.join(known)}.")
        try:
            self.fn_metadata.validate_arguments(arguments)
        except ValidationError as error:
            raise ToolError(mistake(error.errors()[0])) from None
        done = await super().run(arguments, context, convert_result)
        text = json.dumps(done.structured_content, ensure_ascii=False)
        return done.model_copy(update={"content": [TextContent(type="text", text=text)]})


def _client(context: Call) -> str:
    """The name that the client gives itself. It goes into the change log and gives no rights."""
    known = context.session.client_params
    return f"mcp:{known.client_info.name[:100]}" if known else "mcp"


def _card(card: Card) -> CardResult:
    return CardResult(card=card_lines([card])[0])


def _defined(work: Callable[..., Any], *, reads: bool = False, repeats: bool = False) -> Tool:
    """Sets the hints that differ from the protocol's defaults: it changes data, may destroy, is not
    safe to repeat, and reaches the outside world."""
    hints = ToolAnnotations(
        read_only_hint=reads or None, idempotent_hint=repeats or None, open_world_hint=False
    )
    about = " ".join((work.__doc__ or "").split())
    tool = _Tool.from_function(work, description=about, annotations=hints, structured_output=True)
    tool.parameters = _slim(tool.parameters)
    if work.__name__ == "ask":
        for each in tool.parameters["properties"].values():
            each.pop("description", None)  # recall has the same ones
    tool.fn_metadata.output_schema = _slim(tool.fn_metadata.output_schema)
    tool.fn_metadata.output_schema.pop("required")
    return tool


def _slim(schema: Any) -> Any:
    """Without what a model does not need: a client sends every definition with every request."""
    if isinstance(schema, list):
        return [_slim(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    dropped = {"title", "default"} if isinstance(schema.get("title"), str) else set()
    kept = {name: _slim(each) for name, each in schema.items() if name not in dropped}
    options = [each for each in kept.pop("anyOf", []) if each != {"type": "null"}]
    return kept | options[0] if options else kept
