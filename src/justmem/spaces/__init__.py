"""The memories of many users in one process, with one set of models."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from types import TracebackType
from typing import Any, Self

from justmem.config import Settings, load, providers
from justmem.config.opening import build_parts, closable_parts, spaces_of
from justmem.domain import Plan, Remembered, SpacesEvidence
from justmem.errors import InputError
from justmem.intake.sessions import SessionLike
from justmem.runtime.validation import describe
from justmem.spaces.background import Background, OnDone, OnError
from justmem.spaces.merging import merged
from justmem.spaces.opened import OpenSpaces


class Spaces(OpenSpaces):
    """`settings` are those of `justmem.open`, or Settings that were read already. At most
    `most_open` spaces stay open, those that were used last. `on_error(space, session_id, error)` is
    called if cards could not be made in the background; without it the error is logged.
    `on_done(remembered)` is called with each result. `create`: whether `use` makes a space that is
    not there, unless told otherwise.

    async with Spaces(folder="memory") as spaces:
        async with spaces.use("ana") as memory:
            evidence = await memory.recall("Where do I live?")
        await spaces.append("ana", [{"role": "user", "content": "I live in Graz."}], id="chat-1")
    """

    def __init__(
        self,
        loaded: Settings | None = None,
        *,
        most_open: int = 100,
        idle_seconds: float = 300.0,
        create: bool = True,
        on_error: OnError | None = None,
        on_done: OnDone | None = None,
        clock: Callable[[], datetime] | None = None,
        report: providers.Report | None = None,
        **settings: Any,
    ) -> None:
        found = loaded or load(**settings)
        parts = build_parts(found, clock=clock, report=report)
        super().__init__(
            spaces_of(found), parts, most_open=most_open, idle_seconds=idle_seconds, create=create
        )
        self._closable = closable_parts(found, parts)
        self.background = Background(self, found.concurrency, on_error, on_done)
        self._sweeping: asyncio.Task[None] | None = None

    # ------------------------------------------------------------ words now, cards later

    async def remember(
        self,
        space: str,
        session: SessionLike,
        *,
        at: datetime | str | None = None,
        id: str | None = None,
    ) -> Remembered:
        """As `Memory.remember`, but returns when the words are stored. The cards are made in the
        background."""
        async with self.use(space) as memory:
            kept = await memory.keep(session, at=at, id=id)
        if not kept.state.settled:
            self.background.add(space, kept.session_id)
        return kept

    async def append(
        self, space: str, turns: SessionLike, *, id: str, at: datetime | str | None = None
    ) -> Remembered:
        """As `Memory.append`, but returns when the turns are stored. The cards are made in the
        background."""
        async with self.use(space) as memory:
            kept = await memory.append(turns, id=id, at=at, cards=False)
        if not kept.state.settled:
            self.background.add(space, kept.session_id)
        return kept

    async def drain(self) -> None:
        """Waits until the cards of all stored sessions are made."""
        await self.background.drain()

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
            raise InputError(f"spaces must be a list of names of spaces, not {describe(spaces)}.")
        found = {}
        for name in names:  # one after another: they share the processor and the models
            async with self.use(name, create=False) as memory:
                found[name] = await memory.recall(question, at=at, speaker=speaker, plan=plan)
        return merged(found, self.parts.budget, self.parts.profile)

    # ------------------------------------------------------------ opening and closing

    async def close(self) -> None:
        """Waits for cards that are being made, then closes every space and the models."""
        await self.background.drain()
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
