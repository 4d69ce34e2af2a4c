"""The files of a folder: names, permissions, keys, and the spaces in them."""

from __future__ import annotations

import hashlib
import os
import re
from contextlib import closing, suppress
from pathlib import Path

from pydantic import SecretStr

from justmem.errors import InvalidSetting, StoreError, StoreLocked, StoreNotLocked
from justmem.runtime import private_files
from justmem.store import drivers
from justmem.store.drivers import Claim
from justmem.store.sqlite_connection import is_ours, name_in, translated

SUFFIX = ".db"
_PLAIN = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_RESERVED = re.compile(r"con|prn|aux|nul|com\d|lpt\d")  # names that Windows keeps for itself


def file_name(space: str) -> str:
    """`alice` is stored in `alice.db`. A name that is not plain becomes its readable characters, a
    dot and a hash, so that two names never share a file on any file system."""
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
    """Creates the file with private permissions; SQLite copies them to its side files. An existing
    file is not opened, because closing it would drop the locks of its connections."""
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
    """Removes the log first: the file without its log would be incomplete but readable."""
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


# ---------------------------------------------------------------- keys

PLACE = "{space}"  # in the name of a key file
_LARGEST = 4096  # bytes of a key
_SHORTEST = 8  # characters of a passphrase
SHAPE = (
    f"A key is one line: 64 hexadecimal digits, or a passphrase of at least {_SHORTEST} characters."
)


class Keyring:
    """One key for every space."""

    where = "the key that is set"

    def __init__(self, key: SecretStr) -> None:
        if not _is_usable(key.get_secret_value()):
            raise InvalidSetting(f"The key that is set is empty or too short. {SHAPE}")
        self._key = key

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.where})"

    def find(self, stem: str) -> SecretStr:
        """The key of a space, by the stem of its file (`ana` for the space `ana`)."""
        return self._key


class KeyFile(Keyring):
    """A file that holds the key. `{space}` in its path is replaced by the name of the space, so
    that each space can have its own key."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.where = str(path)

    def find(self, stem: str) -> SecretStr:
        path = Path(str(self._path).replace(PLACE, stem))
        try:
            with path.open("rb") as stream:
                return _secret(stream.read(_LARGEST + 1), path)
        except OSError as error:
            raise StoreLocked(
                f"The key file {path} cannot be read ({error.strerror}): correct key_file."
            ) from None


def keyring(key: SecretStr | None, file: Path | None) -> Keyring | None:
    """None: the spaces are plain."""
    if key is not None:
        return Keyring(key)
    return None if file is None else KeyFile(file)


def _is_usable(key: str) -> bool:
    return len(key) >= _SHORTEST and "\0" not in key


def _secret(found: bytes, path: Path) -> SecretStr:
    """The key in a file, without the line end."""
    try:
        text = found.decode("utf-8").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        text = ""
    if not _is_usable(text) or len(found) > _LARGEST or "\n" in text:
        raise StoreLocked(f"The key file {path} contains no key. {SHAPE}")
    return SecretStr(text)


def key_of(claim: Claim, keys: Keyring | None) -> SecretStr | None:
    """The key that opens the file; None if it is plain."""
    path = claim.path
    if keys is None:
        if claim.kind == "locked":
            raise StoreLocked(
                f"{path} is encrypted: set its key with key_file or the environment variable "
                "JUSTMEM_KEY."
            )
        return None
    if claim.kind == "plain":
        raise StoreNotLocked(
            f"A key is set, but {path} is not encrypted: make an encrypted copy with "
            "`justmem copy`, or remove the key from the settings."
        )
    return keys.find(path.stem)


def is_locked(folder: Path, space: str) -> bool:
    try:
        return drivers.is_locked(folder / file_name(space))
    except FileNotFoundError:
        return False


# ---------------------------------------------------------------- the spaces of a folder

_names: dict[str, str] = {}  # spaces by the names of their files, which hold a hash


def spaces(folder: Path, keys: Keyring | None = None) -> list[str]:
    """The names of the spaces in a folder, in order. A plain file name is the name of the space.
    Other files are opened once. Those that cannot be opened are left out."""
    found: list[str] = []
    for path in Path(folder).glob("*" + SUFFIX):
        if is_plain(path.stem):
            found.append(path.stem)
            continue
        if path.name not in _names:
            with suppress(StoreError, FileNotFoundError):
                name = _name_inside(path, keys)
                if name is not None and file_name(name) == path.name:
                    _names[path.name] = name
        if path.name in _names:
            found.append(_names[path.name])
    return sorted(found)


def holds_another_space(path: Path, keys: Keyring | None) -> bool:
    """Whether the file is named after the space inside. A copy has another name."""
    try:
        name = _name_inside(path, keys)
    except drivers.Outrun:
        return True  # its key is being changed
    except (StoreError, FileNotFoundError):
        return False
    return name is not None and file_name(name) == path.name


def _name_inside(path: Path, keys: Keyring | None) -> str | None:
    """The name of the space in a file. None for other programs' files, and without the key."""
    claim = drivers.claim(path)
    try:
        if claim.locked and keys is None:
            return None
        key = key_of(claim, keys) if claim.locked else None
        log, _ = side_files(path)
        still = key is None and (not log.exists() or not log.stat().st_size)
        with (
            translated(str(path)),
            closing(drivers.connect(path, 1.0, key, still=still)) as db,
        ):
            drivers.check(db, claim)
            return name_in(db) if is_ours(db) else None
    finally:
        claim.release()
