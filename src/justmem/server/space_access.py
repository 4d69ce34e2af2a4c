"""What one key does in one space. HTTP, MCP and the chat proxy share these operations."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Self

from justmem.domain import Answer, Evidence, Receipt, Remembered, SessionRecord
from justmem.errors import InputError, JustMemError, KeyTooWeak, NoRoom, NotInMemory
from justmem.intake.sessions import SessionLike
from justmem.memory import AsyncMemory
from justmem.server.access_keys import Key, Right
from justmem.server.state import Server
from justmem.spaces import no_such_space


async def record_of(memory: AsyncMemory, id: str) -> SessionRecord:
    for record in await memory.sessions():
        if record.id == id:
            return record
    raise NotInMemory(f"There is no session {id!r} in this space.")


@dataclass(frozen=True, slots=True)
class SpaceAccess:
    server: Server
    key: Key
    space: str

    def check(self, right: Right) -> Self:
        """For a key that does not open the space, the space does not exist."""
        if not self.space.strip() or len(self.space) > 200 or not self.space.isprintable():
            raise InputError("The name of a space has 1 to 200 printable characters.")
        if not self.key.opens(self.space):
            raise no_such_space(self.space)
        if not self.key.may(right):
            raise KeyTooWeak(f"This needs a key with the right `{right}` for this space.")
        return self

    @asynccontextmanager
    async def memory(self, *, create: bool = False) -> AsyncIterator[AsyncMemory]:
        try:
            async with self.server.spaces.use(self.space, self.key.actor, create=create) as memory:
                yield memory
        except JustMemError as error:
            self.server.metrics.receipt(Receipt(calls=error.calls))  # of a question that failed
            raise

    async def recall(self, question: str, **options: Any) -> Evidence:
        async with self.memory() as memory:
            found = await memory.recall(question, **options)
        self.server.metrics.receipt(found.receipt)
        return found

    async def ask(self, question: str, **options: Any) -> Answer:
        async with self.memory() as memory:
            answer = await memory.ask(question, **options)
        self.server.metrics.receipt(answer.receipt)
        return answer

    async def remember(
        self,
        session: SessionLike,
        *,
        id: str | None = None,
        at: Any = None,
        append: bool = False,
        wait: float = 0.0,
        pause: float = 0.0,
    ) -> Remembered:
        """Returns when the words are stored, or up to `wait` seconds later with the cards. With
        `append` they are added to the session `id`. The cards are made when nothing was added for
        `pause` seconds."""
        self._check_room()
        async with self.memory(create=True) as memory:
            if append:
                kept = await memory.append(session, id=id or "", at=at, cards=False)
            else:
                kept = await memory.keep(session, id=id, at=at)
        if kept.state.finished:
            return kept
        task = self.server.spaces.background.add(
            self.space, kept.session_id, self.key.actor, pause=pause
        )
        if wait:
            await asyncio.wait({task}, timeout=wait)
        if not task.done() or task.cancelled():
            return kept
        done = task.result()
        notes = (*kept.receipt.notes, *done.receipt.notes)
        return done.model_copy(update={"receipt": done.receipt.model_copy(update={"notes": notes})})

    async def make_cards(self, session: str | None, *, rebuild: bool, wait: float) -> int:
        """Queues the pending and failed sessions; with `rebuild` those that have cards too. Returns
        their number, after up to `wait` seconds."""
        self._check_room()
        spaces = self.server.spaces
        async with self.memory() as memory:
            if rebuild:
                ids = await spaces.store(self.space).rebuild(session)
            else:
                found = (
                    await memory.sessions()
                    if session is None
                    else [await record_of(memory, session)]
                )
                ids = [each.id for each in found if not each.state.finished]
        tasks = [spaces.background.add(self.space, id, self.key.actor) for id in ids]
        if tasks and wait:
            await asyncio.wait(tasks, timeout=wait)
        return len(tasks)

    def _check_room(self) -> None:
        if self.server.spaces.background.waiting >= self.server.serving.queue:
            raise NoRoom(
                "Too many sessions wait to be remembered, so this one was not stored. Send it "
                "again in a few seconds.",
                after=5.0,
            )
