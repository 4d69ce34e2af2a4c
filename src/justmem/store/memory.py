"""Spaces in memory: for tests, and for whatever should leave no file."""

from __future__ import annotations

import asyncio
import sqlite3

from justmem.errors import NoSuchSpace
from justmem.store.sqlite import SqliteEngine
from justmem.store.sqlite_connection import prepare
from justmem.store.store import SqlStore


class MemoryStore(SqlStore):
    """Closing it leaves the space where it is: `MemoryStorage.close` ends it."""

    async def close(self) -> None:
        self._finder.clear()


class MemoryStorage:
    """Opens spaces by name. All openings of a name share one memory."""

    def __init__(self) -> None:
        self._engines: dict[str, SqliteEngine] = {}

    async def open(self, space: str, *, create: bool = True) -> MemoryStore:
        engine = self._engines.get(space)
        if engine is None or engine.closed:
            if not create:
                raise NoSuchSpace(f"There is no space {space!r} in memory.")
            engine = await asyncio.to_thread(_made, space)
            self._engines[space] = engine
        return MemoryStore(engine)

    async def spaces(self) -> list[str]:
        return sorted(name for name, engine in self._engines.items() if not engine.closed)

    async def close(self) -> None:
        for engine in self._engines.values():
            await engine.close()
        self._engines.clear()


def _made(space: str) -> SqliteEngine:
    db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    prepare(db, "the store in memory", space)
    return SqliteEngine(space, db)
