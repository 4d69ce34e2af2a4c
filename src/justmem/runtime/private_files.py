"""Files and folders that are their owner's alone, whatever the umask."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

FILE, FOLDER = 0o600, 0o700


def folder(path: Path) -> None:
    """Makes what is missing of it. A folder that is there keeps its mode: it may be shared on
    purpose, and `justmem doctor` says so."""
    missing = [each for each in (path, *path.parents) if not each.exists()]
    for each in reversed(missing):
        try:
            each.mkdir(FOLDER)
            each.chmod(FOLDER)
        except FileExistsError:
            continue  # another process was quicker


def create(path: Path) -> int:
    """A descriptor of a file that was not there before; else FileExistsError."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, FILE)
    if hasattr(os, "fchmod"):
        with suppress(PermissionError):  # a file system without modes, as a stick may have
            os.fchmod(file, FILE)
    return file


def write(path: Path, data: bytes) -> None:
    """A new file, there with all its bytes or not at all; else FileExistsError."""
    with new(path) as beside, beside.open("r+b") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


@contextmanager
def new(path: Path) -> Iterator[Path]:
    """An empty file to write to. It is called `path` once the block is done; FileExistsError if
    there is such a file then."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        os.close(create(beside))
        yield beside
        _name(beside, path)
    finally:
        beside.unlink(missing_ok=True)
    sync_folder(path.parent)


def _name(file: Path, path: Path) -> None:
    """Moves a file to a name that is free."""
    try:
        os.link(file, path)
    except FileExistsError:
        raise
    except OSError:  # no second names there either
        if path.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from None
        file.rename(path)


def sync_folder(path: Path) -> None:
    """The names in it, too, survive a power failure. Windows sees to that itself."""
    if os.name != "nt":
        file = os.open(path, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)


def is_open(path: Path) -> bool:
    """Whether others than the owner may look into it."""
    return os.name != "nt" and bool(path.stat().st_mode & 0o077)
