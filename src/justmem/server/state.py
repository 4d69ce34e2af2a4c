"""The parts of a running server, and how it starts and stops."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from justmem.config import Settings
from justmem.config.providers import Report
from justmem.domain import Receipt, Remembered
from justmem.errors import JustMemError, KeyTooWeak, NoRoom
from justmem.intake.sessions import SessionLike
from justmem.memory import AsyncMemory
from justmem.models.onnx import OnnxEmbedder, OnnxReranker
from justmem.runtime import tokens
from justmem.server.access_keys import OWNER, Key, Keys, Limits, Right
from justmem.server.expiry_task import ExpiryTask
from justmem.server.metrics import Metrics
from justmem.spaces import Spaces, no_such_space

if TYPE_CHECKING:
    from justmem.server.mcp.oauth import OAuth

T = TypeVar("T")
log = logging.getLogger("justmem.server")

OPEN_SPACES = 64  # an open space costs a file handle and a few MB; reopening takes milliseconds
EXPIRE_SECONDS = 3600.0  # between two expiry runs: ages are counted in days
_VERBS: dict[Right, str] = {"read": "read", "write": "write", "admin": "administer"}


class Server:
    """`clock` gives the time of a request that has no `at`. Without keys every client is the
    owner."""

    def __init__(
        self,
        settings: Settings,
        *,
        clock: Callable[[], datetime],
        keys: Keys | None,
        report: Report | None = None,
    ) -> None:
        self.settings = settings
        self.serving = settings.server
        self.clock = clock
        self.keys = keys
        self.sign_in: OAuth | None = None  # for MCP clients that have no key
        self.metrics = Metrics()
        self.limits = Limits(self.serving)
        self.spaces = Spaces(
            settings.model_copy(update={"actor": settings.actor or "server"}),
            most_open=OPEN_SPACES,
            create=False,
            on_done=self.metrics.remembered,
            clock=clock,
            report=report,
        )
        self.not_ready: str | None = "The server is starting."
        self._tasks: set[asyncio.Task[Any]] = set()
        jobs = self.spaces.background
        self.metrics.gauge("sessions_waiting", "Sessions that wait.", lambda: jobs.waiting)
        self.metrics.gauge("sessions_working", "Sessions in work.", lambda: jobs.working)
        self.metrics.gauge("open_spaces", "Spaces that are open.", lambda: self.spaces.open)

    # ------------------------------------------------------------ starting and stopping

    @asynccontextmanager
    async def running(self, only: str | None = None) -> AsyncIterator[None]:
        """With `only`, this process continues the pending sessions of that space alone."""
        jobs, grace = self.spaces.background, self.serving.grace_seconds
        async with self.spaces:
            beside = [
                asyncio.create_task(self._warm()),
                asyncio.create_task(jobs.add_pending(self.serving.queue, only)),
            ]
            if self.settings.retention.limited:
                expiry = ExpiryTask(self.spaces, self.clock, EXPIRE_SECONDS)
                beside.append(asyncio.create_task(expiry.run()))
            try:
                yield
            finally:
                self.not_ready = "The server is stopping."
                for task in beside:
                    task.cancel()
                stopping = asyncio.create_task(jobs.stop(grace))
                if self._tasks:
                    await asyncio.wait(self._tasks, timeout=grace)
                for task in self._tasks:
                    task.cancel()
                await asyncio.gather(stopping, *beside, *self._tasks, return_exceptions=True)

    async def _warm(self) -> None:
        """Downloads and loads the local models. The server is ready after that."""
        embedder, reranker = self.spaces.parts.embedder, self.spaces.parts.reranker
        try:
            await asyncio.to_thread(tokens.count, "hello")
            if isinstance(embedder, OnnxEmbedder):
                await embedder.embed(["hello"], query=True)
            if isinstance(reranker, OnnxReranker):
                await reranker.rerank("hello", ["hello"])
        except JustMemError as error:
            self.not_ready = "A local model is not available: see the server's log."
            log.error("not ready: %s", error)
        else:
            self.not_ready = None

    # ------------------------------------------------------------ access

    def identify(self, token: str, *, signed_in: bool = False) -> Key | None:
        """`signed_in`: an OAuth token counts too. It is valid for the MCP tools only."""
        if self.keys is None:
            return OWNER
        try:
            key = self.keys.find(token)
            if key is None and signed_in and self.sign_in is not None:
                key = self.sign_in.key(token)
            return key
        except JustMemError as error:
            log.error("keys cannot be checked: %s", error)
            return None

    @staticmethod
    def check(key: Key, space: str, right: Right) -> None:
        """For a key that does not open the space, the space does not exist."""
        if not key.opens(space):
            raise no_such_space(space)
        if not key.may(right):
            raise KeyTooWeak(f"This key may not {_VERBS[right]} in this space.")

    @asynccontextmanager
    async def asking(self, key: Key, space: str) -> AsyncIterator[AsyncMemory]:
        """Counts the question for its key, and the model calls of a question that fails."""
        with self.limits.asking(key.id):
            try:
                async with self.spaces.use(space, key.actor) as memory:
                    yield memory
            except JustMemError as error:
                self.metrics.receipt(Receipt(calls=error.calls))
                raise

    # ------------------------------------------------------------ remembering

    async def remember(
        self,
        key: Key,
        space: str,
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
        async with self.spaces.use(space, key.actor, create=True) as memory:
            if append:
                kept = await memory.append(session, id=id or "", at=at, cards=False)
            else:
                kept = await memory.keep(session, at=at, id=id)
        if kept.state.settled:
            return kept
        task = self.spaces.background.add(space, kept.session_id, key.actor, pause=pause)
        if wait:
            await asyncio.wait({task}, timeout=wait)
        if not task.done() or task.cancelled():
            return kept
        done = task.result()
        notes = (*kept.receipt.notes, *done.receipt.notes)
        return done.model_copy(update={"receipt": done.receipt.model_copy(update={"notes": notes})})

    def _check_room(self) -> None:
        if self.spaces.background.waiting >= self.serving.queue:
            error = NoRoom(
                "Too many sessions wait to be remembered, so this one was not stored. Send it "
                "again in a few seconds."
            )
            error.after = 5.0
            raise error

    async def queue(
        self, key: Key, space: str, *, session: str | None, rebuild: bool, wait: float
    ) -> int:
        """Queues the pending and failed sessions; with `rebuild` those whose cards are made too.
        Returns their number, after up to `wait` seconds."""
        self._check_room()
        async with self.spaces.use(space, key.actor) as memory:
            if rebuild:
                ids = await self.spaces.store(space).rebuild(session)
            else:
                records = await memory.sessions()
                ids = [each.id for each in records if not each.state.settled]
        chosen = [id for id in ids if session in (None, id)]
        tasks = [self.spaces.background.add(space, id, key.actor) for id in chosen]
        if tasks and wait:
            await asyncio.wait(tasks, timeout=wait)
        return len(tasks)

    # ------------------------------------------------------------ tasks

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Work that continues after its request."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # marks it as retrieved: asyncio warns otherwise
