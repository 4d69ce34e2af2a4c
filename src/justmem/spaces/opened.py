"""The memories of many spaces: opened on demand, closed when idle, sharing one set of models.
Cards are made in the background."""

from __future__ import annotations

import asyncio
import logging
import os
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from justmem.domain import Forgotten, Remembered, SessionState
from justmem.errors import JustMemError, ModelError, NoSuchSpace, NotInMemory, StoreBusy
from justmem.memory import AsyncMemory
from justmem.parts import Parts
from justmem.ports import BEGUN, Store, acting_as

if TYPE_CHECKING:
    from justmem.store.engine import Storage


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


OnError = Callable[[str, str, Exception], None]
OnDone = Callable[[Remembered], None]
log = logging.getLogger("justmem.spaces")


@dataclass
class PendingSession:
    """A session whose words are stored. Its cards are made from `start` on, in seconds of the event
    loop."""

    space: str
    session_id: str
    by: str | None
    start: float
    task: asyncio.Task[Remembered] = field(init=False)


class Background:
    """A queue of session ids. `AsyncMemory.finish` reads their newest text. Spaces take turns, and
    one space never has all workers."""

    def __init__(
        self,
        spaces: OpenSpaces,
        workers: int,
        on_error: OnError | None = None,
        on_done: OnDone | None = None,
    ) -> None:
        self._spaces = spaces
        self._on_error = on_error or _log_error
        self._on_done = on_done
        # Both queues are first in, first out. A space has few jobs in the second one, so the
        # jobs of another space come soon, however many jobs the first space has.
        self._workers = asyncio.Semaphore(workers)
        self._workers_of_one = max(1, workers - 1)
        self._shares: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._waiting: dict[tuple[str, str], PendingSession] = {}
        self._tasks: set[asyncio.Task[Remembered]] = set()

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def working(self) -> int:
        return len(self._tasks) - len(self._waiting)

    def add(
        self, space: str, session_id: str, by: str | None = None, *, pause: float = 0.0
    ) -> asyncio.Task[Remembered]:
        """Starts after `pause` seconds. If the session waits already, its pause begins again."""
        start = asyncio.get_running_loop().time() + pause
        job = self._waiting.get((space, session_id))
        if job is not None:
            job.start, job.by = max(job.start, start), by
            return job.task
        job = self._waiting[space, session_id] = PendingSession(space, session_id, by, start)
        job.task = asyncio.create_task(self._run(job))
        self._tasks.add(job.task)
        job.task.add_done_callback(lambda task: self._ended(job, task))
        return job.task

    async def add_pending(self, most: int, only: str | None = None) -> None:
        """Adds what an earlier process left pending, at most `most` at a time. Sessions that were
        in work when the process died come last: one of them may have caused it."""
        last: list[tuple[str, str]] = []
        for space in await self._spaces.names() if only is None else [only]:
            try:
                async with self._spaces.use(space, create=False) as memory:
                    records = await memory.sessions()
            except NotInMemory:
                continue
            except JustMemError as error:
                log.warning("the pending sessions of a space cannot be read: %s", error)
                continue
            for record in records:
                if record.state is SessionState.PENDING and record.reason == BEGUN:
                    last.append((space, record.id))
                elif record.state is SessionState.PENDING:
                    await self._add_with_room(most, space, record.id)
        for space, session_id in last:
            await self._add_with_room(most, space, session_id)

    async def _add_with_room(self, most: int, space: str, session_id: str) -> None:
        while len(self._tasks) >= most:
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        self.add(space, session_id)

    async def drain(self) -> None:
        """Waits until all cards are made."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def stop(self, grace: float) -> None:
        """Waits up to `grace` seconds for the work in progress. The rest stays pending."""
        for job in self._waiting.values():
            job.task.cancel()
        tasks = set(self._tasks)
        if tasks:
            await asyncio.wait(tasks, timeout=grace)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, job: PendingSession) -> Remembered:
        while (left := job.start - asyncio.get_running_loop().time()) > 0:  # noqa: ASYNC110
            await asyncio.sleep(left)
        share = self._shares.setdefault(job.space, asyncio.Semaphore(self._workers_of_one))
        async with share, self._workers:
            self._waiting.pop((job.space, job.session_id))
            async with self._spaces.use(job.space, job.by, create=False) as memory:
                return await memory.finish(job.session_id)

    def _ended(self, job: PendingSession, task: asyncio.Task[Remembered]) -> None:
        self._tasks.discard(task)
        if self._waiting.get((job.space, job.session_id)) is job:  # cancelled while it waited
            del self._waiting[job.space, job.session_id]
        if task.cancelled():
            return
        error = task.exception()
        if isinstance(error, NotInMemory):  # it was forgotten meanwhile
            return
        if isinstance(error, Exception):
            self._on_error(job.space, job.session_id, error)
            return
        done = task.result()
        if done.state is SessionState.FAILED:
            self._on_error(job.space, job.session_id, ModelError(done.reason))
        if self._on_done is not None:
            self._on_done(done)


def _log_error(space: str, session_id: str, error: Exception) -> None:
    unexpected = None if isinstance(error, JustMemError) else error
    log.warning("no cards were made of a session: %s", error, exc_info=unexpected)
