"""Where the keys of locked spaces come from.

A space is known to a keyring by the stem of its file (`ana` for the space `ana`), which holds
nothing but letters, digits, dots, dashes and underscores: safe in a path and in a command.
"""

from __future__ import annotations

import secrets
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from pydantic import SecretStr

from justmem import private
from justmem.errors import InvalidSetting, StoreError, StoreLocked

SUFFIX = ".key"
PLACE = "{space}"  # in a command
_SECONDS = 60.0
_LARGEST = 4096  # bytes of a key
_ERASED = b"erased\n"
_SHORTEST = 8  # characters of a passphrase
SHAPE = (
    f"A key is one line: 64 hexadecimal digits, or a passphrase of at least {_SHORTEST} characters."
)


def is_usable(key: str) -> bool:
    return len(key) >= _SHORTEST and "\0" not in key


class Keyring:
    """One key for every space, held by whoever gave it. The parent of the others: what a key that
    somebody else keeps needs besides is nothing."""

    where = "the key that is set"
    own = False  # whether JustMem makes and destroys its keys

    def __init__(self, key: SecretStr) -> None:
        if not is_usable(key.get_secret_value()):
            raise InvalidSetting(f"The key that is set is none. {SHAPE}")
        self._key = key

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.where})"

    def find(self, stem: str) -> Sequence[SecretStr]:
        """The key; after it, one that an interrupted change of keys has left. Empty: no key."""
        return [self._key]

    def make(self, stem: str) -> SecretStr:
        """For a space that is being created."""
        return self._only(stem)

    def stage(self, stem: str) -> SecretStr:
        """The key that a space is about to get. Called by whoever has it to himself."""
        return self._only(stem)

    def settle(self, stem: str, key: SecretStr) -> None:
        """The space opens with this key: no other is needed any more."""

    def begin_erasing(self, stem: str) -> None:
        """From now on nobody opens the space, nor any copy of it."""

    def erasing(self, stem: str) -> bool:
        return False

    def destroy(self, stem: str) -> None:
        """The space is gone, or needs no key any more."""

    def _only(self, stem: str) -> SecretStr:
        found = self.find(stem)
        if not found:
            raise StoreLocked(f"There is no key for {stem} in {self.where}: put one there.")
        return found[0]


class KeyFile(Keyring):
    """One key for every space, in a file of the user's."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.where = str(path)

    def find(self, stem: str) -> Sequence[SecretStr]:
        try:
            with self._path.open("rb") as stream:
                return [_secret(stream.read(_LARGEST + 1), self.where)]
        except OSError as error:
            raise StoreLocked(
                f"The key file {self._path} cannot be read ({error.strerror}): correct key_file."
            ) from None


class KeyCommand(Keyring):
    """A command prints the key, of a password manager as it may be. No shell reads it."""

    def __init__(self, command: str) -> None:
        try:
            self._words = shlex.split(command)
        except ValueError as error:
            raise InvalidSetting(f"key_command is not a command line: {error}.") from None
        if not self._words:
            raise InvalidSetting("key_command is empty: write the command that prints the key.")
        self.where = f"what {self._words[0]} prints"

    def find(self, stem: str) -> Sequence[SecretStr]:
        words = [word.replace(PLACE, stem) for word in self._words]
        try:
            # Its standard error is the user's to see; its standard input would be ours to read.
            done = subprocess.run(
                words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=_SECONDS
            )
        except OSError as error:
            raise StoreLocked(
                f"The key command {words[0]} cannot be run ({error.strerror}): correct key_command."
            ) from None
        except ValueError:  # signs that no command can have
            raise StoreLocked("The key command cannot be run: correct key_command.") from None
        except subprocess.TimeoutExpired:
            raise StoreLocked(
                f"The key command {words[0]} took longer than {_SECONDS:g} seconds: unlock what it "
                "asks, and try again."
            ) from None
        if done.returncode:
            raise StoreLocked(
                f"The key command {words[0]} ended with {done.returncode} and gave no key for "
                f"{stem}: run it yourself to see why."
            )
        return [_secret(done.stdout, self.where)]


class KeyFolder(Keyring):
    """A key for each space, in files of JustMem's own: made with the space, gone with it.

    `ana.key` is the key. `ana.key.new` is the next one, while it is being changed: which of the
    two is right after a kill, the space itself tells. A key that says `erased` was destroyed, and
    its space is to follow."""

    own = True

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.where = str(folder)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KeyFolder) and self._folder.resolve() == other._folder.resolve()

    __hash__ = None  # type: ignore[assignment]

    def find(self, stem: str) -> Sequence[SecretStr]:
        found = [self._read(path) for path in (self._path(stem), self._next(stem))]
        return [key for key in found if key is not None]

    def make(self, stem: str) -> SecretStr:
        with self._translated():
            private.folder(self._folder)
            with suppress(FileExistsError):  # of a space never filled, or of a quicker process
                private.write(self._path(stem), _random())
        return self._only(stem)

    def stage(self, stem: str) -> SecretStr:
        with self._translated():
            private.folder(self._folder)
            self._next(stem).unlink(missing_ok=True)
            private.write(self._next(stem), _random())
        key = self._read(self._next(stem))
        assert key is not None
        return key

    def settle(self, stem: str, key: SecretStr) -> None:
        with self._translated():
            waiting = self._read(self._next(stem))
            if waiting is None:
                return
            if waiting == key:
                with suppress(FileNotFoundError):  # another process was quicker
                    private.replace(self._next(stem), self._path(stem))
            else:
                private.remove(self._next(stem))

    def begin_erasing(self, stem: str) -> None:
        with self._translated():
            private.remove(self._next(stem))
            mark = self._path(stem).with_suffix(".erased")
            mark.unlink(missing_ok=True)
            private.write(mark, _ERASED)
            private.replace(mark, self._path(stem))

    def erasing(self, stem: str) -> bool:
        try:
            return self._path(stem).read_bytes() == _ERASED
        except OSError:
            return False

    def destroy(self, stem: str) -> None:
        with self._translated():
            for path in (self._next(stem), self._path(stem)):
                private.remove(path)

    # ------------------------------------------------------------ files

    def _path(self, stem: str) -> Path:
        return self._folder / f"{stem}{SUFFIX}"

    def _next(self, stem: str) -> Path:
        return self._folder / f"{stem}{SUFFIX}.new"

    def _read(self, path: Path) -> SecretStr | None:
        try:
            text = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreLocked(
                f"The key {path} cannot be read ({error.strerror}): correct its permissions."
            ) from None
        return _secret(text, str(path))

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StoreError(
                f"The keys in {self._folder} cannot be changed ({error.strerror}): correct the "
                "permissions of the folder."
            ) from None


def keyring(
    key: SecretStr | None, file: Path | None, folder: Path | None, command: str | None
) -> Keyring | None:
    """The kind that is asked for; None: the spaces are plain."""
    if key is not None:
        return Keyring(key)
    if file is not None:
        return KeyFile(file)
    if folder is not None:
        return KeyFolder(folder)
    return None if command is None else KeyCommand(command)


def _random() -> bytes:
    return secrets.token_hex(32).encode() + b"\n"


def _secret(found: bytes, where: str) -> SecretStr:
    """Without the end of its line."""
    try:
        text = found.decode("utf-8").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        text = ""
    if not is_usable(text) or len(found) > _LARGEST or "\n" in text:
        raise StoreLocked(f"There is no key in {where}. {SHAPE}")
    return SecretStr(text)
