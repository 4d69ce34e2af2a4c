"""What the server does by itself now and then: forgetting what is too old."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime, timedelta

from justmem.errors import JustMemError, NotInMemory
from justmem.server.spaces import Spaces

log = logging.getLogger("justmem.server")
_JUMP = timedelta(hours=1)


class Upkeep:
    """By the server's clock. One that has jumped since the last time is not believed until it
    goes evenly again: a wrong year must not empty a memory."""

    def __init__(self, spaces: Spaces, clock: Callable[[], datetime], seconds: float) -> None:
        self._spaces = spaces
        self._clock = clock
        self._seconds = seconds
        self._last: tuple[datetime, float] | None = None

    async def run(self) -> None:
        """To be run beside everything else."""
        while True:
            if (now := self._believed()) is not None:
                for space in await self._names():
                    await self._expire(space, now)
            await asyncio.sleep(self._seconds)

    def _believed(self) -> datetime | None:
        now, steady = self._clock(), asyncio.get_running_loop().time()
        last, self._last = self._last, (now, steady)
        if last is not None and abs(now - last[0] - timedelta(seconds=steady - last[1])) > _JUMP:
            log.warning("the clock has jumped: nothing is expired until it goes evenly again")
            return None
        return now

    async def _names(self) -> list[str]:
        try:
            return await self._spaces.names()
        except JustMemError as error:
            log.warning("spaces cannot be looked at for what is too old: %s", error)
            return []

    async def _expire(self, space: str, now: datetime) -> None:
        try:
            async with self._spaces.use(space) as memory:
                gone = await memory.expire(at=now)
        except NotInMemory:  # erased meanwhile
            return
        except JustMemError as error:
            log.warning("what is too old in a space stays for now: %s", error)
            return
        if gone.cards or gone.sessions:
            log.info("expired: %d sessions, %d cards", gone.sessions, gone.cards)
