"""Opens a space's file, whoever else makes, replaces or erases it at the same moment."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from contextlib import ExitStack, suppress
from pathlib import Path

from justmem.errors import (
    NotInMemory,
    StoreBusy,
    StoreDamaged,
    StoreFull,
    StoreLocked,
    StoreNotLocked,
)
from justmem.stores import drivers, files, forgetting, locks, schema
from justmem.stores.connections import Connections, connect, translated
from justmem.stores.keyring import Keyring
from justmem.stores.sqlite import SqliteStore

_ATTEMPTS = 40  # at opening a file that others make or replace at the same moment


async def open_store(
    folder: Path,
    space: str,
    *,
    create: bool = True,
    patience: float = 5.0,
    keys: Keyring | None = None,
) -> SqliteStore:
    """`patience`: seconds to wait for another process that writes, before StoreBusy. `keys`: the
    space is locked, with the key that they hold for it."""
    return await asyncio.to_thread(_open, Path(folder), space, create, patience, keys)


def _open(
    folder: Path, space: str, create: bool, patience: float, keys: Keyring | None
) -> SqliteStore:
    path = folder / files.file_name(space)
    for _ in range(_ATTEMPTS):
        if create:
            files.create_private(path)
        elif not files.exists(path):
            raise NotInMemory(f"There is no space {space!r} in {folder}.")
        with suppress(FileNotFoundError, drivers.Outrun):
            claim = drivers.claim(path)
            empty = claim.kind == "new"
            try:
                with translated(path):
                    return _opened(claim, space, patience, keys)
            except (StoreDamaged, StoreLocked, StoreNotLocked):
                # A file that was made or replaced meanwhile is another one: look again.
                drivers.check_current(claim)
                if not (empty and path.stat().st_size):
                    raise
        time.sleep(0.05)
    raise drivers.Outrun(path)


def _opened(claim: drivers.Claim, space: str, patience: float, keys: Keyring | None) -> SqliteStore:
    path = claim.path
    with ExitStack() as undo:
        undo.callback(claim.release)
        lock = locks.unlocked(claim, keys, patience)
        db = connect(path, patience, lock)
        undo.callback(db.close)
        if lock is not None:
            drivers.check(db, claim)
        schema.prepare(db, path, space)
        # From here on nobody replaces the file: that takes having it alone.
        drivers.check_current(claim)
        claim.filled("plain" if lock is None else "locked")
        _finish_forgetting(db, path)
        undo.pop_all()
        return SqliteStore(space, path, Connections(claim, patience, db, lock), keys)


def _finish_forgetting(db: sqlite3.Connection, path: Path) -> None:
    """What an interrupted `forget` left to do; not worth failing for, the next opening will."""
    with suppress(StoreBusy, StoreFull), translated(path):
        forgetting.sweep(db)
