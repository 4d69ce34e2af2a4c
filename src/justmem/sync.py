"""Memory: AsyncMemory for programs without an event loop. No method is written twice."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from justmem.errors import StoreError
from justmem.memory import AsyncMemory
from justmem.memory_parts import Parts
from justmem.runtime.process import Origin

P = ParamSpec("P")
T = TypeVar("T")


def _blocking(
    method: Callable[Concatenate[AsyncMemory, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Memory, P], T]:
    """The same method, which blocks until it is done."""

    @functools.wraps(method)
    def waited(self: Memory, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._wait(method(self.asynchronous, *args, **kwargs))

    return waited


class Memory:
    """AsyncMemory for programs without an event loop: the same methods, but blocking.

    Threads may share it. A forked process must open its own. The work runs on an event loop in a
    thread that ends with `close`.
    """

    def __init__(self, asynchronous: AsyncMemory) -> None:
        self.asynchronous = asynchronous
        self._origin = Origin()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="justmem", daemon=True)
        self._thread.start()

    @property
    def space(self) -> str:
        return self.asynchronous.space

    @property
    def parts(self) -> Parts:
        return self.asynchronous.parts

    remember = _blocking(AsyncMemory.remember)
    keep = _blocking(AsyncMemory.keep)
    append = _blocking(AsyncMemory.append)
    note = _blocking(AsyncMemory.note)
    notes = _blocking(AsyncMemory.notes)
    note_at = _blocking(AsyncMemory.note_at)
    remember_many = _blocking(AsyncMemory.remember_many)
    retry = _blocking(AsyncMemory.retry)
    finish = _blocking(AsyncMemory.finish)
    rebuild = _blocking(AsyncMemory.rebuild)
    recall = _blocking(AsyncMemory.recall)
    ask = _blocking(AsyncMemory.ask)
    answer = _blocking(AsyncMemory.answer)
    forget = _blocking(AsyncMemory.forget)
    preview_forget = _blocking(AsyncMemory.preview_forget)
    cards = _blocking(AsyncMemory.cards)
    card = _blocking(AsyncMemory.card)
    source = _blocking(AsyncMemory.source)
    session = _blocking(AsyncMemory.session)
    sessions = _blocking(AsyncMemory.sessions)
    waiting = _blocking(AsyncMemory.waiting)
    quarantined = _blocking(AsyncMemory.quarantined)
    correct = _blocking(AsyncMemory.correct)
    pin = _blocking(AsyncMemory.pin)
    unpin = _blocking(AsyncMemory.unpin)
    undo = _blocking(AsyncMemory.undo)
    corrections = _blocking(AsyncMemory.corrections)
    stats = _blocking(AsyncMemory.stats)
    expiring = _blocking(AsyncMemory.expiring)
    expire = _blocking(AsyncMemory.expire)
    check = _blocking(AsyncMemory.check)
    backup = _blocking(AsyncMemory.backup)
    reembed = _blocking(AsyncMemory.reembed)
    history = _blocking(AsyncMemory.history)
    profile = _blocking(AsyncMemory.profile)
    about = _blocking(AsyncMemory.about)
    load = _blocking(AsyncMemory.load)
    log = _blocking(AsyncMemory.log)
    check_log = _blocking(AsyncMemory.check_log)

    def export(self, *, vectors: bool = False) -> Iterator[str]:
        lines = self.asynchronous.export(vectors=vectors)

        async def line() -> str | None:
            return await anext(lines, None)

        try:
            while (found := self._wait(line())) is not None:
                yield found
        finally:
            self._wait(lines.aclose())

    def close(self) -> None:
        if self._origin.here and not self._loop.is_closed():
            self._wait(self.asynchronous.close())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            self._origin.check()
            if self._loop.is_closed():
                raise StoreError("This memory is closed: open it again with justmem.open.")
        except StoreError:
            work.close()
            raise
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
