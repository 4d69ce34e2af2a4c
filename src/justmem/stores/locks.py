"""Opening a space that may be locked: does a key fit, and what a kill left half done."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from pydantic import SecretStr

from justmem.errors import StoreError, StoreLocked, StoreNotLocked, WrongKey
from justmem.stores import drivers, files
from justmem.stores.connections import translated
from justmem.stores.drivers import Claim, Lock
from justmem.stores.keyring import Keyring


def unlocked(
    claim: Claim, keys: Keyring | None, patience: float
) -> tuple[Lock | None, SecretStr | None]:
    """The lock of the file and the key it is made of; neither for a plain one."""
    path, stem = claim.path, claim.path.stem
    if keys is None:
        if claim.kind == "locked":
            raise StoreLocked(
                f"{path} is locked: set its key with key_file, key_folder, key_command or the "
                "environment variable JUSTMEM_KEY."
            )
        return None, None
    if claim.kind == "plain":
        raise StoreNotLocked(
            f"{path} is not locked, though a key is set: lock it with `justmem lock`, or take the "
            "key out of the settings."
        )
    if claim.kind == "new":
        key = keys.make(stem)
        return Lock(key, claim.salt), key
    return _fitting(claim, keys, patience)


def _fitting(claim: Claim, keys: Keyring, patience: float) -> tuple[Lock, SecretStr]:
    path = claim.path
    found = keys.find(path.stem)
    if not found:
        raise StoreLocked(
            f"{path} is locked, and its key is not in {keys.where}: put it back. Without its key "
            "a space cannot be read by anyone."
        )
    for key in found:
        lock = Lock(key, claim.salt)
        try:
            _try(claim, lock, patience)
        except WrongKey:
            if key is found[-1]:
                raise
        else:
            return lock, key
    raise AssertionError("the last key fits or raises")


def _try(claim: Claim, lock: Lock, patience: float) -> None:
    with closing(drivers.connect(claim.path, patience, lock)) as db:
        drivers.check(db, claim)


_names: dict[str, str] = {}  # by the name of the file, which holds a hash of the space's


def name_in(claim: Claim, keys: Keyring) -> str | None:
    """The name of a locked space that its file's name does not say; None where no key opens it."""
    file = claim.path.name
    if file not in _names:
        try:
            lock, _ = _fitting(claim, keys, patience=1.0)
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


def finish_erasing(path: Path, keys: Keyring) -> None:
    """The key was destroyed and the process killed: what it locked follows."""
    if keys.erasing(path.stem):
        erase(path, keys)


def erase(path: Path, keys: Keyring | None) -> None:
    """The key first: without it, no copy of the file can be read, wherever it lies."""
    if keys is not None:
        keys.begin_erasing(path.stem)
    files.unlink(path)
    if keys is not None:
        keys.destroy(path.stem)


def tidy(path: Path, keys: Keyring | None, key: SecretStr | None) -> None:
    """What a killed change of keys left. Only for who has the space open: a change has it alone,
    so none is under way."""
    files.remove_relocked(path)
    if keys is not None and key is not None:
        keys.settle(path.stem, key)
