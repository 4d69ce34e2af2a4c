"""Files and folders that only their owner can read, whatever the umask."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from justmem.errors import InvalidSetting

FILE, FOLDER = 0o600, 0o700


def folder(path: Path) -> None:
    """Creates the folder and its parents. An existing folder keeps its mode, because it may be
    shared on purpose. `justmem doctor` reports it."""
    missing = [each for each in (path, *path.parents) if not each.exists()]
    for each in reversed(missing):
        try:
            each.mkdir(FOLDER)
            each.chmod(FOLDER)
        except FileExistsError:
            continue  # another process created it first
        except FileNotFoundError:  # /proc and the like
            raise InvalidSetting(
                f"The folder {path} cannot be created here: choose another folder."
            ) from None


def create(path: Path) -> int:
    """Creates a file and returns its descriptor. FileExistsError if it exists."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, FILE)
    if hasattr(os, "fchmod"):
        with suppress(PermissionError):  # a file system without modes, such as FAT
            os.fchmod(file, FILE)
    return file


def write(path: Path, data: bytes) -> None:
    """Writes a new file completely or not at all. FileExistsError if it exists."""
    with new(path) as beside, beside.open("r+b") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


@contextmanager
def new(path: Path) -> Iterator[Path]:
    """An empty file to write to. It is renamed to `path` after the block. FileExistsError if `path`
    exists then."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        os.close(create(beside))
        yield beside
        _name(beside, path)
    finally:
        beside.unlink(missing_ok=True)
    sync_folder(path.parent)


def _name(file: Path, path: Path) -> None:
    """Renames a file, without replacing another one."""
    try:
        os.link(file, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        if path.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from None
        file.rename(path)


def sync_folder(path: Path) -> None:
    """Makes new file names survive a power failure. Windows does this itself."""
    if os.name != "nt":
        file = os.open(path, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)


def is_open(path: Path) -> bool:
    """Whether users other than the owner can read it."""
    return os.name != "nt" and bool(path.stat().st_mode & 0o077)
