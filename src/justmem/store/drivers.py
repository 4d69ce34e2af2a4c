"""Opens SQLite files: plain ones with Python's SQLite, encrypted ones with SQLCipher.

On POSIX, closing any descriptor of a file drops all locks that the process holds on it. Python's
SQLite and SQLCipher do not know of each other, and neither knows of a plain `open`. So the first
page of a file is read only while no connection of this process has it open. `claim` ensures this.
"""

from __future__ import annotations

import importlib
import os
import re
import sqlite3
import sys
import threading
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from weakref import WeakValueDictionary, finalize

from pydantic import SecretStr

from justmem.errors import StoreBusy, StoreDamaged, StoreError, WrongKey
from justmem.runtime.process import need

PAGE = 4096
_MODULE = "sqlcipher3.dbapi2"
_PLAIN = b"SQLite format 3\0"
_RAW = re.compile(r"[0-9a-fA-F]{64}")
_CHUNK = 1 << 22  # bytes read at a time

Kind = Literal["new", "plain", "locked", "damaged"]


def errors() -> tuple[type[Exception], ...]:
    """The error classes of both libraries."""
    cipher = sys.modules.get(_MODULE)
    return (sqlite3.Error,) if cipher is None else (sqlite3.Error, cipher.Error)


def code(error: Exception) -> int:
    """SQLite's code, such as `sqlite3.SQLITE_BUSY`; 0 if there is none."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def sqlcipher() -> Any:
    need("encryption")
    return importlib.import_module(_MODULE)


# ---------------------------------------------------------------- keys


def _phrase(key: SecretStr) -> str:
    """The key as SQLCipher's PRAGMA takes it. 64 hexadecimal digits are the key itself; SQLCipher
    derives it from anything else. Never show it."""
    text = key.get_secret_value()
    return f"\"x'{text}'\"" if _RAW.fullmatch(text) else "'" + text.replace("'", "''") + "'"


def rekey(db: sqlite3.Connection, key: SecretStr) -> None:
    db.execute(f"PRAGMA rekey = {_phrase(key)}")


def connect(
    path: Path, patience: float, key: SecretStr | None, *, still: bool = False
) -> sqlite3.Connection:
    """`still`: nobody changes the file, as with a copy. No side files are made."""
    module: Any = sqlite3 if key is None else sqlcipher()
    db: sqlite3.Connection = module.connect(
        f"{path.absolute().as_uri()}?immutable=1" if still else path,
        timeout=patience,
        isolation_level=None,
        check_same_thread=False,
        uri=still,
    )
    if key is not None:
        try:
            _prepare(db, key)
        except BaseException:
            db.close()
            raise
    return db


def _prepare(db: sqlite3.Connection, key: SecretStr) -> None:
    db.execute("PRAGMA cipher_log_level = NONE")  # it would write to standard error
    db.execute(f"PRAGMA key = {_phrase(key)}")
    db.execute("PRAGMA cipher_compatibility = 4")  # a later SQLCipher reads it all the same
    # Otherwise VACUUM or a sort would write plain words to a temporary file.
    db.execute("PRAGMA temp_store = MEMORY")


def check(db: sqlite3.Connection, claim: Claim) -> None:
    """WrongKey if the key is wrong, StoreDamaged if the file is. Each page has a checksum made with
    the key. If all of them are wrong, the key is wrong; if some are, the file is damaged."""
    path = claim.path
    try:
        db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except errors() as error:
        if code(error) != sqlite3.SQLITE_NOTADB:
            raise
        broken = len(db.execute("PRAGMA cipher_integrity_check").fetchall())
        if claim.kind == "locked" and broken >= path.stat().st_size // PAGE:
            raise WrongKey(f"{path} is encrypted with another key: give the right key.") from None
        raise StoreDamaged(
            f"{path} cannot be read with any key ({broken} of its pages are damaged): restore it "
            "from a backup, or move it away and remember its sessions again."
        ) from None


# ---------------------------------------------------------------- files


@dataclass(eq=False, slots=True, weakref_slot=True)
class _File:
    """What the first page of a file showed. It lives as long as a claim to the file, even if a
    store is dropped without being closed."""

    kind: Kind
    alone: bool  # no other claim is allowed
    kept: dict[tuple[int, int], int] = field(
        default_factory=dict
    )  # descriptors by device and inode

    def __post_init__(self) -> None:
        finalize(self, _close, self.kept)


def _close(kept: dict[tuple[int, int], int]) -> None:
    for descriptor in kept.values():
        os.close(descriptor)


class Claim:
    """A file that this process has open or is about to open."""

    def __init__(self, path: Path, identity: tuple[int, int], file: _File) -> None:
        self.path = path
        self.identity = identity
        self._file: _File | None = file

    @property
    def kind(self) -> Kind:
        assert self._file is not None
        return self._file.kind

    @property
    def locked(self) -> bool:
        """Encrypted, or damaged: only a key can tell."""
        return self.kind in ("locked", "damaged")

    def filled(self, kind: Kind) -> None:
        """Records that the new file now has content."""
        assert self._file is not None
        self._file.kind = kind

    def descriptor(self, path: Path) -> int:
        """A descriptor of one of its files. It stays open until the last claim is released."""
        assert self._file is not None
        with _guard:
            identity = _identity(path)
            if identity not in self._file.kept:
                self._file.kept[identity] = os.open(path, os.O_RDONLY)
            return self._file.kept[identity]

    def release(self) -> None:
        self._file = None


class Outrun(StoreBusy):
    """The file was created or replaced meanwhile: claim it again."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} is being changed at this moment: try again.")


