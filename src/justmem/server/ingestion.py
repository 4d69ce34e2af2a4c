"""The queue of sessions that wait for their cards.

`accept` returns after the words are stored, so an accepted session survives a crash. The spaces
take turns, and one space never uses all workers. One session is never processed twice at the same
time: a newer text replaces an older one that still waits. After a crash, the sessions that were in
work come last, because one of them may have caused it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakValueDictionary

from justmem.config import ServerSettings
from justmem.domain import (
    Forgotten,
    Receipt,
    Remembered,
    Session,
    SessionRecord,
    SessionState,
)
from justmem.errors import JustMemError, NoRoom, NotInMemory
from justmem.intake.redaction import Redaction
from justmem.memory import AsyncMemory
from justmem.ports import BEGUN
from justmem.server.fair_queue import FairQueue
from justmem.server.metrics import Metrics
from justmem.spaces.opened import OpenSpaces

log = logging.getLogger("justmem.server")

Name = tuple[str, str]  # a space and a session
_MOST_RESULTS = 2_000
QUEUE_BYTES = 128 * 1024 * 1024  # text of waiting sessions; `queue` limits their number


def _size(session: Session) -> int:
    return 200 + sum(len(turn.text) + len(turn.speaker) for turn in session.turns)


@dataclass
class Job:
    """A session whose words are stored. `done` is its result."""

    space: str
    session: Session
    done: asyncio.Future[Remembered] = field(repr=False)
    actor: str | None = None  # who sent it; None: the server itself
    timer: asyncio.TimerHandle | None = None
    notes: tuple[str, ...] = ()  # on changes of the text before it was stored

    @property
    def name(self) -> Name:
        return self.space, self.session.id


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
        self._queue = FairQueue()
        self._working: dict[asyncio.Task[Remembered], Job] = {}
        self._bytes = 0
        self._results: OrderedDict[Name, Remembered] = OrderedDict()
        self._locks: WeakValueDictionary[Name, asyncio.Lock] = WeakValueDictionary()
        self._watchers: list[set[Name]] = []
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
        self._check_room(_size(session))
        # The queue must not hold text that the store does not hold.
        redacted = await self._redaction.session(session, rename=False)
        session, notes = redacted.session, notes or redacted.notes
        async with self._spaces.use(space, by, create=True) as memory:
            record = await memory.keep(session)
        self._changed(space, session.id)
        if record.state.settled:
            return self._known(space, session, record, notes)
        return self._enqueue(space, session, pause, by, notes)

    async def append(
        self, space: str, id: str, turns: Any, at: Any = None, by: str | None = None
    ) -> Job:
        """Returns when the turns are stored. `at` is the time of a new session."""
        async with self.alone(space, id):
            self._check_room(0)
            async with self._spaces.use(space, by, create=True) as memory:
                kept = await memory.append(turns, id=id, at=at, cards=False)
            self._changed(space, id)
            session = await self.newest(space, id, by)
            assert session is not None
            if kept.unchanged:
                loop = asyncio.get_running_loop()
                job = Job(space, session, loop.create_future())
                job.done.set_result(kept)
                return job
            return self._enqueue(space, session, 0.0, by, kept.receipt.notes)

    async def newest(self, space: str, session_id: str, by: str | None = None) -> Session | None:
        """The waiting text of a session, else the current text, else None."""
        if (job := self._jobs.get((space, session_id))) is not None:
            return job.session
        try:
            async with self._spaces.use(space, by) as memory:
                # The store holds a failed text beside the text of the current cards.
                waiting = {session.id: session for session in await memory.waiting()}
                return waiting.get(session_id) or await memory.session(session_id)
        except NotInMemory:
            return None

    async def retry(self, space: str, session_id: str | None = None, by: str | None = None) -> int:
        """Queues the pending and failed sessions. Returns their number."""
        with self._watching() as changed:
            async with self._spaces.use(space, by) as memory:
                waiting = await memory.waiting()
            chosen = [each for each in waiting if session_id in (None, each.id)]
            for session in chosen:
                await self._again(space, session, changed, by)
        return len(chosen)

    async def take_up(self, only: str | None = None) -> None:
        """Queues the sessions that an earlier run of the server left pending."""
        names = [name for name in await self._spaces.names() if only in (None, name)]
        for begun in (False, True):  # a session in work may have caused a crash, so it comes last
            for space in names:
                with self._watching() as changed:
                    await self._take_up(space, changed, begun)

    async def _take_up(self, space: str, changed: set[Name], begun: bool) -> None:
        try:
            async with self._spaces.use(space) as memory:
                pending = {
                    record.id
                    for record in await memory.sessions()
                    if record.state is SessionState.PENDING and (record.reason == BEGUN) is begun
                }
                waiting = await memory.waiting() if pending else []
        except JustMemError as error:
            log.warning("a space cannot be looked at for pending sessions: %s", error)
            return
        for session in waiting:
            if session.id in pending:
                await self._again(space, session, changed)

    async def _again(
        self, space: str, session: Session, changed: set[Name], by: str | None = None
    ) -> None:
        """Queues a text that was read from the store, unless it has changed since."""
        while len(self._jobs) >= self._serving.queue and not self._stopped:
            self._freed.clear()
            await self._freed.wait()
        name = (space, session.id)
        if name in changed or (space, "") in changed or self.is_waiting(*name):
            return
        self._enqueue(space, session, 0.0, by)

    @contextmanager
    def _watching(self) -> Iterator[set[Name]]:
        """Collects the sessions that change inside the block. An empty id means the whole space."""
        changed: set[Name] = set()
        self._watchers.append(changed)
        try:
            yield changed
        finally:
            self._watchers = [each for each in self._watchers if each is not changed]

    def _changed(self, space: str, session_id: str) -> None:
        for changed in self._watchers:
            changed.add((space, session_id))

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
                self._changed(space, session_id)
                self._results.pop((space, session_id), None)
            done = await memory.forget(**what, verify=verify)
            await self._keep_up(space, memory)
            return done

    async def _keep_up(self, space: str, memory: AsyncMemory) -> None:
        """Removes forgotten text from the queue."""
        known = {record.id for record in await memory.sessions()}
        texts = {session.id: session for session in await memory.waiting()}
        for name, job in [*self._jobs.items()]:
            if name[0] != space:
                continue
            if name[1] not in known:
                self._forgotten(name)
            elif (text := texts.get(name[1])) is not None:
                self._bytes += _size(text) - _size(job.session)
                job.session = text

    async def erase(self, space: str, by: str | None = None, *, verify: bool = False) -> Forgotten:
        self._changed(space, "")
        for name in [name for name in {**self._jobs, **self._results} if name[0] == space]:
            self._forgotten(name)
        return await self._spaces.erase(space, by, verify=verify)

    def _forgotten(self, name: Name) -> None:
        self._results.pop(name, None)
        if (job := self._drop(name)) is not None and not job.done.done():
            job.done.set_exception(NotInMemory("The session was forgotten meanwhile."))
            job.done.exception()  # marks it as retrieved: asyncio warns otherwise

    # ------------------------------------------------------------ reading

    def result(self, space: str, session_id: str) -> Remembered | None:
        """The recent result of a session, with its receipt."""
        return self._results.get((space, session_id))

    def is_waiting(self, space: str, session_id: str) -> bool:
        return (space, session_id) in self._jobs or self._is_working(space, session_id)

    def _is_working(self, space: str, session_id: str) -> bool:
        return any(job.name == (space, session_id) for job in self._working.values())

    def counts(self) -> dict[str, int]:
        paused = sum(job.timer is not None for job in self._jobs.values())
        return {"queued": len(self._queue), "paused": paused, "working": len(self._working)}

    # ------------------------------------------------------------ the queue

    def _check_room(self, more: int) -> None:
        full = len(self._jobs) >= self._serving.queue
        if self._stopped or full or self._bytes + more > QUEUE_BYTES:
            error = NoRoom(
                "Too many sessions wait to be remembered, so this one was not stored. Send it "
                "again in a few seconds."
            )
            error.after = 5.0
            raise error

    def _known(
        self, space: str, session: Session, record: SessionRecord, notes: tuple[str, ...]
    ) -> Job:
        """The stored text was sent again: a different text that waits is dropped."""
        name = (space, session.id)
        fresh = Job(space, session, asyncio.get_running_loop().create_future())
        job = self._drop(name) or fresh
        if not job.done.done():
            unchanged = Remembered(
                session_id=session.id,
                state=record.state,
                reason=record.reason,
                unchanged=True,
                receipt=Receipt(notes=notes),
            )
            job.done.set_result(unchanged)
        return job

    def _enqueue(
        self,
        space: str,
        session: Session,
        pause: float,
        by: str | None,
        notes: tuple[str, ...] = (),
    ) -> Job:
        loop = asyncio.get_running_loop()
        name = (space, session.id)
        job = self._jobs.get(name)
        if job is None:
            job = self._jobs[name] = Job(space, session, loop.create_future())
            fresh = True
        else:
            self._bytes -= _size(job.session)
            job.session = session
            fresh = job.timer is not None
        job.actor, job.notes = by, notes
        self._bytes += _size(session)
        self._results.pop(name, None)
        if job.timer is not None:
            job.timer.cancel()
            job.timer = None
        if fresh and pause:
            job.timer = loop.call_later(pause, self._release, job)
        elif fresh:
            self._release(job)
        return job

    def _release(self, job: Job) -> None:
        job.timer = None
        self._queue.push(*job.name)
        self._pump()

    def _drop(self, name: Name) -> Job | None:
        job = self._jobs.pop(name, None)
        if job is not None:
            self._bytes -= _size(job.session)
            self._freed.set()
            if job.timer is not None:
                job.timer.cancel()
            else:
                self._queue.remove(*name)
        return job

    # ------------------------------------------------------------ the work

    def _pump(self) -> None:
        while len(self._queue) and len(self._working) < self._at_once and not self._stopped:
            at_work = Counter(job.space for job in self._working.values())
            name = self._queue.pop(without={s for s in at_work if at_work[s] >= self._most_of_one})
            if name is None:
                return
            job = self._jobs[name]
            task = asyncio.create_task(self._remember(job))
            self._working[task] = job
            task.add_done_callback(self._finished)

    async def _remember(self, job: Job) -> Remembered:
        async with self.alone(*job.name):
            # Checked under the lock: a newer text may have replaced it, or it was forgotten.
            if self._jobs.get(job.name) is not job:
                raise NotInMemory("The session was forgotten before its cards were made.")
            self._drop(job.name)
            async with self._spaces.use(job.space, job.actor) as memory:
                done = await memory.finish(job.session.id)
            told = done.receipt.model_copy(update={"notes": (*job.notes, *done.receipt.notes)})
            return done.model_copy(update={"receipt": told})

    def _finished(self, task: asyncio.Task[Remembered]) -> None:
        job = self._working.pop(task)
        if task.cancelled():  # the words are stored, and the next start continues with it
            job.done.cancel()
        elif (error := task.exception()) is not None:
            if not isinstance(error, NotInMemory):
                log.error("no cards were made of a session: %s", error, exc_info=_crash(error))
            if not job.done.done():
                job.done.set_exception(error)
                job.done.exception()  # marks it as retrieved: asyncio warns otherwise
        else:
            self._note(job, task.result())
        self._pump()

    def _note(self, job: Job, done: Remembered) -> None:
        self._metrics.remembered(done)
        # The store has the cards. Only the receipt is kept here.
        self._results[job.name] = done.model_copy(update={"cards": (), "quarantined": ()})
        while len(self._results) > _MOST_RESULTS:
            self._results.popitem(last=False)
        if not job.done.done():
            job.done.set_result(done)

    # ------------------------------------------------------------ stopping

    async def stop(self, grace: float) -> None:
        """Waits up to `grace` seconds for the work in progress. The rest stays pending."""
        self._stopped = True
        self._freed.set()
        for job in self._jobs.values():
            if job.timer is not None:
                job.timer.cancel()
        tasks = list(self._working)
        if tasks:
            await asyncio.wait(tasks, timeout=grace)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for job in self._jobs.values():
            job.done.cancel()


def _crash(error: BaseException) -> BaseException | None:
    return None if isinstance(error, JustMemError) else error
