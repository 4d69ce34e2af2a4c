"""Spaces in memory: for tests, and for whatever should leave no file."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Collection
from typing import TypeVar

from justmem.errors import NoSuchSpace, StoreError
from justmem.ports import Searched
from justmem.store.engine import Threads
from justmem.store.sqlite import SqliteStore, in_tables
from justmem.store.sqlite_connection import SqliteConnection, prepare, translated
from justmem.store.store import SqlStore

T = TypeVar("T")
_WHERE = "The store in memory"


class MemoryStore(SqliteStore):
    """Closing it leaves the space where it is: `MemoryStorage.close` ends it."""

    _patience, _key = 5.0, None  # of a backup

    def __init__(self, db: SqliteConnection, thread: Threads) -> None:
        SqlStore.__init__(self, db.space)
        self._db, self._thread = db, thread

    async def _connected(self, work: Callable[[SqliteConnection], T], *, writes: bool) -> T:
        def job() -> T:
            with translated(_WHERE):
                return work(self._db)

        if self.closed:
            raise StoreError(f"{_WHERE} is closed: open it again.")
        return await self._thread.run(job)

    async def exists(self) -> bool:
        return await SqlStore.exists(self)

    async def _search_bytes(self, pieces: Collection[bytes]) -> Searched:
        if self.closed:
            return Searched()
        await self._sweep(thorough=True)
        return await self._connected(lambda db: in_tables(db, pieces), writes=True)

    async def _erase(self) -> None:
        await SqlStore._erase(self)

    async def close(self) -> None:
        await SqlStore.close(self)


class MemoryStorage:
    """Opens spaces by name. All openings of a name share one memory."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[SqliteConnection, Threads]] = {}

    async def open(self, space: str, *, create: bool = True) -> MemoryStore:
        if space not in await self.spaces():
            if not create:
                raise NoSuchSpace(f"There is no space {space!r} in memory.")
            db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
            prepare(db, _WHERE, space)
            self._open[space] = SqliteConnection(db, space), Threads("justmem-memory", 1)
        return MemoryStore(*self._open[space])

    async def spaces(self) -> list[str]:
        """Without those that were erased."""
        return sorted(name for name, (db, _) in self._open.items() if db.select("1", "spaces"))

    async def close(self) -> None:
        for db, thread in self._open.values():
            await asyncio.to_thread(thread.close)
            db.db.close()
        self._open.clear()
