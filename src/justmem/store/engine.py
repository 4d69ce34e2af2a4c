"""What the operations need of a database: a connection inside a transaction. And where spaces are
kept: `sqlite` and `postgres` provide both."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from justmem.errors import InvalidSession, InvalidSetting, StoreDamaged, StoreError
from justmem.ports import Author, Store
from justmem.runtime.process import Origin, need
from justmem.runtime.validation import as_path, describe

if TYPE_CHECKING:
    from justmem.store.files import Keyring

T = TypeVar("T")
Row = tuple[Any, ...]
_AT_ONCE = 500  # values in one list


class Connection(ABC):
    """Inside a transaction of one space, in one thread."""

    def __init__(self, space: str) -> None:
        self.space = space
        self.author: Author | None = None  # of what is written; None: nothing is logged

    @abstractmethod
    def rows(self, sql: str, *values: Any) -> list[Row]:
        """Values are written as `?`."""

    @abstractmethod
    def each(self, sql: str, *values: Any) -> Iterator[Row]:
        """The same, a few rows at a time."""

    @abstractmethod
    def run(self, sql: str, *values: Any) -> int:
        """How many rows were changed."""

    @abstractmethod
    def run_many(self, sql: str, rows: Sequence[Sequence[Any]], tail: str = "") -> None:
        """`sql` ends with VALUES: one row is inserted for each of `rows`."""

    @abstractmethod
    def seconds(self) -> float:
        """Seconds, by the clock that all users of the database share."""

    # ------------------------------------------------------------ statements about this space

    def select(self, columns: str, table: str, tail: str = "", **where: Any) -> list[Row]:
        """Rows with these values. `tail`: more conditions, or an order."""
        sql = f"SELECT {columns} FROM {table} {_where(where)} {tail}"
        return self.rows(sql, self.space, *where.values())

    def first(self, columns: str, table: str, tail: str = "", **where: Any) -> Row | None:
        return next(iter(self.select(columns, table, tail, **where)), None)

    def head(self, columns: str) -> Row:
        """Of the row of the space, which exists unless the space was erased."""
        found = self.first(columns, "spaces")
        if found is None:
            raise erased(self.space)
        return found

    def among(self, columns: str, table: str, column: str, values: Iterable[Any]) -> Iterator[Row]:
        """Rows with any of these values in the column. Any number of values."""
        sql = f"SELECT {columns} FROM {table} WHERE space = ? AND {column}"
        return self.rows_in(sql, [self.space], values)

    def rows_in(self, sql: str, before: Sequence[Any], values: Iterable[Any]) -> Iterator[Row]:
        """Rows with any of these values in the column that `sql` ends with. `before`: the values
        that come earlier in it."""
        distinct = list(dict.fromkeys(values))
        for start in range(0, len(distinct), _AT_ONCE):
            some = distinct[start : start + _AT_ONCE]
            yield from self.rows(f"{sql} IN ({', '.join('?' * len(some))})", *before, *some)

    def insert(
        self, table: str, columns: str, rows: Iterable[Sequence[Any]], tail: str = ""
    ) -> None:
        all = [(self.space, *row) for row in rows]
        self.run_many(f"INSERT INTO {table} (space, {columns}) VALUES", all, tail)

    def update(self, table: str, values: Mapping[str, Any], **where: Any) -> int:
        changes = ", ".join(f"{column} = ?" for column in values)
        sql = f"UPDATE {table} SET {changes} {_where(where)}"
        return self.run(sql, *values.values(), self.space, *where.values())

    def delete(self, table: str, **where: Any) -> int:
        return self.run(f"DELETE FROM {table} {_where(where)}", self.space, *where.values())


def _where(where: Mapping[str, Any]) -> str:
    return " AND ".join(["WHERE space = ?", *(f"{column} = ?" for column in where)])


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


# ---------------------------------------------------------------- errors


@contextmanager
def values_checked(where: str) -> Iterator[None]:
    """Stored rows that cannot be read were damaged."""
    try:
        yield
    except UnicodeEncodeError:
        raise InvalidSession(
            "The session holds text that is not valid Unicode (a lone surrogate): "
            "decode it with errors='replace' and remember it again."
        ) from None
    except (ValueError, TypeError, IndexError, KeyError, AttributeError, OverflowError) as error:
        raise damaged(where, error) from error


def damaged(where: str, error: Exception) -> StoreDamaged:
    return StoreDamaged(
        f"{where} cannot be read ({error}): restore it from a backup, or export what can "
        "still be read and import it into a new space."
    )


def erased(space: str) -> StoreError:
    return StoreError(f"The space {space!r} was erased by another process: open it again.")


def check_name(space: str) -> None:
    if not space.strip():
        raise InvalidSetting("The name of a space is empty: give it a name such as 'alice'.")
    if "\0" in space:
        raise InvalidSetting(
            f"The name of a space cannot hold a NUL character: {describe(space)}. Choose another."
        )
    try:
        space.encode()
    except UnicodeEncodeError:
        raise InvalidSetting("The name of a space is not valid Unicode: choose another.") from None
