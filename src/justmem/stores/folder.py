"""Which spaces lie in a folder."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from justmem.errors import StoreError
from justmem.stores import drivers, files, locks, schema
from justmem.stores.keyring import Keyring


def spaces(folder: Path, keys: Keyring | None = None) -> list[str]:
    """The names of the spaces in a folder, in order."""
    named = (_space_in(path, keys) for path in Path(folder).glob("*" + files.SUFFIX))
    return sorted(name for name in named if name is not None)


def _space_in(path: Path, keys: Keyring | None) -> str | None:
    """None for a file of another program, and for a locked one whose name only its key would
    tell. A damaged or locked one is listed where the file's name says it all."""
    try:
        claim = drivers.claim(path)
    except (StoreError, FileNotFoundError):
        return path.stem if files.is_plain(path.stem) and path.exists() else None
    try:
        if claim.locked:
            if files.is_plain(path.stem):
                return path.stem
            return None if keys is None else locks.name_in(claim, keys)
        return _plain_name(path)
    finally:
        claim.release()


def _plain_name(path: Path) -> str | None:
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as db:
            if schema.is_ours(db):
                (name,) = db.execute("SELECT name FROM space").fetchone()
                return str(name)
    except sqlite3.Error:
        return path.stem if files.is_plain(path.stem) else None
    return None
