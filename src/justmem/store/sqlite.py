"""Spaces in SQLite: one file per space, plain or encrypted by SQLCipher.

One connection writes, a few read. Each is used by one thread at a time.
"""

from __future__ import annotations

import asyncio
import os
import queue
import sqlite3
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack, closing, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from pydantic import SecretStr

from justmem.errors import (
    InvalidFile,
    NoSuchSpace,
    NotForgotten,
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreLocked,
    StoreNotLocked,
)
from justmem.ports import Searched
from justmem.runtime import private_files
from justmem.store import erase, files
from justmem.store.check import RESTORE
from justmem.store.engine import Connection, Threads
from justmem.store.files import Keyring, RawFile, key_of
from justmem.store.sqlite_connection import (
    SqliteConnection,
    change_key,
    code,
    connect,
    errors,
    foreign,
    name_in,
    name_inside,
    prepare,
    transaction,
    translated,
)
from justmem.store.store import SqlStore

T = TypeVar("T")
READERS = 4
_ATTEMPTS = 40  # at opening a file that others make or replace at the same moment


class SqliteEngine:
    """See `Engine`. Without a path it is a database in memory."""

    def __init__(
        self,
        space: str,
        writer: sqlite3.Connection,
        path: Path | None = None,
        file: RawFile | None = None,
        patience: float = 5.0,
        key: SecretStr | None = None,
        keys: Keyring | None = None,
    ) -> None:
        self.space = space
        self.owner = ""
        self.path = path
        self.where = "the store in memory" if path is None else str(path)
        self._file, self._patience, self._key, self._keys = file, patience, key, keys
        self._writer = SqliteConnection(writer, space)
        self._idle: queue.SimpleQueue[SqliteConnection] = queue.SimpleQueue()
        self._write_thread = Threads("justmem-write", 1)
        self._read_threads = Threads("justmem-read", READERS)
        self.closed = False

    async def read(self, work: Callable[[Connection], T]) -> T:
        if self.path is None:
            return await self.write(work)
        return await self._run(self._read_threads, lambda: self._read(work))

    async def write(self, work: Callable[[Connection], T], *, once: bool = False) -> T:
        def job(db: SqliteConnection) -> T:
            with transaction(db.db, writes=True):
                return work(db)

        return await self._alone(job)

    async def _alone(self, work: Callable[[SqliteConnection], T]) -> T:
        """Runs with the writing connection, outside a transaction."""

        def job() -> T:
            with translated(self.where):
                self._check_still_there()
                return work(self._writer)

        return await self._run(self._write_thread, job)

    async def _run(self, threads: Threads, job: Callable[[], T]) -> T:
        if self.closed:
            raise StoreError(f"{self.where} is closed: open it again.")
        return await threads.run(job)

    def _read(self, work: Callable[[Connection], T]) -> T:
        with translated(self.where):
            self._check_still_there()
            try:
                db = self._idle.get_nowait()
            except queue.Empty:
                db = SqliteConnection(self._connect(), self.space)
                db.db.execute("PRAGMA query_only = ON")
            try:
                with transaction(db.db, writes=False):
                    return work(db)
            finally:
                self._idle.put(db)

    def _connect(self) -> sqlite3.Connection:
        assert self.path is not None
        return connect(self.path, self._patience, self._key)

    def _check_still_there(self) -> None:
        """Writes to a file that another process removed would be lost without an error, and reads
        would still see erased data."""
        if self.path and self._file and not self._file.is_at(self.path):
            raise StoreError(f"{self.path} was erased by another process: open the space again.")

    def is_dead(self, owner: str) -> bool:
        """Owners are processes of this machine: look for the process."""
        try:
            pid = int(owner.partition(".")[0])
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        except (ValueError, OSError):
            return False
        return False

    # ------------------------------------------------------------ forgetting

    async def sweep(self, *, thorough: bool = False) -> None:
        await self._alone(partial(_sweep, thorough=thorough))

    async def remains(self, pieces: Collection[bytes]) -> Searched:
        searched = Searched()
        if not self.closed:
            if found := await self._alone(foreign):
                raise NotForgotten(
                    f"It is forgotten, but there is no certificate: {self.where} contains objects "
                    f"that JustMem did not create and that may hold words ({', '.join(found)}). "
                    "Look at them, and remove them with DROP in SQLite."
                )
            await self.sweep(thorough=True)
            searched = await self._alone(lambda db: _in_tables(db, pieces))
        if self.path is None:
            return searched
        return searched + await asyncio.to_thread(erase.in_files, self.path, pieces, self._keys)

    async def erase(self) -> None:
        await self.close()
        if self.path is not None:
            await asyncio.to_thread(files.unlink, self.path)

    # ------------------------------------------------------------ the file

    async def size(self) -> int:
        pages = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
        return int((await self.read(lambda db: db.rows(pages)))[0][0])

    async def damage(self) -> Sequence[tuple[str, str]]:
        def look(db: Connection) -> list[tuple[str, str]]:
            assert isinstance(db, SqliteConnection)
            broken = [line for (line,) in db.rows("PRAGMA integrity_check(20)") if line != "ok"]
            if broken:
                return [(f"the file is damaged: {line}", RESTORE) for line in broken]
            fix = "see what it is, and remove it with DROP in SQLite"
            return [(f"the file holds {e} that JustMem did not make", fix) for e in foreign(db)]

        return await self.read(look)

    async def backup(self, target: Path) -> None:
        await self._run(self._read_threads, lambda: self._back_up(target))

    def _back_up(self, target: Path) -> None:
        """By SQLite's online backup. The file gets its name when it is complete."""
        with translated(self.where):
            self._check_still_there()
            try:
                with (
                    private_files.new(target) as file,
                    closing(self._connect()) as source,
                    closing(connect(file, self._patience, self._key)) as copy,
                ):
                    source.backup(copy)
            except FileExistsError:
                raise InvalidFile(f"{target} exists already: name a new file.") from None
            except OSError as error:
                raise InvalidFile(
                    f"{target} cannot be written ({error.strerror}): choose another file."
                ) from None

    async def close(self) -> None:
        if not self.closed:
            self.closed = True
            await asyncio.to_thread(self.close_files)

    def close_files(self) -> None:
        self._read_threads.close()
        self._write_thread.close()
        while not self._idle.empty():
            self._idle.get().db.close()
        self._writer.db.close()
        self._file = None  # last: see `files`


