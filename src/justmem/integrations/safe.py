"""SafeMemory: if memory fails, the chat continues. The error is logged, kept in `error` and passed
to `on_error`.

Some frameworks read the annotations of `recall` without evaluating them, so this module does not
import `annotations` from `__future__`.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

from justmem.domain import Evidence
from justmem.errors import InputError, InvalidQuestion, NotInMemory, TooSlow
from justmem.integrations.arguments import (
    NeedsSource,
    Period,
    Question,
    Rewrites,
    SpansSessions,
    plan_of,
)
from justmem.memory import AsyncMemory
from justmem.plan import check_plan
from justmem.runtime.validation import as_question
from justmem.spaces import Spaces
from justmem.sync import Memory

T = TypeVar("T")
log = logging.getLogger("justmem.integrations")


class SafeMemory:
    """The memory behind an integration. `memory` is a Memory, an AsyncMemory, or Spaces with the
    name of a space; with Spaces the cards are made in the background. A chat waits at most
    `seconds` for it. Memory adds at most `tokens` to a prompt."""

    def __init__(
        self,
        memory: Memory | AsyncMemory | Spaces,
        space: str | None = None,
        *,
        tokens: int = 1500,
        seconds: float = 10.0,
        on_error: Callable[[BaseException], None] | None = None,
    ) -> None:
        if isinstance(memory, Spaces) != (space is not None):
            raise InputError("space is needed with Spaces, and not allowed with a memory.")
        self._memory = memory
        self._space = space
        self._tokens = tokens
        self._seconds = seconds
        self._on_error = on_error
        self.error: BaseException | None = None  # the last one

    @asynccontextmanager
    async def using(self) -> AsyncIterator[AsyncMemory]:
        """The memory itself. Its errors are raised."""
        if isinstance(self._memory, Spaces):
            async with self._memory.use(str(self._space)) as memory:
                yield memory
        elif isinstance(self._memory, Memory):
            yield self._memory.asynchronous
        else:
            yield self._memory

    async def evidence(self, question: str, **options: Any) -> Evidence | None:
        """`options` are those of `recall`. None if memory fails."""

        async def work() -> Evidence:
            async with self.using() as memory:
                return await memory.recall(question, **options)

        return await self._attempt("not recalled", work()) if question.strip() else None

    async def prompt(self, question: str, **options: Any) -> str:
        """The evidence for a question as a block for a prompt; empty if there is none."""
        found = await self.evidence(question, **options)
        return found.prompt(self._tokens) if found else ""

    async def append(self, id: str, turns: Sequence[Mapping[str, Any]]) -> None:
        """Adds turns to the session `id`. Blank ones, and those with a known `key`, are left
        out."""
        said = [each for each in turns if each["content"].strip()]

        async def work() -> None:
            if isinstance(self._memory, Spaces):
                await self._memory.append(str(self._space), said, id=id)
            else:
                async with self.using() as memory:
                    await memory.append(said, id=id)

        if said:
            await self._attempt("not remembered", work())

    async def forget_session(self, id: str) -> None:
        """Errors are raised, so that nobody believes that something is erased if it is not."""
        async with self.using() as memory:
            with suppress(NotInMemory):
                await memory.forget(session=id)

    async def forget_last(self, id: str) -> None:
        """Forgets the last turn of a session. Errors are raised."""
        async with self.using() as memory:
            with suppress(NotInMemory):
                turns = (await memory.session(id)).turns
                left = [number for number, each in enumerate(turns, 1) if not each.forgotten]
                if left:
                    await memory.forget(turn=f"{id}#{left[-1]}")

    async def _attempt(self, what: str, work: Coroutine[Any, Any, T]) -> T | None:
        try:
            async with asyncio.timeout(self._seconds):
                return await work
        except Exception as raised:  # noqa: BLE001  the chat must continue
            error = too_slow(self._seconds) if isinstance(raised, TimeoutError) else raised
            self.error = error
            log.warning("the chat continues without memory: %s: %r", what, error)
            if self._on_error is not None:
                self._on_error(error)
            return None

    # The tool for a model. Its name, docstring and arguments are what the model reads.
    async def recall(
        self,
        question: Question,
        rewrites: Rewrites = None,
        needs_source: NeedsSource = None,
        spans_sessions: SpansSessions = None,
        period: Period = None,
    ) -> str:
        """Find what was said in earlier chats. Call it before a reply that may depend on the
        user's life, plans, tastes or past decisions."""
        plan = plan_of(rewrites, needs_source, spans_sessions, period)
        try:
            as_question(question)
            check_plan(plan)
        except InvalidQuestion as error:
            return str(error)  # the model can correct its arguments
        found = await self.evidence(question, plan=plan)
        if found is None:
            return "(memory is not available now)"
        return found.prompt(self._tokens) or "(nothing in memory)"


def too_slow(seconds: float) -> TooSlow:
    return TooSlow(
        f"Memory took longer than {seconds:g} seconds. The first use downloads models: run "
        "`justmem models pull` once. Or allow more seconds."
    )


MemoryFor = Callable[[Any], SafeMemory]  # from a framework's context, to serve many users


def memory_for(memory: SafeMemory | MemoryFor, context: Any) -> SafeMemory:
    return memory if isinstance(memory, SafeMemory) else memory(context)


def wait(work: Coroutine[Any, Any, T]) -> T:
    """For the synchronous methods of a framework, inside or outside of an event loop."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


def text_of(content: Any) -> str:
    """The texts of a message, without its pictures and tool calls. `content` is a text, or a list
    of texts and of parts with a `text`."""
    if isinstance(content, str):
        return content.strip()
    parts = content if isinstance(content, Sequence) else []
    texts = [part.get("text") if isinstance(part, Mapping) else part for part in parts]
    return "\n".join(text for text in texts if isinstance(text, str)).strip()


def turn(role: str, text: str, key: str | None = None) -> dict[str, str]:
    return {"role": role, "content": text} | ({"key": key} if key else {})
