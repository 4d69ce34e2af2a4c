"""The memories of many users in one process, with one set of models.

background    cards that are made in the background
merging       the evidence of several spaces in one ranking
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self
from weakref import WeakValueDictionary

from justmem.config import Settings, load, providers
from justmem.config.opening import build_parts, closable_parts, spaces_of
from justmem.domain import Forgotten, Plan, Remembered, SpacesEvidence
from justmem.errors import InputError, NoSuchSpace, StoreBusy, StoreError
from justmem.intake.sessions import SessionLike, When
from justmem.memory import AsyncMemory
from justmem.ports import Store, acting_as
from justmem.runtime.validation import as_text, describe
from justmem.spaces.background import Background, OnDone, OnError
from justmem.spaces.merging import merged


def no_such_space(space: str) -> NoSuchSpace:
    """The same message for a space that does not exist and for one that a key does not open."""
    return NoSuchSpace(f"There is no space {space[:200]!r} here.")


@dataclass
class _Open:
    """An open space, and how many use it now."""

    store: Store
    memory: AsyncMemory
    users: int = 0
    erased: bool = False


class Spaces:
    """`settings` are those of `justmem.open`, or Settings that were read already. At most
    `most_open` spaces stay open, those that were used last. `on_error(space, session_id, error)` is
    called if cards could not be made in the background; without it the error is logged.
    `on_done(remembered)` is called with each result.

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
        on_error: OnError | None = None,
        on_done: OnDone | None = None,
        clock: Callable[[], datetime] | None = None,
        report: providers.Report | None = None,
        **settings: Any,
    ) -> None:
        found = loaded or load(**settings)
        self.parts = build_parts(found, clock=clock, report=report)
        self.background = Background(self, found.concurrency, on_error, on_done)
        self._closable = closable_parts(found, self.parts)
        self._storage = spaces_of(found)
        self._most_open = most_open
        self._open: OrderedDict[str, _Open] = OrderedDict()  # the latest used last
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._closed = False

    @property
    def open(self) -> int:
        return len(self._open)

    async def names(self) -> list[str]:
        return await self._storage.spaces()

    @asynccontextmanager
    async def use(
        self, space: str, by: str | None = None, *, create: bool = True
    ) -> AsyncIterator[AsyncMemory]:
        """The space's memory, open for as long as it is used. `by`: the name in the change log.
        Without `create`, the space must exist."""
        space = as_text(space, "The name of a space")
        async with self._lock(space):
            used = await self._opened(space, create)
            used.users += 1
        try:
            with acting_as(by):
                yield used.memory
        except StoreError as error:
            if self._closed or await self._is_there(used):
                raise
            raise no_such_space(space) from error
        else:
            if used.erased:  # the result may have words of it
                raise no_such_space(space)
        finally:
            used.users -= 1
            await self._close_unused()

    async def holds(self, space: str, memory: AsyncMemory) -> bool:
        """Whether the space of a memory in use was not erased meanwhile."""
        used = self._open.get(space)
        return used is not None and used.memory is memory and await self._is_there(used)

    async def _is_there(self, used: _Open) -> bool:
        used.erased = used.erased or not await used.store.exists()
        return not used.erased

    def store(self, space: str) -> Store:
        """Of a space that is in use."""
        return self._open[space].store

    # ------------------------------------------------------------ words now, cards later

    async def remember(
        self, space: str, session: SessionLike, *, at: When = None, id: str | None = None
    ) -> Remembered:
        """As `Memory.remember`, but returns when the words are stored. The cards are made in the
        background."""
        async with self.use(space) as memory:
            return self._cards_later(space, await memory.keep(session, at=at, id=id))

    async def append(
        self, space: str, turns: SessionLike, *, id: str, at: When = None
    ) -> Remembered:
        """As `Memory.append`, but returns when the turns are stored. The cards are made in the
        background."""
        async with self.use(space) as memory:
            return self._cards_later(space, await memory.append(turns, id=id, at=at, cards=False))

    def _cards_later(self, space: str, kept: Remembered) -> Remembered:
        if not kept.state.finished:
            self.background.add(space, kept.session_id)
        return kept

    async def drain(self) -> None:
        """Waits until the cards of all stored sessions are made."""
        await self.background.drain()

    # ------------------------------------------------------------ several at once

    async def recall(
        self,
        question: str,
        spaces: Iterable[str],
        *,
        at: When = None,
        speaker: str | None = None,
        plan: Plan | Mapping[str, Any] | None = None,
    ) -> SpacesEvidence:
        """The evidence of several spaces in one ranking, each card with its space. NotInMemory if
        one of them is not there."""
        if isinstance(spaces, str) or not isinstance(spaces, Iterable):
            raise InputError(f"spaces must be a list of names of spaces, not {describe(spaces)}.")
        names = [as_text(name, "The name of a space") for name in spaces]
        if not names:
            raise InputError("spaces is empty: name one space or more.")
        found = {}
        # One after another, because they share the processor and the models.
        for name in dict.fromkeys(names):
            async with self.use(name, create=False) as memory:
                evidence = await memory.recall(question, at=at, speaker=speaker, plan=plan)
            if evidence.receipt.calls:
                plan = evidence.plan  # the model plans a question once, not for each space
            found[name] = evidence
        return merged(found, self.parts.budget, self.parts.profile)

    # ------------------------------------------------------------ opening and closing

    async def erase(self, space: str, by: str | None = None, *, verify: bool = False) -> Forgotten:
        """Forgets a space, also while others use it: what they do ends with NoSuchSpace."""
        async with self._lock(space):
            erased = await self._opened(space, create=False)
            del self._open[space]
            erased.erased = True
            try:
                with acting_as(by):
                    return await erased.memory.forget(everything=True, verify=verify)
            except StoreBusy:  # nothing was erased
                self._open[space] = erased
                erased.erased = False
                raise

    async def close(self) -> None:
        """Waits for cards that are being made, then closes every space and the models."""
        await self.background.drain()
        self._closed = True
        while self._open:
            await self._open.popitem()[1].memory.close()
        await self._storage.close()
        for part in self._closable:
            await part.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    def _lock(self, space: str) -> asyncio.Lock:
        return self._locks.setdefault(space, asyncio.Lock())

    async def _opened(self, space: str, create: bool) -> _Open:
        used = self._open.get(space)
        if self._closed:
            raise StoreError("These spaces are closed: make new Spaces.")
        if used is not None and not await self._is_there(used):  # another process erased it
            await self._open.pop(space).memory.close()
            used = None
        if used is None:
            try:
                store = await self._storage.open(space, create=create)
            except NoSuchSpace:
                raise no_such_space(space) from None
            used = self._open[space] = _Open(store, AsyncMemory(store, self.parts))
        self._open.move_to_end(space)
        return used

    async def _close_unused(self) -> None:
        """Closes those that nobody uses, the longest unused first, until few enough are open."""
        for space, each in list(self._open.items()):
            if len(self._open) <= self._most_open:
                return
            async with self._lock(space):
                if self._open.get(space) is each and not each.users:
                    await self._open.pop(space).memory.close()
