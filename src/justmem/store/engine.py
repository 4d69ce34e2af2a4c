"""What the store needs of a database, and where spaces are kept. `sqlite` and `postgres` provide
both."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from justmem.errors import InvalidSetting, StoreError
from justmem.ports import Author, Searched, Store
from justmem.runtime.process import Origin, need
from justmem.runtime.validation import as_path

if TYPE_CHECKING:
    from justmem.store.files import Keyring

T = TypeVar("T")
Row = tuple[Any, ...]
_AT_ONCE = 500  # values in one list
NOT_UNICODE = (
    "The session holds text that is not valid Unicode (a lone surrogate): "
    "decode it with errors='replace' and remember it again."
)


class Connection(Protocol):
    """Inside a transaction, in one thread. Parameters are written as `?`."""

    space: str
    author: Author | None  # of what is written; None: nothing is logged

    def rows(self, sql: str, *values: Any) -> list[Row]: ...

    def each(self, sql: str, *values: Any) -> Iterator[Row]:
        """The same, a few rows at a time."""
        ...

    def run(self, sql: str, *values: Any) -> int:
        """How many rows were changed."""
        ...

    def run_many(self, sql: str, rows: Sequence[Sequence[Any]], tail: str = "") -> None:
        """`sql` ends with VALUES: one row is inserted for each of `rows`."""
        ...

    def seconds(self) -> float:
        """Seconds, by the clock that all users of the database share."""
        ...


class Engine(Protocol):
    """The database of one space."""

    space: str
    closed: bool
    owner: str  # of all leases through this engine; empty: each store has an owner of its own

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Reads one snapshot of the space, in a thread."""
        ...

    async def write(self, work: Callable[[Connection], T], *, once: bool = False) -> T:
        """Runs one transaction in a thread, as the only writer of the space. A lost connection
        starts it again. `once`: it must not be applied twice."""
        ...

    def is_dead(self, owner: str) -> bool:
        """Whether the owner of a lease has certainly ended."""
        ...

    async def sweep(self, *, thorough: bool = False) -> None:
        """Removes the bytes of deleted rows, as far as that is cheap. `thorough`: all of them; an
        error if that fails."""
        ...

    async def remains(self, pieces: Collection[bytes]) -> Searched:
        """Sweeps thoroughly, then searches every table and file for the pieces."""
        ...

    async def erase(self) -> None:
        """Removes what is left of the space once its rows are deleted, and closes."""
        ...

    async def size(self) -> int:
        """Bytes on disk."""
        ...

    async def damage(self) -> Sequence[tuple[str, str]]:
        """What the engine itself finds wrong, and what to do about it."""
        ...

    async def backup(self, target: Path) -> None:
        """Writes the space to a new file while it is in use."""
        ...

    async def close(self) -> None: ...


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


class Threads:
    """Runs jobs in threads of their own."""

    def __init__(self, name: str, count: int) -> None:
        self._executor = ThreadPoolExecutor(count, name)
        self._origin = Origin()

    async def run(self, job: Callable[[], T]) -> T:
        self._origin.check()
        return await asyncio.get_running_loop().run_in_executor(self._executor, job)

    def close(self) -> None:
        self._executor.shutdown()


def check_name(space: str) -> None:
    if not space.strip() or "\0" in space:
        raise InvalidSetting("The name of a space is empty: give it a name such as 'alice'.")
    try:
        space.encode()
    except UnicodeEncodeError:
        raise InvalidSetting("The name of a space is not valid Unicode: choose another.") from None


def row(db: Connection, sql: str, *values: Any) -> Row | None:
    found = db.rows(sql, *values)
    return found[0] if found else None


def one(db: Connection, sql: str, *values: Any) -> Row:
    """A row that exists unless the space was erased."""
    found = row(db, sql, *values)
    if found is None:
        raise erased(db.space)
    return found


def erased(space: str) -> StoreError:
    return StoreError(f"The space {space!r} was erased by another process: open it again.")


def among(db: Connection, sql: str, ids: Sequence[Any], *values: Any) -> Iterator[Row]:
    """Rows of a query that ends with `IN`, for any number of ids."""
    distinct = list(dict.fromkeys(ids))
    for start in range(0, len(distinct), _AT_ONCE):
        some = distinct[start : start + _AT_ONCE]
        yield from db.rows(f"{sql} ({', '.join('?' * len(some))})", *values, *some)
