"""Opening spaces in SQLite: one file per space, plain or encrypted by SQLCipher."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from contextlib import ExitStack, closing, suppress
from pathlib import Path

from justmem.errors import (
    NoSuchSpace,
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreFull,
    StoreLocked,
    StoreNotLocked,
)
from justmem.store import drivers, files
from justmem.store.drivers import Claim, Lock
from justmem.store.keys import Keyring, unlocked
from justmem.store.sqlite_connection import connect, translated
from justmem.store.sqlite_engine import SqliteEngine
from justmem.store.sqlite_schema import name_in, prepare
from justmem.store.store import SqlStore

_ATTEMPTS = 40  # at opening a file that others make or replace at the same moment


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
    with suppress(StoreBusy, StoreFull):  # not worth failing for: the next opening will
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
                # A file that was made or replaced meanwhile is another one: look again.
                drivers.check_current(claim)
                if not (empty and path.stat().st_size):
                    raise
        time.sleep(0.05)
    raise drivers.Outrun(path)


def _opened(claim: Claim, space: str, patience: float, keys: Keyring | None) -> SqliteEngine:
    path = claim.path
    with ExitStack() as undo:
        undo.callback(claim.release)
        lock = unlocked(claim, keys, patience)
        db = connect(path, patience, lock)
        undo.callback(db.close)
        prepare(db, str(path), space)
        drivers.check_current(claim)
        claim.filled("plain" if lock is None else "locked")
        undo.pop_all()
        return SqliteEngine(space, db, claim, patience, lock, keys)


# ---------------------------------------------------------------- another key


def rekey(folder: Path, space: str, old: Keyring, new: Keyring, *, patience: float = 5.0) -> None:
    """By SQLCipher's own `rekey`, in one transaction: killed halfway, the old key opens the space.
    Nobody else may have it open: StoreBusy."""
    path = Path(folder) / files.file_name(space)
    drivers.sqlcipher()
    try:
        claim = drivers.claim(path, alone=True)
    except FileNotFoundError:
        raise NoSuchSpace(f"There is no space {space!r} in {folder}.") from None
    except drivers.Outrun:
        raise StoreBusy(f"{path} is open in this process: close it, then change its key.") from None
    try:
        given = Lock(new.find(path.stem), claim.salt)
        with (
            translated(str(path)),
            closing(drivers.connect(path, patience, unlocked(claim, old, patience))) as db,
        ):
            if name_in(db) != space:
                raise StoreError(f"{path} holds the space {name_in(db)!r}, not {space!r}.")
            _alone(db, claim)
            db.execute(f'PRAGMA rekey = "{given.phrase}"')
    finally:
        claim.release()


def _alone(db: sqlite3.Connection, claim: Claim) -> None:
    """Leaving the log takes having the file to oneself; the lock is then kept until the end, and
    whoever comes meanwhile waits."""
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
