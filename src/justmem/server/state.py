"""The parts of a running server, and how it starts and stops."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Protocol, TypeVar

from justmem.config import Settings
from justmem.domain import Answer, Evidence, Plan, Receipt, SpacesEvidence
from justmem.errors import JustMemError, KeyTooWeak, TooSlow
from justmem.intake.redaction import Redaction
from justmem.intake.sessions import as_time
from justmem.memory import AsyncMemory
from justmem.opening import shared_parts, spaces_of
from justmem.providers import Report
from justmem.runtime import tokens
from justmem.server.access_keys import OWNER, Key, Keys, Right
from justmem.server.expiry_task import ExpiryTask
from justmem.server.ingestion import Ingestion
from justmem.server.metrics import Metrics
from justmem.server.question_priority import YieldingEmbedder, YieldingReranker, yielding
from justmem.server.rate_limits import Limits
from justmem.spaces.merging import merged
from justmem.spaces.opened import OpenSpaces, no_such_space

T = TypeVar("T")
Step = Plan | Evidence | str | Answer
log = logging.getLogger("justmem.server")

OPEN_SPACES = 64  # an open space costs a file handle and a few MB; reopening takes milliseconds
EXPIRE_SECONDS = 3600.0  # between two expiry runs: ages are counted in days


@dataclass(frozen=True, slots=True)
class Inquiry:
    """A question to one space, by one key."""

    key: Key
    space: str
    question: str
    at: object = None
    speaker: str | None = None
    plan: Mapping[str, Any] | None = None
    filters: Mapping[str, Any] = field(default_factory=dict)

    def given(self, at: datetime) -> dict[str, Any]:
        return {"at": at, "speaker": self.speaker, "plan": self.plan}


class SignIn(Protocol):
    """OAuth for MCP clients that have no key."""

    @property
    def challenge(self) -> str: ...

    def key(self, token: str) -> Key | None: ...


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
        self.sign_in: SignIn | None = None
        self.metrics = Metrics()
        self.limits = Limits(self.serving)
        own = settings.model_copy(update={"actor": settings.actor or "server"})
        self._parts = yielding(shared_parts(own, report=report))
        self.spaces = OpenSpaces(
            spaces_of(settings),
            self._parts,
            most_open=OPEN_SPACES,
            idle_seconds=self.serving.idle_seconds,
        )
        self.ingestion = Ingestion(
            self.spaces,
            self.serving,
            settings.concurrency,
            self.metrics,
            Redaction(self._parts["redact"]),
        )
        self.not_ready: str | None = "The server is starting."
        self._tasks: set[asyncio.Task[Any]] = set()
        self._streams: set[asyncio.Task[Any]] = set()
        self.metrics.gauge(
            "sessions_waiting",
            "Sessions whose cards are not made yet.",
            "state",
            self.ingestion.counts,
        )
        self.metrics.gauge("open_spaces", "Spaces that are open.", "", lambda: self.spaces.open)

    # ------------------------------------------------------------ starting and stopping

    @asynccontextmanager
    async def running(self, only: str | None = None) -> AsyncIterator[None]:
        """With `only`, this process continues the pending sessions of that space alone."""
        beside = [
            asyncio.create_task(self._warm()),
            asyncio.create_task(self.ingestion.take_up(only)),
            asyncio.create_task(self.spaces.sweep()),
        ]
        if self.settings.retention.limited:
            upkeep = ExpiryTask(self.spaces, self.clock, EXPIRE_SECONDS)
            beside.append(asyncio.create_task(upkeep.run()))
        try:
            yield
        finally:
            self.not_ready = "The server is stopping."
            ending = [*beside, *self._streams]
            for task in ending:
                task.cancel()
            await asyncio.gather(*ending, return_exceptions=True)
            await self._stop()

    async def _stop(self) -> None:
        grace = self.serving.grace_seconds
        stopping = asyncio.create_task(self.ingestion.stop(grace))
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=grace)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(stopping, *self._tasks, return_exceptions=True)
        await self.spaces.close()

    async def _warm(self) -> None:
        """Downloads and loads the local models. The server is ready after that."""
        try:
            await asyncio.to_thread(tokens.count, "hello")
            embedder, reranker = self._parts["embedder"], self._parts["reranker"]
            if isinstance(embedder, YieldingEmbedder):
                await embedder.embed(["hello"], query=True)
            if isinstance(reranker, YieldingReranker):
                await reranker.rerank("hello", ["hello"])
        except JustMemError as error:
            self.not_ready = "A local model is not available: see the server's log."
            log.error("not ready: %s", error)
        else:
            self.not_ready = None

    # ------------------------------------------------------------ access

    def identify(self, token: str | None) -> Key | None:
        if self.keys is None:
            return OWNER
        try:
            return self.keys.find(token) if token else None
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

    # ------------------------------------------------------------ verbs

    def moment(self, at: object) -> datetime:
        return self.clock() if at is None else as_time(at)

    async def recall(self, asked: Inquiry) -> Evidence:
        return await self.within(self._recall(asked))

    async def _recall(self, asked: Inquiry) -> Evidence:
        async with self._asking(asked) as (memory, given):
            found = await memory.recall(asked.question, **given, **asked.filters)
            self.metrics.receipt(found.receipt)
            return found

    async def recall_spaces(self, asked: Inquiry, spaces: Sequence[str]) -> SpacesEvidence:
        """One ranking over several spaces. The key must open all of them."""
        for space in spaces:
            self.check(asked.key, space, "read")

        async def work() -> SpacesEvidence:
            names = dict.fromkeys(spaces)
            found = {space: await self._recall(replace(asked, space=space)) for space in names}
            return merged(found, self._parts["budget"], self._parts["profile"])

        return await self.within(work())

    async def ask(self, asked: Inquiry) -> Answer:
        async def work() -> Answer:
            async with self._asking(asked) as (memory, given):
                answer = await memory.ask(asked.question, **given)
                self.metrics.receipt(answer.receipt)
                return answer

        return await self.within(work())

    async def follow(self, asked: Inquiry, tell: Callable[[Step], bool]) -> None:
        """`tell` receives each step and returns whether the client still listens. If not, the work
        ends before the next model call. A call in progress is finished, so that it is counted."""
        async with (
            self._asking(asked) as (memory, given),
            aclosing(memory.follow(asked.question, **given)) as steps,
        ):
            async for step in steps:
                heard = tell(step)
                if isinstance(step, Answer):
                    self.metrics.receipt(step.receipt)
                elif not heard and isinstance(step, Plan | Evidence):
                    return

    @asynccontextmanager
    async def _asking(self, asked: Inquiry) -> AsyncIterator[tuple[AsyncMemory, dict[str, Any]]]:
        """Counts the question for its key, and the calls of one that fails."""
        at = self.moment(asked.at)
        with self.limits.asking(asked.key.id):
            try:
                async with self.spaces.use(asked.space, asked.key.actor) as memory:
                    yield memory, asked.given(at)
            except JustMemError as error:
                self.metrics.receipt(Receipt(calls=error.calls))
                raise

    async def within(self, work: Coroutine[Any, Any, T], seconds: float | None = None) -> T:
        """The result, or TooSlow. The work continues after that, so that a model call in progress
        is counted."""
        task = self.background(work)
        limit = seconds or self.serving.request_seconds
        await asyncio.wait({task}, timeout=limit)
        if not task.done():
            raise TooSlow(f"This took longer than {limit:g} seconds: try again, or ask for less.")
        return task.result()

    def streaming(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Work for one reader. It is cancelled when the server stops."""
        task = asyncio.create_task(work)
        self._streams.add(task)
        task.add_done_callback(self._streams.discard)
        return task

    def background(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._over)
        return task

    def _over(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # marks it as retrieved: asyncio warns otherwise


_VERBS: dict[Right, str] = {"read": "read", "write": "write", "admin": "administer"}
