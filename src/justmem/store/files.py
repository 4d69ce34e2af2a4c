"""The files of a folder: names, keys, and their bytes. No SQLite.

On POSIX, closing any descriptor of a file drops all locks that the process holds on it. Python's
SQLite and SQLCipher do not know of each other, and neither knows of a plain `open`. So the bytes of
a database are read only through `raw`, and whoever connects to a database holds its `RawFile` until
all connections are closed. The file of page numbers (`-shm`) has locks too and is never read.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Literal
from weakref import WeakValueDictionary, finalize

from pydantic import SecretStr

from justmem.errors import InvalidSetting, StoreLocked, StoreNotLocked
from justmem.store.engine import check_name

SUFFIX = ".db"
PAGE = 4096  # bytes
_CHUNK = 1 << 22  # bytes read at a time
_SQLITE = b"SQLite format 3\0"
_PLAIN = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_RESERVED = re.compile(r"con|prn|aux|nul|com\d|lpt\d")  # names that Windows keeps for itself

Kind = Literal["new", "plain", "locked", "damaged"]


def file_name(space: str) -> str:
    """`alice` is stored in `alice.db`. A name that is not plain becomes its readable characters, a
    dot and a hash, so that two names never share a file on any file system."""
    check_name(space)
    if is_plain(space):
        return space + SUFFIX
    digest = hashlib.sha256(space.encode()).hexdigest()[:16]
    slug = re.sub(r"[^a-z0-9]+", "-", space.lower()).strip("-")[:40].strip("-")
    return f"{slug or 'space'}.{digest}{SUFFIX}"


def is_plain(space: str) -> bool:
    return bool(_PLAIN.fullmatch(space)) and not _RESERVED.fullmatch(space)


def unlink(path: Path) -> None:
    """Removes the log first: the file without its log would be incomplete but readable."""
    for suffix in ("-wal", "", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


# ---------------------------------------------------------------- bytes


class RawFile:
    """The bytes of a file, by a descriptor that is closed with the last reference to it."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        finalize(self, os.close, self._descriptor)
        status = os.fstat(self._descriptor)
        self.identity = status.st_dev, status.st_ino
        self._reading = threading.Lock()

    def chunks(self, size: int = _CHUNK) -> Iterator[bytes]:
        at = 0
        while chunk := self._read(at, size):
            yield chunk
            at += len(chunk)

    def _read(self, at: int, size: int) -> bytes:
        with self._reading:
            os.lseek(self._descriptor, at, os.SEEK_SET)
            return os.read(self._descriptor, size)

    @property
    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    @property
    def kind(self) -> Kind:
        """An encrypted page looks random: most byte values occur. A plain first page does not, even
        if it is damaged."""
        first = self._read(0, PAGE)
        if not first:
            return "new"
        if first.startswith(_SQLITE):
            return "plain"
        whole = len(first) == PAGE and self.size % PAGE == 0
        return "locked" if whole and len(set(first)) >= 230 else "damaged"

    def is_at(self, path: Path) -> bool:
        """Whether the path still leads to this file."""
        try:
            return _identity(path) == self.identity
        except FileNotFoundError:
            return False


_guard = threading.Lock()
_raw: WeakValueDictionary[tuple[int, int], RawFile] = WeakValueDictionary()


def raw(path: Path) -> RawFile:
    """The one that is open, or else a new one."""
    with _guard:
        file = _raw.get(_identity(path)) or RawFile(path)
        return _raw.setdefault(file.identity, file)


def _identity(path: Path) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_dev, status.st_ino


# ---------------------------------------------------------------- keys

_LARGEST = 4096  # bytes of a key
_SHORTEST = 8  # characters of a passphrase
_SHAPE = (
    f"A key is one line: 64 hexadecimal digits, or a passphrase of at least {_SHORTEST} characters."
)


class Keyring:
    """One key for every space, or a file that holds the key. `{space}` in the path of the file is
    replaced by the name of the space, so that each space can have its own key."""

    def __init__(self, key: SecretStr | None = None, file: Path | None = None) -> None:
        if key is not None and not _is_usable(key.get_secret_value()):
            raise InvalidSetting(f"The key that is set is empty or too short. {_SHAPE}")
        self._key, self._file = key, file

    def find(self, stem: str) -> SecretStr:
        """The key of a space, by the stem of its file (`ana` for the space `ana`)."""
        if self._key is not None:
            return self._key
        path = Path(str(self._file).replace("{space}", stem))
        try:
            with path.open("rb") as stream:
                found = stream.read(_LARGEST + 1)
        except OSError as error:
            raise StoreLocked(
                f"The key file {path} cannot be read ({error.strerror}): correct key_file."
            ) from None
        key = found.decode("utf-8", "replace").removesuffix("\n").removesuffix("\r")
        if not _is_usable(key) or len(found) > _LARGEST or "\n" in key or "\ufffd" in key:
            raise StoreLocked(f"The key file {path} contains no key. {_SHAPE}")
        return SecretStr(key)


def _is_usable(key: str) -> bool:
    return len(key) >= _SHORTEST and "\0" not in key


def key_of(path: Path, file: RawFile, keys: Keyring | None) -> SecretStr | None:
    """The key that opens the file; None if it is plain."""
    if keys is None:
        if file.kind == "locked":
            raise StoreLocked(
                f"{path} is encrypted: set its key with key_file or the environment variable "
                "JUSTMEM_KEY."
            )
        return None
    if file.kind == "plain":
        raise StoreNotLocked(
            f"A key is set, but {path} is not encrypted: make an encrypted copy with "
            "`justmem copy`, or remove the key from the settings."
        )
    return keys.find(path.stem)
