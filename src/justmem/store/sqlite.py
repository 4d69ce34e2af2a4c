"""Spaces in SQLite: one file per space, plain or encrypted by SQLCipher.

One connection writes, a few read. Each is used by one thread at a time.
"""

from __future__ import annotations

import asyncio
import os
import queue
import sqlite3
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from pydantic import SecretStr

from justmem.errors import InvalidFile, NoSuchSpace, NotForgotten, StoreBusy, StoreError, StoreFull
from justmem.ports import Searched
from justmem.runtime import private_files
from justmem.store import erase, files
from justmem.store.check import RESTORE
from justmem.store.engine import Connection, Threads
from justmem.store.files import Keyring, RawFile, key_of
from justmem.store.sqlite_connection import (
    SqliteConnection,
    code,
    connect,
    errors,
    foreign,
    literal,
    name_in,
    name_inside,
    prepare,
    transaction,
    translated,
)
from justmem.store.store import SqlStore

T = TypeVar("T")
READERS = 4
_ATTEMPTS = 20  # at opening a file that others erase or replace at the same moment


class SqliteStore(SqlStore):
    path: Path

    def __init__(
        self,
        space: str,
        path: Path,
        file: RawFile,
        writer: sqlite3.Connection,
        patience: float,
        key: SecretStr | None,
        keys: Keyring | None,
    ) -> None:
        super().__init__(space)
        self.path = path
        self._file: RawFile | None = file
        self._patience, self._key, self._keys = patience, key, keys
        self._writer = SqliteConnection(writer, space)
        self._readers: queue.SimpleQueue[SqliteConnection] = queue.SimpleQueue()
        self._write_thread = Threads("justmem-write", 1)
        self._read_threads = Threads("justmem-read", READERS)

    async def _transaction(self, work: Callable[[Connection], T], *, writes: bool) -> T:
        def job(db: SqliteConnection) -> T:
            with transaction(db.db, writes=writes):
                return work(db)

        return await self._connected(job, writes=writes)

    async def _connected(self, work: Callable[[SqliteConnection], T], *, writes: bool) -> T:
        """Outside a transaction."""

        def job() -> T:
            with translated(str(self.path)):
                # Writes to a file that another process removed would be lost without an error, and
                # reads would still see erased data.
                if not (self._file and self._file.is_at(self.path)):
                    raise StoreError(
                        f"{self.path} was erased by another process: open the space again."
                    )
                if writes:
                    return work(self._writer)
                with self._reader() as db:
                    return work(db)

        if self.closed:
            raise StoreError(f"{self.path} is closed: open it again.")
        return await (self._write_thread if writes else self._read_threads).run(job)

    @contextmanager
    def _reader(self) -> Iterator[SqliteConnection]:
        try:
            db = self._readers.get_nowait()
        except queue.Empty:
            db = SqliteConnection(connect(self.path, self._patience, self._key), self.space)
            db.db.execute("PRAGMA query_only = ON")
        try:
            yield db
        finally:
            self._readers.put(db)

    def _is_dead(self, owner: str) -> bool:
        """Owners are processes of this machine: look for the process."""
        try:
            os.kill(int(owner.partition(".")[0]), 0)
        except ProcessLookupError:
            return True
        except (ValueError, OSError):
            return False
        return False

    # ------------------------------------------------------------ forgetting

    async def _sweep(self, *, thorough: bool = False) -> None:
        await self._connected(lambda db: sweep(db, thorough=thorough), writes=True)

    async def _search_bytes(self, pieces: Collection[bytes]) -> Searched:
        searched = Searched()
        if not self.closed:
            if found := await self._connected(foreign, writes=True):
                listed = "; ".join(f"{each}: {fix}" for each, fix in found)
                raise NotForgotten(
                    f"It is forgotten, but there is no certificate: {self.path} contains objects "
                    f"that JustMem did not make like this and that may hold words. {listed}."
                )
            await self._sweep(thorough=True)
            searched = await self._connected(lambda db: in_tables(db, pieces), writes=True)

        def search() -> Searched:
            with translated(str(self.path)):
                return erase.in_files(self.path, pieces, self._keys)

        return searched + await asyncio.to_thread(search)

    async def _erase(self) -> None:
        await self.close()

        def unlink() -> None:
            with translated(str(self.path)):
                files.unlink(self.path)

        await asyncio.to_thread(unlink)

    # ------------------------------------------------------------ the file

    async def exists(self) -> bool:
        return self._file is not None and self._file.is_at(self.path)

    async def _size(self) -> int:
        return await self._connected(size, writes=False)

    async def _damage(self) -> Sequence[tuple[str, str]]:
        return await self._connected(damage, writes=False)

    async def backup(self, target: Path) -> None:
        """By SQLite's online backup. The file gets its name when it is complete."""

        def copy(source: SqliteConnection) -> None:
            try:
                with (
                    private_files.new(target) as file,
                    closing(connect(file, self._patience, self._key)) as db,
                ):
                    source.db.backup(db)
            except FileExistsError:
                raise InvalidFile(f"{target} exists already: name a new file.") from None
            except OSError as error:
                raise InvalidFile(
                    f"{target} cannot be written ({error.strerror}): choose another file."
                ) from None

        await self._connected(copy, writes=False)

    async def close(self) -> None:
        if not self.closed:
            await super().close()
            await asyncio.to_thread(self.close_files)

    def close_files(self) -> None:
        self._read_threads.close()
        self._write_thread.close()
        while not self._readers.empty():
            self._readers.get().db.close()
        self._writer.db.close()
        self._file = None  # last: see `files`


