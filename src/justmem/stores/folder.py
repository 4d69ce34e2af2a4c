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


def holds_another_space(path: Path, keys: Keyring | None) -> bool:
    """Whether the file has the name that the space inside would have. A copy has another name."""
    try:
        claim = drivers.claim(path)
    except drivers.Outrun:
        return True  # it is opened by its right name, to change its key
    except (StoreError, FileNotFoundError):
        return False
    try:
        if claim.kind == "locked":
            name = None if keys is None else locks.name_in(claim, keys)
        else:
            name = _name_inside(path)
    finally:
        claim.release()
    return name is not None and files.file_name(name) == path.name


def _name_inside(path: Path) -> str | None:
    log, _ = files.side_files(path)
    still = not log.exists() or not log.stat().st_size
    try:
        with closing(drivers.connect(path, 1.0, None, still=still)) as db:
            if schema.is_ours(db):
                (name,) = db.execute("SELECT name FROM space").fetchone()
                return str(name)
    except sqlite3.Error:
        pass
    return None


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
