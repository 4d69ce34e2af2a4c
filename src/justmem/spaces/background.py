"""Cards that are made in the background."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from justmem.domain import Remembered, SessionState
from justmem.errors import JustMemError, ModelError, NotInMemory
from justmem.ports import BEGUN

if TYPE_CHECKING:
    from justmem.spaces import Spaces

OnError = Callable[[str, str, Exception], None]
OnDone = Callable[[Remembered], None]
log = logging.getLogger("justmem.spaces")


@dataclass
class _Job:
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
        spaces: Spaces,
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
        self._waiting: dict[tuple[str, str], _Job] = {}
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
        job = self._waiting[space, session_id] = _Job(space, session_id, by, start)
        job.task = asyncio.create_task(self._run(job))
        self._tasks.add(job.task)
        job.task.add_done_callback(lambda task: self._ended(job, task))
        return job.task

    async def add_pending(self, most: int, only: str | None = None) -> None:
        """Adds what an earlier process left pending, at most `most` at a time. Sessions that were
        in work when the process died come last: one of them may have caused it."""
        found: list[tuple[bool, str, str]] = []
        for space in await self._spaces.names() if only is None else [only]:
            try:
                async with self._spaces.use(space, create=False) as memory:
                    records = await memory.sessions()
            except NotInMemory:
                continue
            except JustMemError as error:
                log.warning("the pending sessions of a space cannot be read: %s", error)
                continue
            pending = [each for each in records if each.state is SessionState.PENDING]
            found += [(each.reason == BEGUN, space, each.id) for each in pending]
        for _, space, id in sorted(found, key=lambda each: each[0]):
            while len(self._tasks) >= most:
                await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
            self.add(space, id)

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

    async def _run(self, job: _Job) -> Remembered:
        while (left := job.start - asyncio.get_running_loop().time()) > 0:  # noqa: ASYNC110
            await asyncio.sleep(left)
        share = self._shares.setdefault(job.space, asyncio.Semaphore(self._workers_of_one))
        async with share, self._workers:
            del self._waiting[job.space, job.session_id]
            async with self._spaces.use(job.space, job.by, create=False) as memory:
                return await memory.finish(job.session_id)

    def _ended(self, job: _Job, task: asyncio.Task[Remembered]) -> None:
        self._tasks.discard(task)
        if self._waiting.get((job.space, job.session_id)) is job:  # cancelled while it waited
            del self._waiting[job.space, job.session_id]
        if task.cancelled() or isinstance(task.exception(), NotInMemory):  # it was forgotten
            return
        if isinstance(error := task.exception(), Exception):
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
