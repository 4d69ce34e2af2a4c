"""Which spaces lie in a folder."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Collection
from contextlib import closing
from pathlib import Path

from justmem.errors import StoreError
from justmem.store import drivers, files
from justmem.store.keys import Keyring, unlocked
from justmem.store.sqlite_connection import translated
from justmem.store.sqlite_schema import is_ours, name_in

Known = dict[Path, tuple[int, str]]  # a file's number and the space in it


def spaces(
    folder: Path,
    keys: Keyring | None = None,
    *,
    wanted: Collection[str] = ("*",),
    known: Known | None = None,
) -> list[str]:
    """The names of the spaces in a folder, in order. `wanted` are names, where a * stands for any
    characters: files that cannot hold such a space are not opened, nor those that are `known`
    from the last time."""
    known = {} if known is None else known
    may_hold = _filter(wanted)
    found = filter(may_hold, Path(folder).glob("*" + files.SUFFIX))
    named = (_known(path, keys, known) for path in found)
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
            name = None if keys is None else _name_inside_locked(claim, keys)
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
            if is_ours(db):
                return name_in(db)
    except sqlite3.Error:
        pass
    return None


def _filter(wanted: Collection[str]) -> Callable[[Path], bool]:
    """Whether a file has the name that a wanted space would have. One with a hash in its name may
    hold any space."""
    exact = {files.file_name(name) for name in wanted if "*" not in name and name.strip()}
    parts = (map(re.escape, name.split("*")) for name in wanted if "*" in name)
    patterns = [re.compile(".*".join(each), re.DOTALL) for each in parts]

    def may_hold(path: Path) -> bool:
        if path.name in exact:
            return True
        hashed = not files.is_plain(path.stem)
        return any(hashed or pattern.fullmatch(path.stem) for pattern in patterns)

    return may_hold


def _known(path: Path, keys: Keyring | None, known: Known) -> str | None:
    try:
        number = path.stat().st_ino
    except OSError:
        number = 0
    if path in known and known[path][0] == number:
        return known[path][1]
    known.pop(path, None)
    name = _space_in(path, keys)
    if name is not None and files.file_name(name) == path.name:
        known[path] = number, name
    return name


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
            return None if keys is None else _name_inside_locked(claim, keys)
        return _plain_name(path)
    finally:
        claim.release()


def _plain_name(path: Path) -> str | None:
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as db:
            if is_ours(db):
                return name_in(db)
    except sqlite3.Error:
        return path.stem if files.is_plain(path.stem) else None
    return None


_names: dict[str, str] = {}  # by the name of the file, which holds a hash of the space's


def _name_inside_locked(claim: drivers.Claim, keys: Keyring) -> str | None:
    """The name of an encrypted space that its file's name does not say; None where no key opens
    it."""
    file = claim.path.name
    if file not in _names:
        try:
            with (
                translated(str(claim.path)),
                closing(drivers.connect(claim.path, 1.0, unlocked(claim, keys, 1.0))) as db,
            ):
                _names[file] = name_in(db)
        except StoreError:
            return None
    return _names[file]
