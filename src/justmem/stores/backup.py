"""A copy of an open space, made by SQLite's online backup."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from justmem import private
from justmem.errors import InvalidFile
from justmem.stores import drivers


def check_target(target: Path) -> None:
    try:
        if target.exists():
            raise InvalidFile(f"{target} exists already: name a file that does not.")
        if not target.parent.is_dir():
            raise InvalidFile(f"There is no folder {target.parent}: make it, or name another file.")
    except OSError as error:  # such as a name that is too long
        raise _unwritable(target, error) from None


def backup(db: sqlite3.Connection, target: Path, lock: drivers.Lock | None) -> None:
    """One moment of the space, with the same key. The file gets its name when it is complete."""
    try:
        with private.new(target) as file, closing(drivers.connect(file, 5.0, lock)) as copy:
            db.backup(copy)
    except FileExistsError:
        check_target(target)
    except OSError as error:
        raise _unwritable(target, error) from None


def _unwritable(target: Path, error: OSError) -> InvalidFile:
    return InvalidFile(f"{target} cannot be written ({error.strerror}): choose another file.")
