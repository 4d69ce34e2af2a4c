"""Cards made in the background: the caller does not wait, and errors go to a hook."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from justmem.domain import SessionState
from justmem.errors import ModelError, NotInMemory
from justmem.spaces.opened import OpenSpaces

OnError = Callable[[str, str, Exception], None]
log = logging.getLogger("justmem.spaces")


class Background:
    """Holds the names of sessions alone: their words are in the store."""

    def __init__(self, spaces: OpenSpaces, at_once: int, on_error: OnError | None) -> None:
        self._spaces = spaces
        self._on_error = on_error or _logged
        self._slots = asyncio.Semaphore(at_once)
        self._queued: set[tuple[str, str]] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def add(self, space: str, session_id: str) -> None:
        """A session that waits already is not added again: its newest text is read then."""
        if (space, session_id) in self._queued:
            return
        self._queued.add((space, session_id))
        task = asyncio.create_task(self._make(space, session_id))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def drain(self) -> None:
        while self._tasks:
            await asyncio.wait(list(self._tasks))

    async def _make(self, space: str, session_id: str) -> None:
        async with self._slots:
            self._queued.discard((space, session_id))
            try:
                async with self._spaces.use(space, create=False) as memory:
                    done = await memory.finish(session_id)
            except NotInMemory:
                return  # it was forgotten meanwhile
            except Exception as error:  # noqa: BLE001
                self._on_error(space, session_id, error)
                return
            if done.state is SessionState.FAILED:
                self._on_error(space, session_id, ModelError(done.reason))


def _logged(space: str, session_id: str, error: Exception) -> None:
    log.warning("no cards were made of a session: %s", error)