def sweep(db: SqliteConnection, *, thorough: bool) -> None:
    """Rewrites the file without what was forgotten. `secure_delete` blanks deleted rows, but when
    SQLite moves rows between pages it leaves copies in the gaps, which only VACUUM drops. The log
    holds earlier pages until it is copied back and cut."""
    if thorough or db.head("unswept") != (0,):
        db.run("VACUUM")
        ((busy, _, _),) = db.rows("PRAGMA wal_checkpoint(TRUNCATE)")
        if busy:
            raise StoreBusy("Another process has been reading for long: try again in a moment.")
        db.update("spaces", {"unswept": 0})


def in_tables(db: Connection, pieces: Collection[bytes]) -> Searched:
    names = [name for (name,) in db.rows("SELECT name FROM sqlite_master WHERE type = 'table'")]
    return erase.in_tables(((name, db.each(f'SELECT * FROM "{name}"')) for name in names), pieces)


def size(db: Connection) -> int:
    pages = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
    return int(db.rows(pages)[0][0])


def damage(db: Connection) -> list[tuple[str, str]]:
    broken = [line for (line,) in db.rows("PRAGMA integrity_check(20)") if line != "ok"]
    if broken:
        return [(f"the file is damaged: {line}", RESTORE) for line in broken]
    return [
        (f"the file holds {each} that JustMem did not make like this", fix)
        for each, fix in foreign(db)
    ]


# ---------------------------------------------------------------- opening


async def open_store(
    folder: Path,
    space: str,
    *,
    create: bool = True,
    patience: float = 5.0,
    keys: Keyring | None = None,
) -> SqliteStore:
    """`patience`: seconds to wait for another process that writes, before StoreBusy. `keys`: the
    space is encrypted, with the key that they hold for it."""

    def job() -> SqliteStore:
        path = Path(folder) / files.file_name(space)
        with translated(str(path)):
            return _open(path, space, create, patience, keys)

    store = await asyncio.to_thread(job)
    with suppress(StoreBusy, StoreFull):  # the next opening tries again
        await store._sweep()
    return store


