"""The memories of many spaces: opened on demand, closed when idle, sharing one set of models."""

from __future__ import annotations

import asyncio
import os
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from justmem.domain import Forgotten
from justmem.errors import NoSuchSpace, StoreBusy
from justmem.memory import AsyncMemory
from justmem.parts import Parts
from justmem.ports import Store, acting_as

if TYPE_CHECKING:
    from justmem.store.storage import Storage


def no_such_space(space: str) -> NoSuchSpace:
    """The same message for a space that does not exist and for one that a key does not open."""
    return NoSuchSpace(f"There is no space {space[:200]!r} here.")


class _Slot:
    """One open space and its users."""

    def __init__(self, store: Store, memory: AsyncMemory) -> None:
        self.store = store
        self.memory = memory
        self._path: Path | None = getattr(store, "path", None)  # where it is a file
        self._file = os.stat(self._path).st_ino if self._path else 0
        self.users: list[asyncio.Task[Any]] = []
        self.erased = False
        self.used = 0.0
        self.unused = asyncio.Event()

    @property
    def stale(self) -> bool:
        """Whether another process erased the file. Then the open file must not be read any more."""
        if self._path is None:
            return False
        try:
            return os.stat(self._path).st_ino != self._file
        except FileNotFoundError:
            return True

    def enter(self, user: asyncio.Task[Any]) -> None:
        self.users.append(user)
        self.unused.clear()

    def leave(self, user: asyncio.Task[Any]) -> None:
        self.users.remove(user)
        self.used = asyncio.get_running_loop().time()
        if not self.users:
            self.unused.set()


class OpenSpaces:
    """The memories share `parts`. `create`: whether `use` makes a space that is not there, unless
    told otherwise."""

    def __init__(
        self,
        storage: Storage,
        parts: Parts,
        *,
        most_open: int,
        idle_seconds: float,
        create: bool = False,
    ) -> None:
        self._create = create
        self._storage = storage
        self.parts = parts
        self._most_open = most_open
        self._idle_seconds = idle_seconds
        self._slots: OrderedDict[str, _Slot] = OrderedDict()  # the latest used last
        self._erasing: set[str] = set()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @property
    def open(self) -> int:
        return len(self._slots)

    async def names(self) -> list[str]:
        return await self._storage.spaces()

    @asynccontextmanager
    async def use(
        self, space: str, by: str | None = None, *, create: bool | None = None
    ) -> AsyncIterator[AsyncMemory]:
        """The space's memory, open for as long as it is used. `by`: the name in the change log."""
        user = asyncio.current_task()
        assert user is not None
        slot = await self._entered(space, self._create if create is None else create, user)
        try:
            with acting_as(by):
                yield slot.memory
        except asyncio.CancelledError:
            if not slot.erased or user.uncancel():  # or cancelled by somebody else as well
                raise
            raise no_such_space(space) from None
        finally:
            slot.leave(user)
            await self._trim()

    def store(self, space: str) -> Store:
        """Of a space that is in use."""
        return self._slots[space].store

    async def erase(self, space: str, by: str | None = None, *, verify: bool = False) -> Forgotten:
        """Stops all other work in the space, and refuses new work meanwhile."""
        self._check(space)
        self._erasing.add(space)
        try:
            async with self._lock(space):
                slot = await self._slot(space, create=False)
                slot.erased = True
                for user in {*slot.users}:
                    user.cancel()
                try:
                    if slot.users:
                        await slot.unused.wait()
                except BaseException:
                    slot.erased = False
                    raise
                self._slots.pop(space, None)
                with acting_as(by):
                    return await slot.memory.forget(everything=True, verify=verify)
        finally:
            self._erasing.discard(space)

    async def close(self) -> None:
        for space in list(self._slots):
            await self._closed(space)
        await self._storage.close()

    async def sweep(self) -> None:
        """Closes spaces that are idle. Runs until it is cancelled."""
        while True:
            await asyncio.sleep(min(self._idle_seconds, 30.0))
            now = asyncio.get_running_loop().time()
            for space, slot in list(self._slots.items()):
                if not slot.users and now - slot.used > self._idle_seconds:
                    await self._close_unused(space)

    # ------------------------------------------------------------ opening and closing

    def _lock(self, space: str) -> asyncio.Lock:
        return self._locks.setdefault(space, asyncio.Lock())

    def _check(self, space: str) -> None:
        if space in self._erasing:
            raise StoreBusy("This space is being erased: try again in a moment.")

    async def _entered(self, space: str, create: bool, user: asyncio.Task[Any]) -> _Slot:
        self._check(space)
        async with self._lock(space):
            self._check(space)
            slot = await self._slot(space, create)
            slot.enter(user)
            return slot

    async def _slot(self, space: str, create: bool) -> _Slot:
        slot = self._slots.get(space)
        if slot is not None and slot.stale:
            await self._closed(space)
            slot = None
        if slot is None:
            try:
                store = await self._storage.open(space, create=create)
            except NoSuchSpace:
                raise no_such_space(space) from None
            slot = _Slot(store, AsyncMemory(store, self.parts))
            self._slots[space] = slot
        self._slots.move_to_end(space)
        return slot

    async def _trim(self) -> None:
        for space, slot in list(self._slots.items()):
            if len(self._slots) <= self._most_open:
                return
            if not slot.users:
                await self._close_unused(space)

    async def _close_unused(self, space: str) -> None:
        async with self._lock(space):
            slot = self._slots.get(space)
            if slot is not None and not slot.users:
                await self._closed(space)

    async def _closed(self, space: str) -> None:
        slot = self._slots.pop(space, None)
        if slot is not None:
            await slot.memory.close()
