"""Forgets expired data at regular intervals."""

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
_JUMP = timedelta(hours=1)
_AHEAD = timedelta(days=31)


class ExpiryTask:
    """Expires by the server's clock, unless the clock looks wrong: it must not empty a memory.

    After a jump of the clock, one run is skipped. If the clock is more than a month ahead of the
    newest entry and of the last run, nothing is expired, and the log says what to do."""

    def __init__(self, spaces: Spaces, clock: Callable[[], datetime], seconds: float) -> None:
        self._spaces = spaces
        self._clock = clock
        self._seconds = seconds
        self._last: tuple[datetime, float] | None = None
        self._started = clock()
        self._trusted: datetime | None = None  # the latest plausible time

    async def run(self) -> None:
        """Runs until it is cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(self._seconds)

    async def look(self) -> None:
        now = self._clock()
        even = self._goes_evenly(now)
        try:
            names = await self._spaces.names()
        except JustMemError as error:
            log.warning("expired data cannot be searched: %s", error)
            return
        if self._trusted is None:
            found = [await self._in_space(space, self._newest) for space in names]
            self._trusted = max(filter(None, found), default=now)  # empty: nothing to lose
        if not even:
            return
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
        """The time of the last change log entry before the start. Without an entry it is the time
        of the latest session, which is less reliable because the client sets it."""
        number: int | None = None
        while entries := await memory.log(limit=100, before=number):
            for entry in reversed(entries):
                at = entry.at.astimezone().replace(tzinfo=None)
                if at < self._started:
                    return at
            number = entries[0].number
        earlier = [each.at for each in await memory.sessions() if each.at < self._started]
        return max(earlier, default=None)

    def _goes_evenly(self, now: datetime) -> bool:
        steady = asyncio.get_running_loop().time()
        last, self._last = self._last, (now, steady)
        if last is not None and abs(now - last[0] - timedelta(seconds=steady - last[1])) > _JUMP:
            log.warning("the clock has jumped: nothing is expired in this run")
            return False
        return True

    async def _in_space(self, space: str, work: Callable[[AsyncMemory], Awaitable[T]]) -> T | None:
        """The result, or None if the space cannot be used now."""
        try:
            async with self._spaces.use(space) as memory:
                return await work(memory)
        except NotInMemory:  # erased meanwhile
            return None
        except JustMemError as error:
            log.warning("expired data of a space cannot be forgotten now: %s", error)
            return None
