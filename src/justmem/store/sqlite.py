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
from justmem.store import drivers, erase, files
from justmem.store.check import RESTORE
from justmem.store.drivers import Claim
from justmem.store.engine import Connection, Threads
from justmem.store.files import Keyring, key_of
from justmem.store.sqlite_connection import (
    SqliteConnection,
    foreign,
    name_in,
    prepare,
    reading,
    translated,
    tune,
    writing,
)
from justmem.store.store import SqlStore

T = TypeVar("T")
READERS = 4
_ATTEMPTS = 40  # at opening a file that others make or replace at the same moment


class SqliteEngine:
    """See `Engine`. Without a claim it is a database in memory."""

    def __init__(
        self,
        space: str,
        writer: sqlite3.Connection,
        claim: Claim | None = None,
        patience: float = 5.0,
        key: SecretStr | None = None,
        keys: Keyring | None = None,
    ) -> None:
        self.space = space
        self.owner = ""
        self.key = key
        self._claim, self._patience, self._keys = claim, patience, keys
        self.path = None if claim is None else claim.path
        self.where = "the store in memory" if claim is None else str(claim.path)
        self._writer = SqliteConnection(writer, space)
        self._file = 0 if self.path is None else os.stat(self.path).st_ino
        self._idle: queue.SimpleQueue[SqliteConnection] = queue.SimpleQueue()
        self._write_thread = Threads("justmem-write", 1, self.where)
        self._read_threads = Threads("justmem-read", READERS, self.where)
        self.closed = False

    async def read(self, work: Callable[[Connection], T]) -> T:
        if self.path is None:
            return await self.write(work)
        return await self._run(self._read_threads, lambda: self._read(work))

    async def write(self, work: Callable[[Connection], T], *, once: bool = False) -> T:
        def job(db: SqliteConnection) -> T:
            with writing(db.db):
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
                with reading(db.db):
                    return work(db)
            finally:
                self._idle.put(db)

    def _connect(self) -> sqlite3.Connection:
        assert self.path is not None
        return tune(drivers.connect(self.path, self._patience, self.key))

    def _check_still_there(self) -> None:
        """Writes to a file that another process removed would be lost without an error, and reads
        would still see erased data."""
        if self.path is None:
            return
        try:
            there = os.stat(self.path).st_ino == self._file
        except FileNotFoundError:
            there = False
        if not there:
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
        if self.closed and self.path is not None:  # erased: only other files can be left
            return await asyncio.to_thread(
                erase.in_files, self.path, pieces, None, None, self._keys
            )
        if self.closed:
            return Searched()
        if found := await self._alone(foreign):
            raise NotForgotten(
                f"It is forgotten, but there is no certificate: {self.where} contains objects "
                f"that JustMem did not create and that may hold words ({', '.join(found)}). Look "
                "at them, and remove them with DROP in SQLite."
            )
        await self.sweep(thorough=True)
        searched = await self._alone(lambda db: in_tables(db.db, pieces))
        if self.path is None:
            return searched
        return searched + await asyncio.to_thread(
            erase.in_files,
            self.path,
            pieces,
            self._claim,
            self.key,
            self._keys,
        )

    async def erase(self) -> None:
        await self.close()
        if self.path is not None:
            await asyncio.to_thread(files.unlink, self.path)

    # ------------------------------------------------------------ the file

    async def size(self) -> int:
        if self.path is not None:
            return files.size(self.path)
        pages = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
        return int((await self._alone(lambda db: db.rows(pages)))[0][0])

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
                if target.exists():
                    raise FileExistsError
                with (
                    private_files.new(target) as file,
                    closing(self._connect()) as source,
                    closing(drivers.connect(file, self._patience, self.key)) as copy,
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
            await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._read_threads.close()
        self._write_thread.close()
        while not self._idle.empty():
            self._idle.get().db.close()
        self._writer.db.close()
        if self._claim is not None:
            self._claim.release()


def _sweep(db: SqliteConnection, *, thorough: bool) -> None:
    """Rewrites the file without what was forgotten, and `thorough` also without what is left of
    replaced words. `secure_delete` blanks deleted rows, but when SQLite moves rows between pages
    it leaves copies in the gaps, which only VACUUM drops. The log holds earlier pages until it is
    copied back and cut."""
    ((unswept, replaced),) = db.rows("SELECT unswept, replaced FROM spaces")
    if unswept or (thorough and replaced):
        db.run("VACUUM")
        ((busy, _, _),) = db.rows("PRAGMA wal_checkpoint(TRUNCATE)")
        if busy:
            raise StoreBusy("Another process has been reading for long: try again in a moment.")
        db.run("UPDATE spaces SET unswept = 0, replaced = 0")


def in_tables(db: sqlite3.Connection, pieces: Collection[bytes]) -> Searched:
    names = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    tables = ((name, iter(db.execute(f'SELECT * FROM "{name}"'))) for name in names)
    return erase.in_tables(tables, pieces)


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
    path = folder / files.file_name(space)
    for _ in range(_ATTEMPTS):
        if create:
            files.create_private(path)
        elif not files.exists(path):
            raise NoSuchSpace(f"There is no space {space!r} in {folder}.")
        with suppress(FileNotFoundError, drivers.Outrun):
            claim = drivers.claim(path)
            empty = claim.kind == "new"
            try:
                with translated(str(path)):
                    return _opened(claim, space, patience, keys)
            except (StoreDamaged, StoreLocked, StoreNotLocked):
                # Try again if the file was created or replaced meanwhile.
                drivers.check_current(claim)
                if not (empty and path.stat().st_size):
                    raise
        time.sleep(0.05)
    raise drivers.Outrun(path)


def _opened(claim: Claim, space: str, patience: float, keys: Keyring | None) -> SqliteEngine:
    path = claim.path
    with ExitStack() as undo:
        undo.callback(claim.release)
        key = key_of(claim, keys)
        db = drivers.connect(path, patience, key)
        undo.callback(db.close)
        if key is not None and claim.kind != "new":
            drivers.check(db, claim)
        tune(db)
        prepare(db, str(path), space)
        drivers.check_current(claim)
        claim.filled("plain" if key is None else "locked")
        undo.pop_all()
        return SqliteEngine(space, db, claim, patience, key, keys)


# ---------------------------------------------------------------- another key


def rekey(folder: Path, space: str, old: Keyring, new: Keyring, *, patience: float = 5.0) -> None:
    """Changes the key with SQLCipher's `rekey`, in one transaction. StoreBusy if anyone else has
    the space open."""
    path = Path(folder) / files.file_name(space)
    drivers.sqlcipher()
    try:
        claim = drivers.claim(path, alone=True)
    except FileNotFoundError:
        raise NoSuchSpace(f"There is no space {space!r} in {folder}.") from None
    except drivers.Outrun:
        raise StoreBusy(f"{path} is open in this process: close it, then change its key.") from None
    try:
        given = new.find(path.stem)
        with (
            translated(str(path)),
            closing(drivers.connect(path, patience, key_of(claim, old))) as db,
        ):
            drivers.check(db, claim)
            if name_in(db) != space:
                raise StoreError(f"{path} holds the space {name_in(db)!r}, not {space!r}.")
            _alone(db, claim)
            drivers.rekey(db, given)
    finally:
        claim.release()


def _alone(db: sqlite3.Connection, claim: Claim) -> None:
    """Leaves the write-ahead log, which needs exclusive access, and keeps the file locked until the
    connection is closed. Others wait."""
    db.execute("PRAGMA locking_mode = EXCLUSIVE")
    try:
        db.execute("PRAGMA journal_mode = DELETE")
        db.execute("BEGIN EXCLUSIVE")
        db.execute("COMMIT")
    except drivers.errors() as error:
        if drivers.code(error) != sqlite3.SQLITE_BUSY:
            raise
        raise StoreBusy(
            f"Another process has {claim.path} open: stop it (a server, an agent, another "
            "command), then change the key."
        ) from None
    drivers.check_current(claim)