def _sweep(db: SqliteConnection, *, thorough: bool) -> None:
    """Rewrites the file without what was forgotten, and `thorough` also without what is left of
    replaced words. `secure_delete` blanks deleted rows, but when SQLite moves rows between pages
    it leaves copies in the gaps, which only VACUUM drops. The log holds earlier pages until it is
    copied back and cut."""
    ((unswept,),) = db.rows("SELECT unswept FROM spaces")
    if unswept or thorough:
        db.run("VACUUM")
        ((busy, _, _),) = db.rows("PRAGMA wal_checkpoint(TRUNCATE)")
        if busy:
            raise StoreBusy("Another process has been reading for long: try again in a moment.")
        db.run("UPDATE spaces SET unswept = 0")


def _in_tables(db: Connection, pieces: Collection[bytes]) -> Searched:
    names = [name for (name,) in db.rows("SELECT name FROM sqlite_master WHERE type = 'table'")]
    return erase.in_tables(((name, db.each(f'SELECT * FROM "{name}"')) for name in names), pieces)


# ---------------------------------------------------------------- opening


async def open_store(
    folder: Path,
    space: str,
    *,
    create: bool = True,
    patience: float = 5.0,
    keys: Keyring | None = None,
) -> SqlStore:
    """`patience`: seconds to wait for another process that writes, before StoreBusy. `keys`: the
    space is encrypted, with the key that they hold for it."""
    engine = await asyncio.to_thread(_open, Path(folder), space, create, patience, keys)
    with suppress(StoreBusy, StoreFull):  # the next opening tries again
        await engine.sweep()
    return SqlStore(engine)


def _open(
    folder: Path, space: str, create: bool, patience: float, keys: Keyring | None
) -> SqliteEngine:
    """Tries again if another process creates, erases or replaces the file at the same moment."""
    path = folder / files.file_name(space)
    for _ in range(_ATTEMPTS):
        if create:
            files.create_private(path)
        elif not files.exists(path):
            raise NoSuchSpace(f"There is no space {space!r} in {folder}.")
        with suppress(FileNotFoundError):
            file = files.raw(path)
            empty = file.kind == "new"
            try:
                engine = _opened(path, file, space, patience, keys)
                if file.is_at(path):
                    return engine
                engine.close_files()
            except (StoreDamaged, StoreLocked, StoreNotLocked):
                if file.is_at(path) and not (empty and file.size):
                    raise
        time.sleep(0.05)
    raise StoreBusy(f"{path} is being changed at this moment: try again.")


def _opened(
    path: Path, file: RawFile, space: str, patience: float, keys: Keyring | None
) -> SqliteEngine:
    with translated(str(path)), ExitStack() as undo:
        key = key_of(path, file, keys)
        db = undo.enter_context(closing(connect(path, patience, key)))
        prepare(db, str(path), space)
        undo.pop_all()
        return SqliteEngine(space, db, path, file, patience, key, keys)


_names: dict[str, str] = {}  # spaces by the names of their files, which hold a hash


def spaces(folder: Path, keys: Keyring | None = None) -> list[str]:
    """The names of the spaces in a folder. Those that only a key can tell are left out without
    it."""
    found: list[str] = []
    for path in Path(folder).glob("*" + files.SUFFIX):
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

    async def open(self, space: str, *, create: bool = True) -> SqlStore:
        path, keys = self.path / files.file_name(space), self._keys
        if self._either and not (files.exists(path) and files.raw(path).kind == "locked"):
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
    if not files.exists(path):
        raise NoSuchSpace(f"There is no space {space!r} in {folder}.")
    file = files.raw(path)
    given = new.find(path.stem)
    with (
        translated(str(path)),
        closing(connect(path, patience, key_of(path, file, old))) as db,
    ):
        if name_in(db) != space:
            raise StoreError(f"{path} holds the space {name_in(db)!r}, not {space!r}.")
        _exclude_others(db, path)
        if not file.is_at(path):
            raise StoreBusy(f"{path} was replaced at this moment: try again.")
        change_key(db, given)


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
