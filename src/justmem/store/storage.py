"""Where spaces are kept: a folder of SQLite files, or a PostgreSQL database."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from justmem.errors import InvalidSetting
from justmem.runtime.process import need
from justmem.runtime.validation import as_path

if TYPE_CHECKING:
    from justmem.ports import Store
    from justmem.store.files import Keyring

SCHEMES = ("postgresql://", "postgres://")


class Storage(Protocol):
    """Opens spaces by name; for many spaces in one process."""

    async def open(self, space: str, *, create: bool = True) -> Store: ...

    async def spaces(self) -> list[str]: ...

    async def close(self) -> None: ...


def is_address(where: str | Path) -> bool:
    return str(where).startswith(SCHEMES)


def storage(where: str | Path, keys: Keyring | None = None, *, either: bool = False) -> Storage:
    """`where`: a folder, or an address such as postgresql://user@host/database. `keys`: of the
    spaces in a folder. `either`: plain spaces open too."""
    if is_address(where):
        need("postgres")
        from justmem.store.postgres import PostgresStorage

        return PostgresStorage(str(where))
    if "://" in str(where):
        raise InvalidSetting(
            f"{str(where).partition('://')[0]}:// is not a supported store: write a folder, or "
            "postgresql://user@host/database."
        )
    return Folder(as_path(where), keys, either=either)


class Folder:
    def __init__(self, path: Path, keys: Keyring | None = None, *, either: bool = False) -> None:
        self.path = path
        self.keys = keys
        self._either = either

    async def open(self, space: str, *, create: bool = True) -> Store:
        from justmem.store.files import is_locked
        from justmem.store.sqlite import open_store

        keys = self.keys
        if self._either and not await asyncio.to_thread(is_locked, self.path, space):
            keys = None
        return await open_store(self.path, space, create=create, keys=keys)

    async def spaces(self) -> list[str]:
        from justmem.store.files import spaces

        return await asyncio.to_thread(spaces, self.path, self.keys)

    async def close(self) -> None:
        pass
