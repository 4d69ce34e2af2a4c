"""The queue of sessions that wait for their cards.

The words are stored before a session is queued, so an accepted session survives a crash. The
queue holds names only: `AsyncMemory.finish` reads the newest text. The spaces take turns, and one
space never uses all workers. After a crash, the sessions that were in work come last, because one
of them may have caused it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakValueDictionary

from justmem.config import ServerSettings
from justmem.domain import Forgotten, Receipt, Remembered, Session, SessionState
from justmem.errors import JustMemError, NoRoom, NotInMemory
from justmem.intake.redaction import Redaction
from justmem.ports import BEGUN
from justmem.server.metrics import Metrics
from justmem.spaces.opened import OpenSpaces

log = logging.getLogger("justmem.server")

Name = tuple[str, str]  # a space and a session
_MOST_RESULTS = 2_000


@dataclass
class Job:
    """A session whose words are stored. `done` is its result."""

    space: str
    session_id: str
    done: asyncio.Future[Remembered] = field(repr=False)
    actor: str | None = None  # who sent it; None: the server itself
    notes: tuple[str, ...] = ()  # on changes of the text before it was stored
    timer: asyncio.TimerHandle | None = None

    def fail(self, error: BaseException) -> None:
        if not self.done.done():
            self.done.set_exception(error)
            self.done.exception()  # marks it as retrieved: asyncio warns otherwise


class Ingestion:
    def __init__(
        self,
        spaces: OpenSpaces,
        serving: ServerSettings,
        at_once: int,
        metrics: Metrics,
        redaction: Redaction | None = None,
    ) -> None:
        self._spaces = spaces
        self._redaction = redaction or Redaction()
        self._serving = serving
        self._at_once = at_once
        self._most_of_one = max(1, at_once - 1)  # workers that one space may have
        self._metrics = metrics
        self._jobs: dict[Name, Job] = {}  # waiting: paused or queued
        self._queue: OrderedDict[str, deque[str]] = OrderedDict()  # space -> session ids
        self._working: dict[asyncio.Task[Remembered], Job] = {}
        self._results: OrderedDict[Name, Remembered] = OrderedDict()
        self._locks: WeakValueDictionary[Name, asyncio.Lock] = WeakValueDictionary()
        self._freed = asyncio.Event()
        self._stopped = False

    # ------------------------------------------------------------ accepting

    async def accept(self, space: str, session: Session, by: str | None = None) -> Job:
        """Returns when the words are stored. A full queue raises NoRoom and stores nothing."""
        # Memory would redact too, but an id made from the words depends on the redacted text.
        redacted = await self._redaction.session(session)
        async with self.alone(space, redacted.session.id):
            return await self.put(space, redacted.session, by, notes=redacted.notes)

    @asynccontextmanager
    async def alone(self, space: str, session_id: str) -> AsyncIterator[None]:
        """Locks the session."""
        async with self._locks.setdefault((space, session_id), asyncio.Lock()):
            yield

    async def put(
        self,
        space: str,
        session: Session,
        by: str | None = None,
        *,
        pause: float = 0.0,
        notes: tuple[str, ...] = (),
    ) -> Job:
        """`accept` for a caller that holds the lock of `alone`. The job waits `pause` seconds for
        a newer text. `notes` are added to its receipt."""
        self._check_room()
        async with self._spaces.use(space, by, create=True) as memory:
            record = await memory.keep(session)
        if record.state.settled:
            return _finished(
                space,
                Remembered(
                    session_id=session.id,
                    state=record.state,
                    reason=record.reason,
                    unchanged=True,
                    receipt=Receipt(notes=notes),
                ),
            )
        return self._enqueue(space, session.id, by, pause, notes)

    async def append(
        self, space: str, id: str, turns: Any, at: Any = None, by: str | None = None
    ) -> Job:
        """Returns when the turns are stored. `at` is the time of a new session."""
        async with self.alone(space, id):
            self._check_room()
            async with self._spaces.use(space, by, create=True) as memory:
                kept = await memory.append(turns, id=id, at=at, cards=False)
            if kept.unchanged:
                return _finished(space, kept)
            return self._enqueue(space, id, by, notes=kept.receipt.notes)

    async def newest(self, space: str, session_id: str, by: str | None = None) -> Session | None:
        """The waiting text of a session, else the current text, else None."""
        try:
            async with self._spaces.use(space, by) as memory:
                # The store holds a failed text beside the text of the current cards.
                waiting = {session.id: session for session in await memory.waiting()}
                return waiting.get(session_id) or await memory.session(session_id)
        except NotInMemory:
            return None

    async def retry(self, space: str, session_id: str | None = None, by: str | None = None) -> int:
        """Queues the pending and failed sessions. Returns their number."""
        async with self._spaces.use(space, by) as memory:
            records = await memory.sessions()
        waiting = [record.id for record in records if not record.state.settled]
        chosen = [id for id in waiting if session_id in (None, id)]
        for id in chosen:
            await self._again(space, id, by)
        return len(chosen)

    async def take_up(self, only: str | None = None) -> None:
        """Queues the sessions that an earlier run of the server left pending."""
        last: list[Name] = []
        for space in await self._spaces.names():
            if only not in (None, space):
                continue
            try:
                async with self._spaces.use(space) as memory:
                    records = await memory.sessions()
            except JustMemError as error:
                log.warning("a space cannot be looked at for pending sessions: %s", error)
                continue
            for record in records:
                if record.state is SessionState.PENDING:
                    if record.reason == BEGUN:  # it may have caused a crash
                        last.append((space, record.id))
                    else:
                        await self._again(space, record.id)
        for name in last:
            await self._again(*name)

    async def _again(self, space: str, session_id: str, by: str | None = None) -> None:
        while len(self._jobs) >= self._serving.queue and not self._stopped:
            self._freed.clear()
            await self._freed.wait()
        if not self.is_waiting(space, session_id):
            self._enqueue(space, session_id, by)

    # ------------------------------------------------------------ forgetting

    async def forget(
        self, space: str, by: str | None = None, *, verify: bool = False, **what: Any
    ) -> Forgotten:
        """`what` is as for `AsyncMemory.forget`. Locks the sessions that it touches."""
        async with self._spaces.use(space, by) as memory, AsyncExitStack() as held:
            preview = await memory.preview_forget(**what)
            touched = {card.session_id for card in preview.cards}
            touched |= {record.id for record in preview.sessions}
            touched |= {place.rpartition("#")[0] for place in preview.turns}
            for session_id in sorted(touched):
                await held.enter_async_context(self.alone(space, session_id))
                self._results.pop((space, session_id), None)
            return await memory.forget(**what, verify=verify)

    async def erase(self, space: str, by: str | None = None, *, verify: bool = False) -> Forgotten:
        for name in [name for name in {**self._jobs, **self._results} if name[0] == space]:
            self._results.pop(name, None)
            if (job := self._jobs.pop(name, None)) is not None:
                _cancel_timer(job)
                job.fail(NotInMemory("The session was forgotten meanwhile."))
        self._queue.pop(space, None)
        self._freed.set()
        return await self._spaces.erase(space, by, verify=verify)

    # ------------------------------------------------------------ reading

    def result(self, space: str, session_id: str) -> Remembered | None:
        """The recent result of a session, with its receipt and without its cards."""
        return self._results.get((space, session_id))

    def is_waiting(self, space: str, session_id: str) -> bool:
        jobs = [*self._working.values()]
        working = any((job.space, job.session_id) == (space, session_id) for job in jobs)
        return (space, session_id) in self._jobs or working

    def counts(self) -> dict[str, int]:
        queued = sum(map(len, self._queue.values()))
        paused = sum(job.timer is not None for job in self._jobs.values())
        return {"queued": queued, "paused": paused, "working": len(self._working)}

    # ------------------------------------------------------------ the queue

    def _check_room(self) -> None:
        if self._stopped or len(self._jobs) >= self._serving.queue:
            error = NoRoom(
                "Too many sessions wait to be remembered, so this one was not stored. Send it "
                "again in a few seconds."
            )
            error.after = 5.0
            raise error

    def _enqueue(
        self,
        space: str,
        session_id: str,
        by: str | None,
        pause: float = 0.0,
        notes: tuple[str, ...] = (),
    ) -> Job:
        """A session that waits already keeps its place; a pause begins again."""
        loop = asyncio.get_running_loop()
        name = (space, session_id)
        job = self._jobs.get(name)
        queued = job is not None and job.timer is None
        if job is None:
            job = self._jobs[name] = Job(space, session_id, loop.create_future())
        job.actor, job.notes = by, notes
        self._results.pop(name, None)
        _cancel_timer(job)
        if not queued and pause:
            job.timer = loop.call_later(pause, self._release, job)
        elif not queued:
            self._release(job)
        return job

    def _release(self, job: Job) -> None:
        job.timer = None
        self._queue.setdefault(job.space, deque()).append(job.session_id)
        self._start_work()

    def _pop(self) -> Job | None:
        """The next job. A space that has its share of workers is passed over."""
        at_work = Counter(job.space for job in self._working.values())
        space = next((one for one in self._queue if at_work[one] < self._most_of_one), None)
        if space is None:
            return None
        ids = self._queue.pop(space)
        job = self._jobs[space, ids.popleft()]
        if ids:
            self._queue[space] = ids  # at the end, so that the other spaces come first
        return job

    # ------------------------------------------------------------ the work

    def _start_work(self) -> None:
        while len(self._working) < self._at_once and not self._stopped:
            job = self._pop()
            if job is None:
                return
            task = asyncio.create_task(self._remember(job))
            self._working[task] = job
            task.add_done_callback(self._ended)

    async def _remember(self, job: Job) -> Remembered:
        name = (job.space, job.session_id)
        async with self.alone(*name):
            if self._jobs.get(name) is not job:
                raise NotInMemory("The session was forgotten before its cards were made.")
            del self._jobs[name]  # under the lock: a newer text joins this job until then
            self._freed.set()
            async with self._spaces.use(job.space, job.actor) as memory:
                done = await memory.finish(job.session_id)
            notes = (*job.notes, *done.receipt.notes)
            receipt = done.receipt.model_copy(update={"notes": notes})
            return done.model_copy(update={"receipt": receipt})

    def _ended(self, task: asyncio.Task[Remembered]) -> None:
        job = self._working.pop(task)
        if task.cancelled():  # the words are stored, and the next start continues with it
            job.done.cancel()
        elif (error := task.exception()) is not None:
            if not isinstance(error, NotInMemory):
                crash = None if isinstance(error, JustMemError) else error
                log.error("no cards were made of a session: %s", error, exc_info=crash)
            job.fail(error)
        else:
            done = task.result()
            self._metrics.remembered(done)
            # The store has the cards. Only the receipt is kept here.
            short = done.model_copy(update={"cards": (), "quarantined": ()})
            self._results[job.space, job.session_id] = short
            while len(self._results) > _MOST_RESULTS:
                self._results.popitem(last=False)
            if not job.done.done():
                job.done.set_result(done)
        self._start_work()

    async def stop(self, grace: float) -> None:
        """Waits up to `grace` seconds for the work in progress. The rest stays pending."""
        self._stopped = True
        self._freed.set()
        for job in self._jobs.values():
            _cancel_timer(job)
        tasks = list(self._working)
        if tasks:
            await asyncio.wait(tasks, timeout=grace)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for job in self._jobs.values():
            job.done.cancel()


def _finished(space: str, done: Remembered) -> Job:
    job = Job(space, done.session_id, asyncio.get_running_loop().create_future())
    job.done.set_result(done)
    return job


def _cancel_timer(job: Job) -> None:
    if job.timer is not None:
        job.timer.cancel()
        job.timer = None
