"""Makes the cards of stored sessions in the background."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from justmem.domain import Remembered, SessionState
from justmem.errors import JustMemError, ModelError, NotInMemory
from justmem.ports import BEGUN
from justmem.spaces.opened import OpenSpaces

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