_guard = threading.Lock()
_files: WeakValueDictionary[tuple[int, int], _File] = WeakValueDictionary()  # by device and inode


def claim(path: Path, *, alone: bool = False) -> Claim:
    """Reads the first page of the file, unless it is claimed already. The caller releases it."""
    with _guard:
        identity = _identity(path)
        file = _files.get(identity)
        if file is None:
            file = _files[identity] = _inspect(path, alone)
        elif alone or file.alone:
            raise Outrun(path)
        return Claim(path, identity, file)


def _inspect(path: Path, alone: bool) -> _File:
    try:
        with path.open("rb") as stream:
            return _File(_kind(stream.read(PAGE), stream.seek(0, os.SEEK_END)), alone)
    except OSError as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise StoreError(
            f"The store {path} cannot be opened ({error.strerror}): "
            "correct the permissions of the file and its folder."
        ) from None


def chunks(path: Path, held: Claim | None) -> Generator[bytes, None, None]:
    """The bytes of a file, in chunks. `held`: the claim of the open space that it belongs to."""
    if held is None or os.name == "nt":
        with path.open("rb") as stream:
            while chunk := stream.read(_CHUNK):
                yield chunk
        return
    descriptor, at = held.descriptor(path), 0
    while chunk := os.pread(descriptor, _CHUNK, at):
        yield chunk
        at += len(chunk)


def is_locked(path: Path) -> bool:
    """Whether the file looks encrypted."""
    held = claim(path)
    try:
        return held.kind == "locked"
    finally:
        held.release()


def check_current(held: Claim) -> None:
    """Outrun if the path leads to another file now."""
    try:
        there = _identity(held.path) == held.identity
    except FileNotFoundError:
        there = False
    if not there:
        raise Outrun(held.path)


def _identity(path: Path) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_dev, found.st_ino


def _kind(first: bytes, size: int) -> Kind:
    """An encrypted page looks random. A plain first page does not, even if it is damaged."""
    if not first:
        return "new"
    if first.startswith(_PLAIN):
        return "plain"
    return "locked" if is_noise(first) and size % PAGE == 0 else "damaged"


def is_noise(first: bytes) -> bool:
    """Whether the first page of a file looks encrypted or compressed: most byte values occur."""
    return len(first) == PAGE and len(set(first)) >= 230
