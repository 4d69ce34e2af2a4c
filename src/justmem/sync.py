"""Memory: AsyncMemory for programs without an event loop. No method is written twice."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from justmem.domain import Budget, Retention
from justmem.errors import StoreError
from justmem.memory import AsyncMemory
from justmem.rank import Profile
from justmem.runtime.forks import Origin

P = ParamSpec("P")
T = TypeVar("T")


def _face(
    method: Callable[Concatenate[AsyncMemory, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Memory, P], T]:
    """The same method, waited for."""

    @functools.wraps(method)
    def waited(self: Memory, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._wait(method(self.asynchronous, *args, **kwargs))

    return waited


def _each(
    method: Callable[Concatenate[AsyncMemory, P], AsyncGenerator[T]],
) -> Callable[Concatenate[Memory, P], Iterator[T]]:
    """The same steps, each waited for."""

    @functools.wraps(method)
    def waited(self: Memory, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        steps = method(self.asynchronous, *args, **kwargs)

        async def step() -> T | None:
            found: T | None = await anext(steps, None)
            return found

        async def closed() -> None:
            await steps.aclose()

        try:
            while (found := self._wait(step())) is not None:
                yield found
        finally:
            self._wait(closed())

    return waited


class Memory:
    """AsyncMemory for programs without an event loop: the same methods, each waited for.

    Safe to share between threads, but not with a forked process: that one opens its own. The work
    runs on one event loop of its own, in a thread that ends with `close`.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._origin = Origin()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="justmem", daemon=True)
        self._thread.start()

        async def build() -> AsyncMemory:
            return AsyncMemory(*args, **kwargs)

        try:
            self.asynchronous = self._wait(build())
        except BaseException:
            self._stop()
            raise

    @property
    def space(self) -> str:
        return self.asynchronous.space

    @property
    def budget(self) -> Budget:
        return self.asynchronous.budget

    @property
    def ranking(self) -> Profile:
        return self.asynchronous.ranking

    @property
    def retention(self) -> Retention:
        return self.asynchronous.retention

    remember = _face(AsyncMemory.remember)
    keep = _face(AsyncMemory.keep)
    append = _face(AsyncMemory.append)
    note = _face(AsyncMemory.note)
    notes = _face(AsyncMemory.notes)
    note_at = _face(AsyncMemory.note_at)
    remember_many = _face(AsyncMemory.remember_many)
    retry = _face(AsyncMemory.retry)
    finish = _face(AsyncMemory.finish)
    rebuild = _face(AsyncMemory.rebuild)
    recall = _face(AsyncMemory.recall)
    ask = _face(AsyncMemory.ask)
    answer = _face(AsyncMemory.answer)
    follow = _each(AsyncMemory.follow)
    forget = _face(AsyncMemory.forget)
    preview_forget = _face(AsyncMemory.preview_forget)
    cards = _face(AsyncMemory.cards)
    card = _face(AsyncMemory.card)
    source = _face(AsyncMemory.source)
    session = _face(AsyncMemory.session)
    sessions = _face(AsyncMemory.sessions)
    waiting = _face(AsyncMemory.waiting)
    quarantined = _face(AsyncMemory.quarantined)
    correct = _face(AsyncMemory.correct)
    pin = _face(AsyncMemory.pin)
    unpin = _face(AsyncMemory.unpin)
    undo = _face(AsyncMemory.undo)
    corrections = _face(AsyncMemory.corrections)
    stats = _face(AsyncMemory.stats)
    expiring = _face(AsyncMemory.expiring)
    expire = _face(AsyncMemory.expire)
    check = _face(AsyncMemory.check)
    backup = _face(AsyncMemory.backup)
    reembed = _face(AsyncMemory.reembed)
    history = _face(AsyncMemory.history)
    profile = _face(AsyncMemory.profile)
    about = _face(AsyncMemory.about)
    export = _each(AsyncMemory.export)
    load = _face(AsyncMemory.load)
    log = _face(AsyncMemory.log)
    check_log = _face(AsyncMemory.check_log)

    def close(self) -> None:
        if self._origin.here and not self._loop.is_closed():
            self._wait(self.asynchronous.close())
            self._stop()

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            self._origin.check()
            if self._loop.is_closed():
                raise StoreError("This memory is closed: open it again with justmem.open.")
        except StoreError:
            work.close()
            raise
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
