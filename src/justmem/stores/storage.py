"""Where spaces are kept: a folder of SQLite files, or a PostgreSQL database."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from justmem.errors import InvalidSetting
from justmem.extras import need
from justmem.inputs import as_path
from justmem.ports import CopyableStore, Store

if TYPE_CHECKING:
    from justmem.stores.folder import Known
    from justmem.stores.keyring import Keyring
    from justmem.stores.pg.database import Database

SCHEMES = ("postgresql://", "postgres://")


class Storage(Protocol):
    """Opens spaces by name; for many spaces in one process."""

    async def open(self, space: str, *, create: bool = True) -> Store: ...

    async def open_copy(self, space: str, *, create: bool = True) -> CopyableStore:
        """The same, with what copying needs besides."""
        ...

    async def spaces(self, wanted: Collection[str] = ("*",)) -> list[str]:
        """At least those that are wanted, by names in which a * stands for any characters."""
        ...

    async def close(self) -> None: ...


def is_address(where: str | Path) -> bool:
    return str(where).startswith(SCHEMES)


def storage(where: str | Path, keys: Keyring | None = None, *, either: bool = False) -> Storage:
    """A folder's path, or an address such as postgresql://user@host/database. `keys` are for the
    spaces of a folder; with `either`, those that are not locked open too."""
    if is_address(where):
        return PostgresStorage(str(where))
    if "://" in str(where):
        raise InvalidSetting(
            f"{str(where).partition('://')[0]}:// is no kind of store: write a folder, or "
            "postgresql://user@host/database."
        )
    return Folder(as_path(where), keys, either=either)


class Folder:
    def __init__(self, path: Path, keys: Keyring | None = None, *, either: bool = False) -> None:
        self.path = path
        self.keys = keys
        self._either = either
        self._known: Known = {}

    async def open(self, space: str, *, create: bool = True) -> Store:
        from justmem.stores.opening import open_store

        return await open_store(self.path, space, create=create, keys=self.keys)

    async def open_copy(self, space: str, *, create: bool = True) -> CopyableStore:
        from justmem.stores.locks import is_locked
        from justmem.stores.opening import open_store
        from justmem.stores.whole import SqliteCopy

        keys = self.keys
        if self._either and not await asyncio.to_thread(is_locked, self.path, space):
            keys = None
        return SqliteCopy(await open_store(self.path, space, create=create, keys=keys))

    async def spaces(self, wanted: Collection[str] = ("*",)) -> list[str]:
        from justmem.stores.folder import spaces

        look = partial(spaces, self.path, self.keys, wanted=wanted, known=self._known)
        return await asyncio.to_thread(look)

    async def close(self) -> None:
        pass


class PostgresStorage:
    """One pool of connections for all spaces. Belongs to the event loop that first uses it."""

    def __init__(self, url: str, *, size: int = 8) -> None:
        need("postgres")
        self.url = url
        self._size = size
        self._database: Database | None = None
        self._opening = asyncio.Lock()

    async def database(self) -> Database:
        """Ready to use: migrated, and new enough."""
        async with self._opening:
            if self._database is None:
                self._database = await prepared(self.url, size=self._size)
            return self._database

    async def open(self, space: str, *, create: bool = True) -> Store:
        from justmem.stores.postgres import open_in

        return await open_in(await self.database(), space, create=create)

    async def open_copy(self, space: str, *, create: bool = True) -> CopyableStore:
        from justmem.stores.pg.whole import PostgresCopy
        from justmem.stores.postgres import open_in

        return PostgresCopy(await open_in(await self.database(), space, create=create))

    async def spaces(self, wanted: Collection[str] = ("*",)) -> list[str]:
        from justmem.stores.postgres import spaces

        return await spaces(await self.database())

    async def close(self) -> None:
        if self._database is not None:
            await self._database.close()


async def open_postgres(url: str, space: str, *, create: bool = True) -> Store:
    """One space, with connections of its own that open in the event loop that first uses them."""
    database = await prepared(url)
    from justmem.stores.postgres import open_in

    return await open_in(database, space, create=create, close=True)


async def prepared(url: str, *, size: int = 8) -> Database:
    need("postgres")
    from justmem.stores.pg import schema
    from justmem.stores.pg.database import Database

    database = Database(url, size=size)
    await schema.prepare(database)
    return database
