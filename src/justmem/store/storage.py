"""Where spaces are kept: a folder of SQLite files, or a PostgreSQL database."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from justmem.errors import InvalidSetting
from justmem.runtime.process import need
from justmem.runtime.validation import as_path

if TYPE_CHECKING:
    from justmem.ports import Store
    from justmem.store.files import Keyring


class Storage(Protocol):
    """Opens spaces by name; for many spaces in one process."""

    async def open(self, space: str, *, create: bool = True) -> Store: ...

    async def spaces(self) -> list[str]: ...

    async def close(self) -> None: ...


def storage(where: str | Path, keys: Keyring | None = None, *, either: bool = False) -> Storage:
    """`where`: a folder, or an address such as postgresql://user@host/database. `keys`: of the
    spaces in a folder. `either`: plain spaces open too."""
    if str(where).startswith(("postgresql://", "postgres://")):
        need("postgres")
        from justmem.store.postgres import PostgresStorage

        return PostgresStorage(str(where))
    if "://" in str(where):
        raise InvalidSetting(
            f"{str(where).partition('://')[0]}:// is not a supported store: write a folder, or "
            "postgresql://user@host/database."
        )
    from justmem.store.sqlite import Folder

    return Folder(as_path(where), keys, either=either)
