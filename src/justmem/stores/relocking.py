"""Changing the lock of a space: locking it, unlocking it, giving it another key.

The space is written anew beside the old file, compared, and put in its place at once: whenever the
process is killed, the space opens with exactly one of the two keys. The old bytes are blanked.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from pydantic import SecretStr

from justmem import private
from justmem.errors import NotInMemory, StoreBusy, StoreDamaged, StoreError
from justmem.stores import drivers, files, locks, schema
from justmem.stores.connections import translated
from justmem.stores.drivers import Claim, Lock
from justmem.stores.keyring import Keyring


def relock(
    folder: Path,
    space: str,
    old: Keyring | None,
    new: Keyring | None,
    *,
    patience: float = 5.0,
) -> bool:
    """None is no lock. False: it has the new lock already, as when an earlier run was killed
    after its work was done. Nobody else may have the space open: StoreBusy."""
    path = Path(folder) / files.file_name(space)
    drivers.sqlcipher()
    for keys in (old, new):
        if keys is not None:
            locks.finish_erasing(path, keys)
    try:
        claim = drivers.claim(path, alone=True)
    except FileNotFoundError:
        raise NotInMemory(f"There is no space {space!r} in {folder}.") from None
    except drivers.Outrun:
        raise StoreBusy(f"{path} is open in this process: close it, then change its key.") from None
    try:
        with translated(path):
            return _relock(claim, space, old, new, patience)
    finally:
        claim.release()


def _relock(
    claim: Claim, space: str, old: Keyring | None, new: Keyring | None, patience: float
) -> bool:
    stem = claim.path.stem
    changed = not _is_done(claim, old, new, patience)
    if changed:
        lock, key = locks.unlocked(claim, old, patience)
        with closing(drivers.connect(claim.path, patience, lock, cipher=True)) as db:
            _alone(db, claim)
            schema.check_space(db, claim.path, space)
            locks.tidy(claim.path, old, key)
            # Only now: whoever has the space open may take a key that waits for a leftover.
            given = None if new is None else new.stage(stem)
            _replace(db, claim, given)
            if new is not None and given is not None:
                new.settle(stem, given)
    if old is not None and old != new:
        old.destroy(stem)
    return changed


def _is_done(claim: Claim, old: Keyring | None, new: Keyring | None, patience: float) -> bool:
    """By a run that was killed afterwards. A fresh key in the same place is never done."""
    if new is None:
        return claim.kind == "plain"
    if old is None and claim.kind != "plain":
        locks.unlocked(claim, new, patience)
        return True
    if old != new:
        with suppress(StoreError):
            locks.unlocked(claim, new, patience)
            return True
    return False


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


def _replace(db: sqlite3.Connection, claim: Claim, key: SecretStr | None) -> None:
    path, beside = claim.path, files.relocked(claim.path)
    files.remove_relocked(path)
    files.create_private(beside)
    lock = None if key is None else Lock(key, os.urandom(drivers.SALT))
    try:
        with _attached(db, beside, lock):
            _copy(db, path)
        with beside.open("rb+") as written:
            os.fsync(written.fileno())
        if os.name == "nt":
            db.close()  # Windows does not replace an open file
        private.replace(beside, path)
    except OSError as error:
        raise StoreError(
            f"{path} could not be written anew ({error.strerror}), so nothing was changed: look "
            "at its disk and its folder."
        ) from None
    finally:
        files.remove_relocked(path)  # nothing, where it went well


@contextmanager
def _attached(db: sqlite3.Connection, beside: Path, lock: Lock | None) -> Iterator[None]:
    phrase = "" if lock is None else lock.phrase
    db.execute("ATTACH DATABASE ? AS beside KEY ?", (str(beside), phrase))
    try:
        # If it is killed, all of it is thrown away: it needs no log.
        db.execute("PRAGMA beside.journal_mode = OFF")
        db.execute("PRAGMA beside.synchronous = OFF")
        yield
    finally:
        db.execute("DETACH DATABASE beside")


def _copy(db: sqlite3.Connection, path: Path) -> None:
    db.execute("SELECT sqlcipher_export('beside')")
    for number in ("user_version", "application_id"):
        (value,) = db.execute(f"PRAGMA main.{number}").fetchone()
        db.execute(f"PRAGMA beside.{number} = {value}")
    if _counts(db, "main") != _counts(db, "beside") or not _sound(db, "beside"):
        raise StoreDamaged(
            f"{path} could not be copied whole, so nothing was changed: `justmem doctor` says more."
        )


def _counts(db: sqlite3.Connection, side: str) -> dict[str, int]:
    tables = db.execute(
        f"SELECT name FROM {side}.sqlite_master WHERE type = 'table' AND rootpage ORDER BY name"
    ).fetchall()
    count = 'SELECT count(*) FROM {}."{}"'
    return {name: db.execute(count.format(side, name)).fetchone()[0] for (name,) in tables}


def _sound(db: sqlite3.Connection, side: str) -> bool:
    return bool(db.execute(f"PRAGMA {side}.quick_check(1)").fetchone()[0] == "ok")
