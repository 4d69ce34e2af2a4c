"""Where a space lives: its file name, its private modes, the spaces of a folder."""

from __future__ import annotations

import hashlib
import os
import re
from contextlib import suppress
from pathlib import Path

from justmem.errors import InvalidSetting, StoreError
from justmem.runtime import private_files

SUFFIX = ".db"
_PLAIN = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_RESERVED = re.compile(r"con|prn|aux|nul|com\d|lpt\d")  # names that Windows keeps for itself


def file_name(space: str) -> str:
    """`alice` is `alice.db`; any other name keeps what is readable of it and adds a hash, after a
    dot that no plain name contains, so that two names never share a file on any file system."""
    if not space.strip():
        raise InvalidSetting("The name of a space is empty: give it a name such as 'alice'.")
    if is_plain(space):
        return space + SUFFIX
    try:
        digest = hashlib.sha256(space.encode()).hexdigest()[:16]
    except UnicodeEncodeError:
        raise InvalidSetting("The name of a space is not valid Unicode: choose another.") from None
    slug = re.sub(r"[^a-z0-9]+", "-", space.lower()).strip("-")[:40].strip("-")
    return f"{slug or 'space'}.{digest}{SUFFIX}"


def is_plain(space: str) -> bool:
    return bool(_PLAIN.fullmatch(space)) and not _RESERVED.fullmatch(space)


def create_private(path: Path) -> None:
    """SQLite gives its side files the mode of the main one, so this is all it takes. A file that
    is there is left alone: to open and close it would drop the locks of its connections."""
    try:
        private_files.folder(path.parent)
        with suppress(FileExistsError):
            os.close(private_files.create(path))
    except OSError as error:
        raise _closed(path, error) from None


def _closed(path: Path, error: OSError) -> StoreError:
    return StoreError(
        f"The store {path} cannot be opened ({error.strerror}): "
        "choose a folder that you may write to, or correct its permissions."
    )


def exists(path: Path) -> bool:
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise _closed(path, error) from None
    return True


def unlink(path: Path) -> None:
    """The log first: a log without its file is nothing, a file without its log is half."""
    for file in (side_files(path)[0], path, side_files(path)[1]):
        try:
            file.unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(
                f"{file} cannot be removed ({error.strerror}): correct the permissions of its "
                "folder and erase the space again."
            ) from None


def side_files(path: Path) -> tuple[Path, Path]:
    return path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")


def size(path: Path) -> int:
    wal, _ = side_files(path)
    return sum(file.stat().st_size for file in (path, wal) if file.exists())
