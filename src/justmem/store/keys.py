"""interim"""

from __future__ import annotations

from contextlib import closing

from justmem.errors import StoreLocked, StoreNotLocked, WrongKey
from justmem.store import drivers
from justmem.store.drivers import Claim, Lock
from justmem.stores.keyring import Keyring

__all__ = ["Keyring", "unlocked"]


def unlocked(claim: Claim, keys: Keyring | None, patience: float) -> Lock | None:
    """The lock of the file; None for a plain one."""
    path, stem = claim.path, claim.path.stem
    if keys is None:
        if claim.kind == "locked":
            raise StoreLocked(
                f"{path} is locked: set its key with key_file, key_folder, key_command or the "
                "environment variable JUSTMEM_KEY."
            )
        return None
    if claim.kind == "plain":
        raise StoreNotLocked(
            f"{path} is not locked, though a key is set: lock it with `justmem lock`, or take the "
            "key out of the settings."
        )
    if claim.kind == "new":
        return Lock(keys.make(stem), claim.salt)
    return fitting(claim, keys, patience)


def fitting(claim: Claim, keys: Keyring, patience: float) -> Lock:
    """The lock that opens the file."""
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
            with closing(drivers.connect(path, patience, lock)) as db:
                drivers.check(db, claim)
        except WrongKey:
            if key is found[-1]:
                raise
        else:
            return lock
    raise AssertionError("the last key fits or raises")
