"""The parts of a running server, and how it starts and stops."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from justmem.config import Settings
from justmem.config.providers import Report
from justmem.errors import JustMemError
from justmem.models.onnx import OnnxEmbedder, OnnxReranker
from justmem.runtime import tokens
from justmem.server.access_keys import OWNER, Key, Keys, Rates
from justmem.server.expiry_task import ExpiryTask
from justmem.server.metrics import Metrics
from justmem.server.proxy.upstreams import upstreams_of
from justmem.spaces import Spaces

if TYPE_CHECKING:
    from justmem.server.mcp.oauth import OAuth

T = TypeVar("T")
log = logging.getLogger("justmem.server")

OPEN_SPACES = 64  # an open space costs a file handle and a few MB; reopening takes milliseconds
_FILES = 400  # open files for spaces and models


def most_connections(setting: int) -> int:
    """Each connection is an open file, and the system limits the open files of a process."""
    with suppress(ImportError):  # Windows
        import resource

        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if files != resource.RLIM_INFINITY:
            return min(setting, max(100, files - _FILES))
    return setting


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
        self.connections = most_connections(self.serving.connections)
        self.clock = clock
        self.keys = keys
        self.sign_in: OAuth | None = None  # for MCP clients that have no key
        self.metrics = Metrics()
        self.rates = Rates(self.serving.rate, self.serving.burst)
        self.spaces = Spaces(
            settings.model_copy(update={"actor": settings.actor or "server"}),
            most_open=OPEN_SPACES,
            on_done=self.metrics.remembered,
            clock=clock,
            report=report,
        )
        self.upstreams = upstreams_of(settings)  # of the chat proxy
        self.not_ready: str | None = "The server is starting."
        self._tasks: set[asyncio.Task[Any]] = set()
        jobs = self.spaces.background
        self.metrics.gauge("sessions_waiting", "Sessions that wait.", lambda: jobs.waiting)
        self.metrics.gauge("sessions_working", "Sessions in work.", lambda: jobs.working)
        self.metrics.gauge("open_spaces", "Spaces that are open.", lambda: self.spaces.open)

    @asynccontextmanager
    async def running(self, only: str | None = None) -> AsyncIterator[None]:
        """With `only`, this process continues the pending sessions of that space alone."""
        jobs, grace = self.spaces.background, self.serving.grace_seconds
        async with self.spaces:
            upkeep = [self._load_models(), jobs.add_pending(self.serving.queue, only)]
            if self.settings.retention.limited:
                upkeep.append(ExpiryTask(self.spaces, self.clock).run())
            running = [asyncio.create_task(work) for work in upkeep]
            try:
                yield
            finally:
                self.not_ready = "The server is stopping."
                for task in running:
                    task.cancel()
                stopping = asyncio.create_task(jobs.stop(grace))
                if self._tasks:
                    await asyncio.wait(self._tasks, timeout=grace)
                for task in self._tasks:
                    task.cancel()
                await asyncio.gather(stopping, *running, *self._tasks, return_exceptions=True)
                for upstream in self.upstreams.values():
                    await upstream.close()

    async def _load_models(self) -> None:
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