def _open(
    path: Path, space: str, create: bool, patience: float, keys: Keyring | None
) -> SqliteStore:
    """Tries again if another process erases or replaces the file at the same moment."""
    for _ in range(_ATTEMPTS):
        if not path.exists():
            if not create:
                raise NoSuchSpace(f"There is no space {space!r} in {path.parent}.")
            _create(path, space, patience, keys)
        with suppress(FileNotFoundError), ExitStack() as undo:
            file = files.raw(path)
            key = key_of(path, file, keys)
            db = undo.enter_context(closing(connect(path, patience, key)))
            prepare(db, str(path), space)
            if file.is_at(path):
                undo.pop_all()
                return SqliteStore(space, path, file, db, patience, key, keys)
    raise StoreBusy(f"{path} is being changed at this moment: try again.")


def _create(path: Path, space: str, patience: float, keys: Keyring | None) -> None:
    """The file gets its name when it is complete, so that no one opens half of it. SQLite gives its
    side files the same permissions."""
    key = None if keys is None else keys.find(path.stem)
    private_files.folder(path.parent)
    with (
        suppress(FileExistsError),  # another process made it
        private_files.new(path) as file,
        closing(connect(file, patience, key)) as db,
    ):
        db.execute(f"PRAGMA page_size = {files.PAGE}")
        db.execute("PRAGMA journal_mode = WAL")  # readers do not wait for a writer
        prepare(db, str(path), space)


_names: dict[str, str] = {}  # spaces by the names of their files, which hold a hash


def spaces(folder: Path, keys: Keyring | None = None) -> list[str]:
    """The names of the spaces in a folder. Those that only a key can tell are left out without
    it."""
    found: list[str] = []
    for path in Path(folder).glob("[!.]*" + files.SUFFIX):
        if files.is_plain(path.stem):
            found.append(path.stem)
            continue
        if path.name not in _names:
            with suppress(StoreError):
                name = name_inside(path, keys)
                if name is not None and files.file_name(name) == path.name:
                    _names[path.name] = name
        if path.name in _names:
            found.append(_names[path.name])
    return sorted(found)


class Folder:
    """All spaces of a folder. `either`: plain spaces open too if there are keys."""

    def __init__(self, path: Path, keys: Keyring | None = None, *, either: bool = False) -> None:
        self.path = path
        self._keys = keys
        self._either = either

    async def open(self, space: str, *, create: bool = True) -> SqliteStore:
        path, keys = self.path / files.file_name(space), self._keys
        if self._either and not (path.exists() and files.raw(path).kind == "locked"):
            keys = None
        return await open_store(self.path, space, create=create, keys=keys)

    async def spaces(self) -> list[str]:
        return await asyncio.to_thread(spaces, self.path, self._keys)

    async def close(self) -> None:
        pass


# ---------------------------------------------------------------- another key


def rekey(folder: Path, space: str, old: Keyring, new: Keyring, *, patience: float = 5.0) -> None:
    """Changes the key with SQLCipher's `rekey`, in one transaction. StoreBusy if anyone else has
    the space open."""
    path = Path(folder) / files.file_name(space)
    if not path.exists():
        raise NoSuchSpace(f"There is no space {space!r} in {folder}.")
    file = files.raw(path)
    given = new.find(path.stem)
    with translated(str(path)), closing(connect(path, patience, key_of(path, file, old))) as db:
        if name_in(db) != space:
            raise StoreError(f"{path} holds the space {name_in(db)!r}, not {space!r}.")
        _exclude_others(db, path)
        if not file.is_at(path):
            raise StoreBusy(f"{path} was replaced at this moment: try again.")
        db.execute(f"PRAGMA rekey = {literal(given)}")
        db.execute("PRAGMA journal_mode = WAL")


def _exclude_others(db: sqlite3.Connection, path: Path) -> None:
    """Leaves the write-ahead log, which needs exclusive access, and keeps the file locked until the
    connection is closed. Others wait."""
    db.execute("PRAGMA locking_mode = EXCLUSIVE")
    try:
        db.execute("PRAGMA journal_mode = DELETE")
        db.execute("BEGIN EXCLUSIVE")
        db.execute("COMMIT")
    except errors() as error:
        if code(error) != sqlite3.SQLITE_BUSY:
            raise
        raise StoreBusy(
            f"{path} is open elsewhere: stop what uses it (a server, an agent, another command), "
            "then change the key."
        ) from None
