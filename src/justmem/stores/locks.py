"""Encrypted spaces: does the key fit, and giving a space another key."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from justmem.errors import NotInMemory, StoreBusy, StoreError, StoreLocked, StoreNotLocked
from justmem.stores import drivers, files, schema
from justmem.stores.connections import translated
from justmem.stores.drivers import Claim, Lock
from justmem.stores.keyring import Keyring


def unlocked(claim: Claim, keys: Keyring | None, patience: float) -> Lock | None:
    """The lock of the file, which fits; None for a plain one."""
    path = claim.path
    if keys is None:
        if claim.kind == "locked":
            raise StoreLocked(
                f"{path} is locked: set its key with key_file or the environment variable "
                "JUSTMEM_KEY."
            )
        return None
    if claim.kind == "plain":
        raise StoreNotLocked(
            f"{path} is not locked, though a key is set: make a locked copy with `justmem copy`, "
            "or take the key out of the settings."
        )
    lock = Lock(keys.find(path.stem), claim.salt)
    if claim.kind != "new":
        with closing(drivers.connect(path, patience, lock)) as db:
            drivers.check(db, claim)
    return lock


_names: dict[str, str] = {}  # by the name of the file, which holds a hash of the space's


def name_in(claim: Claim, keys: Keyring) -> str | None:
    """The name of a locked space that its file's name does not say; None where no key opens it."""
    file = claim.path.name
    if file not in _names:
        try:
            lock = unlocked(claim, keys, 1.0)
            with (
                translated(claim.path),
                closing(drivers.connect(claim.path, 1.0, lock)) as db,
            ):
                (name,) = db.execute("SELECT name FROM space").fetchone()
        except StoreError:
            return None
        _names[file] = str(name)
    return _names[file]


def is_locked(folder: Path, space: str) -> bool:
    try:
        return drivers.is_locked(folder / files.file_name(space))
    except FileNotFoundError:
        return False


# ---------------------------------------------------------------- another key


def rekey(folder: Path, space: str, old: Keyring, new: Keyring, *, patience: float = 5.0) -> None:
    """By SQLCipher's own `rekey`, in one transaction: killed halfway, the old key opens the space.
    Nobody else may have it open: StoreBusy."""
    path = Path(folder) / files.file_name(space)
    drivers.sqlcipher()
    try:
        claim = drivers.claim(path, alone=True)
    except FileNotFoundError:
        raise NotInMemory(f"There is no space {space!r} in {folder}.") from None
    except drivers.Outrun:
        raise StoreBusy(f"{path} is open in this process: close it, then change its key.") from None
    try:
        given = Lock(new.find(path.stem), claim.salt)
        with (
            translated(path),
            closing(drivers.connect(path, patience, unlocked(claim, old, patience))) as db,
        ):
            schema.check_space(db, path, space)
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
