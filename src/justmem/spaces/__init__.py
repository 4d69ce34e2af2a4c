"""The memories of many users in one process, with one set of models."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from types import TracebackType
from typing import Any, Self

from justmem import providers
from justmem.config import load
from justmem.domain import Plan, Remembered, SessionRecord, SessionState, SpacesEvidence
from justmem.errors import InputError, ModelError, NotInMemory
from justmem.intake.sessions import SessionLike
from justmem.opening import closable_parts, shared_parts, spaces_of
from justmem.runtime.validation import describe
from justmem.spaces.merging import merged
from justmem.spaces.opened import OpenSpaces

OnError = Callable[[str, str, Exception], None]
log = logging.getLogger("justmem.spaces")


class Spaces(OpenSpaces):
    """`settings` are those of `justmem.open`. At most `most_open` spaces stay open, those that
    were used last. `on_error(space, session_id, error)` is told of cards that could not be made in
    the background; without it the error is logged.

    async with Spaces(folder="memory") as spaces:
        async with spaces.use("ana") as memory:
            evidence = await memory.recall("Where do I live?")
        await spaces.append("ana", [{"role": "user", "content": "I live in Graz."}], id="chat-1")
    """

    def __init__(
        self,
        *,
        most_open: int = 100,
        idle_seconds: float = 300.0,
        on_error: OnError | None = None,
        report: providers.Report | None = None,
        **settings: Any,
    ) -> None:
        found = load(**settings)
        parts = shared_parts(found, report=report)
        super().__init__(
            spaces_of(found), parts, most_open=most_open, idle_seconds=idle_seconds, create=True
        )
        self._closable = closable_parts(found, parts)
        self._background = Background(self, found.concurrency, on_error)
        self._sweeping: asyncio.Task[None] | None = None

    # ------------------------------------------------------------ words now, cards later

    async def remember(
        self,
        space: str,
        session: SessionLike,
        *,
        at: datetime | str | None = None,
        id: str | None = None,
    ) -> SessionRecord:
        """Returns when the words are stored. The cards are made in the background."""
        async with self.use(space) as memory:
            record = await memory.keep(session, at=at, id=id)
        if not record.state.settled:
            self._background.add(space, record.id)
        return record

    async def append(
        self, space: str, turns: SessionLike, *, id: str, at: datetime | str | None = None
    ) -> Remembered:
        """Returns when the turns are stored. The cards are made in the background."""
        async with self.use(space) as memory:
            kept = await memory.append(turns, id=id, at=at, cards=False)
        if not kept.state.settled:
            self._background.add(space, kept.session_id)
        return kept

    async def drain(self) -> None:
        """Waits until all cards that are under way are made."""
        await self._background.drain()

    # ------------------------------------------------------------ several at once

    async def recall(
        self,
        question: str,
        spaces: Sequence[str],
        *,
        at: datetime | str | None = None,
        speaker: str | None = None,
        plan: Plan | Mapping[str, Any] | None = None,
    ) -> SpacesEvidence:
        """The evidence of several spaces in one ranking, each card with its space. NotInMemory if
        one of them is not there."""
        names = list(dict.fromkeys(spaces)) if not isinstance(spaces, str) else []
        if not names or not all(isinstance(name, str) for name in names):
            raise InputError(
                f"recall takes the names of spaces, as a list, not {describe(spaces)}."
            )
        found = {}
        for name in names:  # one after another: they share the processor and the models
            async with self.use(name, create=False) as memory:
                found[name] = await memory.recall(question, at=at, speaker=speaker, plan=plan)
        return merged(found, self._parts["budget"], self._parts["profile"])

    # ------------------------------------------------------------ opening and closing

    async def close(self) -> None:
        """Waits for the cards that are under way, then closes every space and the models."""
        await self._background.drain()
        if self._sweeping is not None:
            self._sweeping.cancel()
            with suppress(asyncio.CancelledError):
                await self._sweeping
        await super().close()
        for part in self._closable:
            await part.close()

    async def __aenter__(self) -> Self:
        self._sweeping = asyncio.create_task(self.sweep())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


class Background:
    """Holds the names of sessions alone: their words are in the store."""

    def __init__(self, spaces: OpenSpaces, at_once: int, on_error: OnError | None) -> None:
        self._spaces = spaces
        self._on_error = on_error or _logged
        self._slots = asyncio.Semaphore(at_once)
        self._queued: set[tuple[str, str]] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def add(self, space: str, session_id: str) -> None:
        """A session that waits already is not added again: its newest text is read then."""
        if (space, session_id) in self._queued:
            return
        self._queued.add((space, session_id))
        task = asyncio.create_task(self._make(space, session_id))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def drain(self) -> None:
        while self._tasks:
            await asyncio.wait(list(self._tasks))

    async def _make(self, space: str, session_id: str) -> None:
        async with self._slots:
            self._queued.discard((space, session_id))
            try:
                async with self._spaces.use(space, create=False) as memory:
                    done = await memory.finish(session_id)
            except NotInMemory:
                return  # it was forgotten meanwhile
            except Exception as error:  # noqa: BLE001
                self._on_error(space, session_id, error)
                return
            if done.state is SessionState.FAILED:
                self._on_error(space, session_id, ModelError(done.reason))


def _logged(space: str, session_id: str, error: Exception) -> None:
    log.warning("no cards were made of a session: %s", error)
