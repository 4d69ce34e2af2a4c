"""SQLite connections: one that writes, a few that read, each used by one thread at a time."""

from __future__ import annotations

import asyncio
import os
import queue
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TypeVar

from justmem.errors import (
    InvalidSession,
    JustMemError,
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreFull,
)
from justmem.forks import Origin
from justmem.stores import drivers

T = TypeVar("T")
READERS = 4

# What reading back what we wrote ourselves can only raise if it is not what we wrote.
_UNREADABLE = (ValueError, TypeError, IndexError, KeyError, AttributeError)


def connect(path: Path, patience: float, lock: drivers.Lock | None = None) -> sqlite3.Connection:
    db = drivers.connect(path, patience, lock)
    # FULL: with NORMAL a power failure may take back the last commits, and a session whose
    # `remember` returned must not be lost. It is one more fsync of the log per commit, beside
    # a model call of seconds.
    db.execute("PRAGMA synchronous = FULL")
    # Always on, not just while forgetting: a page freed earlier would keep its words.
    db.execute("PRAGMA secure_delete = ON")
    db.execute("PRAGMA cache_size = -8000")  # KiB; a recall reads hundreds of pages
    db.execute("PRAGMA cell_size_check = ON")  # a damaged page is told from a sound one
    db.create_function("fold", 1, str.casefold, deterministic=True)
    return db


@contextmanager
def writing(db: sqlite3.Connection) -> Iterator[None]:
    """All or nothing. IMMEDIATE: a second writer waits here, before it has read anything. Inside
    another such block it is part of that one."""
    if db.in_transaction:
        yield
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


@contextmanager
def reading(db: sqlite3.Connection) -> Iterator[None]:
    """One moment of the store for all that is read within."""
    db.execute("BEGIN")
    try:
        yield
    finally:
        if db.in_transaction:
            db.execute("COMMIT")


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """SQLite's errors as ours."""
    try:
        yield
    except drivers.errors() as error:
        raise _named(error, path) from error
    except UnicodeEncodeError:
        raise InvalidSession(
            "The session holds text that is not valid Unicode (a lone surrogate): "
            "decode it with errors='replace' and remember it again."
        ) from None
    except _UNREADABLE as error:
        raise _damaged(path, error) from error


def _named(error: Exception, path: Path) -> JustMemError:
    match drivers.code(error):
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return StoreBusy(f"Another process is writing to {path}: try again in a moment.")
        case sqlite3.SQLITE_FULL:
            return StoreFull(
                f"There is no room left for {path}: free some space on its disk and try again."
            )
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return _damaged(path, error)
        case sqlite3.SQLITE_ERROR:  # in SQL that works with every file we made
            return _damaged(path, error)
        case None if "decode to UTF-8" in str(error):
            return _damaged(path, error)
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
            return StoreError(
                f"The store {path} cannot be opened for writing ({error}): "
                "correct the permissions of the file and its folder."
            )
    return StoreError(f"SQLite cannot work with {path} ({error}): check the disk and the file.")


def _damaged(path: Path, error: Exception) -> StoreDamaged:
    return StoreDamaged(
        f"{path} is not a readable store ({error}): restore it from a backup. `justmem doctor "
        "--deep` names what is damaged."
    )


class Connections:
    """Runs functions of a connection in threads, so that the event loop never waits for a disk."""

    def __init__(
        self,
        claim: drivers.Claim,
        patience: float,
        writer: sqlite3.Connection,
        lock: drivers.Lock | None,
    ) -> None:
        self.claim = claim
        self.lock = lock
        self._path = path = claim.path
        self._patience = patience
        self._writer = writer
        self._file = os.stat(path).st_ino
        self._idle: queue.SimpleQueue[sqlite3.Connection] = queue.SimpleQueue()
        self._write_thread = ThreadPoolExecutor(1, "justmem-write")
        self._read_threads = ThreadPoolExecutor(READERS, "justmem-read")
        self._closed = False
        self._origin = Origin()

    @property
    def closed(self) -> bool:
        return self._closed

    async def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return await self._run(self._write_thread, lambda: self._written(work))

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return await self._run(self._read_threads, lambda: self._read(work))

    async def _run(self, threads: ThreadPoolExecutor, job: Callable[[], T]) -> T:
        if self._closed:
            raise StoreError(f"The store {self._path} is closed: open it again.")
        self._origin.check()
        try:
            running = asyncio.get_running_loop().run_in_executor(threads, job)
        except RuntimeError as error:  # no more threads are taken on
            raise StoreError(
                f"The program ends, and {self._path} is still in use: close the memory first."
            ) from error
        return await running

    def _written(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with translated(self._path):
            self._check_still_there()
            return work(self._writer)

    def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with translated(self._path):
            self._check_still_there()
            try:
                db = self._idle.get_nowait()
            except queue.Empty:
                db = self._connect()
                db.execute("PRAGMA query_only = ON")
            try:
                with reading(db):
                    return work(db)
            finally:
                self._idle.put(db)

    async def aside(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """With a connection of its own, for work that is long or wants tables of its own."""
        return await self._run(self._read_threads, lambda: self._aside(work))

    def _aside(self, work: Callable[[sqlite3.Connection], T]) -> T:
        self._check_still_there()
        with translated(self._path), closing(self._connect()) as db:
            db.execute("PRAGMA temp_store = MEMORY")  # no words in files that nobody knows of
            with reading(db):
                return work(db)

    def _connect(self) -> sqlite3.Connection:
        return connect(self._path, self._patience, self.lock)

    def _check_still_there(self) -> None:
        """A write to a file that another process unlinked would vanish without an error, and a
        reader would still see what was erased."""
        try:
            there = os.stat(self._path).st_ino == self._file
        except FileNotFoundError:
            there = False
        if not there:
            raise StoreError(f"{self._path} was erased by another process: open the space again.")

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._read_threads.shutdown()
        self._write_thread.shutdown()
        while not self._idle.empty():
            self._idle.get().close()
        self._writer.close()
        self.claim.release()
