"""The keys of locked spaces: where they come from, whether they fit, and changing them."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from pydantic import SecretStr

from justmem.errors import InvalidSetting, StoreLocked, StoreNotLocked
from justmem.store import drivers, files
from justmem.store.drivers import Claim, Lock

PLACE = "{space}"  # in the name of a key file
_LARGEST = 4096  # bytes of a key
_SHORTEST = 8  # characters of a passphrase
SHAPE = (
    f"A key is one line: 64 hexadecimal digits, or a passphrase of at least {_SHORTEST} characters."
)


class Keyring:
    """One key for every space, as it was given."""

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
    """A file of the user's that holds the key. `{space}` in its name stands for the space, so that
    each space can have a key of its own."""

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
    """Without the end of its line."""
    try:
        text = found.decode("utf-8").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        text = ""
    if not _is_usable(text) or len(found) > _LARGEST or "\n" in text:
        raise StoreLocked(f"There is no key in {path}. {SHAPE}")
    return SecretStr(text)


def unlocked(claim: Claim, keys: Keyring | None, patience: float) -> Lock | None:
    """The lock of the file, which fits; None for a plain one."""
    path = claim.path
    if keys is None:
        if claim.kind == "locked":
            raise StoreLocked(
                f"{path} is locked: set its key with key_file or the environment variable "
                "JUSTMEM_KEY."
            )
        return None
    if claim.kind == "plain":
        raise StoreNotLocked(
            f"{path} is not locked, though a key is set: make a locked copy with `justmem copy`, "
            "or take the key out of the settings."
        )
    lock = Lock(keys.find(path.stem), claim.salt)
    if claim.kind != "new":
        with closing(drivers.connect(path, patience, lock)) as db:
            drivers.check(db, claim)
    return lock


def is_locked(folder: Path, space: str) -> bool:
    try:
        return drivers.is_locked(folder / files.file_name(space))
    except FileNotFoundError:
        return False
