"""Forgets expired data every hour."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import TypeVar

from justmem.errors import JustMemError, NotInMemory
from justmem.memory import AsyncMemory
from justmem.spaces import Spaces

T = TypeVar("T")
log = logging.getLogger("justmem.server")
_SECONDS = 3600.0  # between two runs: ages are counted in days
_AHEAD = timedelta(days=31)


class ExpiryTask:
    """A wrong clock must not empty a memory. So nothing is expired if the clock is more than a
    month ahead of the last run and of the newest entry."""

    def __init__(self, spaces: Spaces, clock: Callable[[], datetime]) -> None:
        self._spaces = spaces
        self._clock = clock
        self._started = clock()
        self._trusted: datetime | None = None  # the latest plausible time

    async def run(self) -> None:
        """Runs until it is cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(_SECONDS)

    async def look(self) -> None:
        now = self._clock()
        try:
            names = await self._spaces.names()
        except JustMemError as error:
            log.warning("expired data cannot be searched: %s", error)
            return
        if self._trusted is None:
            found = [await self._in_space(space, self._newest) for space in names]
            self._trusted = max(filter(None, found), default=now)  # empty: nothing to lose
        if now - self._trusted > _AHEAD:
            log.warning(
                "nothing is expired: the clock is %d days ahead of the newest entry. If the clock "
                "is right, run `justmem expire` for each space and start the server again",
                (now - self._trusted).days,
            )
            return
        self._trusted = max(self._trusted, now)
        for space in names:
            gone = await self._in_space(space, lambda memory: memory.expire(at=now))
            if gone is not None and (gone.cards or gone.sessions):
                log.info("expired: %d sessions, %d cards", gone.sessions, gone.cards)

    async def _newest(self, memory: AsyncMemory) -> datetime | None:
        """The time of the last change before the server started. If the latest entries of the log
        are all newer, the time of the latest session, which the client sets."""
        changes = [entry.at.astimezone().replace(tzinfo=None) for entry in await memory.log()]
        sessions = [session.at for session in await memory.sessions()]
        for times in (changes, sessions):
            if earlier := [at for at in times if at < self._started]:
                return max(earlier)
        return None

    async def _in_space(self, space: str, work: Callable[[AsyncMemory], Awaitable[T]]) -> T | None:
        """The result, or None if the space cannot be used now."""
        try:
            async with self._spaces.use(space, create=False) as memory:
                return await work(memory)
        except NotInMemory:  # erased meanwhile
            return None
        except JustMemError as error:
            log.warning("expired data of a space cannot be forgotten now: %s", error)
            return None
