"""Bearer keys: who may do what in which spaces, and how often.

A key is `jm_ID_SECRET`. The secret has 256 random bits, so one round of a keyed hash is enough. The
file contains only salts and hashes.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from justmem.errors import InputError, InvalidFile, NotInMemory, TooMany
from justmem.runtime import private_files

FILE = "keys.json"
Right = Literal["read", "write", "admin"]
RIGHTS: tuple[Right, ...] = get_args(Right)  # each includes those before it
_Hex = Annotated[str, Field(pattern="^([0-9a-f]{2})+$")]


class Key(BaseModel):
    """`spaces` are names; a * in one stands for any characters."""

    model_config = ConfigDict(frozen=True)

    id: str
    name: str
    right: Right
    spaces: tuple[str, ...]
    made: str = ""

    def may(self, right: Right) -> bool:
        return RIGHTS.index(self.right) >= RIGHTS.index(right)

    def opens(self, space: str) -> bool:
        patterns = (".*".join(map(re.escape, name.split("*"))) for name in self.spaces)
        return any(re.fullmatch(pattern, space, re.DOTALL) for pattern in patterns)

    @property
    def actor(self) -> str:
        """The name in the change log."""
        return self.name if self.id == OWNER.id else f"key:{self.name}"

    @property
    def opens_all(self) -> bool:
        return "*" in self.spaces

    @property
    def only(self) -> str | None:
        """The space of a key that opens a single one."""
        return self.spaces[0] if len(self.spaces) == 1 and "*" not in self.spaces[0] else None


# Somebody with access to the data folder: on the command line, or with `--no-keys`.
OWNER = Key(id="owner", name="owner", right="admin", spaces=("*",))


class _Stored(Key):
    """A key in the file."""

    salt: _Hex
    hash: _Hex


class _File(BaseModel):
    version: int = 1
    keys: list[_Stored] = []


class Keys:
    """The keys of a data folder. Changes of the file apply from the next request on."""

    def __init__(self, folder: Path) -> None:
        self.path = Path(folder) / FILE
        self._seen = b""  # the file as it was read last
        self._known: dict[str, _Stored] = {}

    def find(self, token: str) -> Key | None:
        """Takes the same time for a wrong secret and for an unknown key."""
        prefix, _, rest = token.partition("_")
        id, _, secret = rest.partition("_")
        key = self._read().get(id)
        salt, stored = ("00" * 16, "00" * 32) if key is None else (key.salt, key.hash)
        same = hmac.compare_digest(_hash(secret, salt), stored)
        return key if same and prefix == "jm" else None

    def all(self) -> list[Key]:
        """Without salts and hashes."""
        return [Key(**key.model_dump(exclude={"salt", "hash"})) for key in self._read().values()]

    def add(self, name: str, right: Right, spaces: tuple[str, ...], made: datetime) -> str:
        """The new key. Only its hash is stored."""
        if not spaces or not all(space.strip() for space in spaces):
            raise InputError("A key needs at least one space: name it, or write * for all.")
        id, secret, salt = secrets.token_hex(6), secrets.token_urlsafe(32), secrets.token_hex(16)
        key = _Stored(
            id=id,
            name=name,
            right=right,
            spaces=spaces,
            made=made.isoformat(timespec="minutes"),
            salt=salt,
            hash=_hash(secret, salt),
        )
        with self._changing() as keys:
            keys[id] = key
        return f"jm_{id}_{secret}"

    def revoke(self, id: str) -> None:
        with self._changing() as keys:
            if keys.pop(id, None) is None:
                raise NotInMemory(f"There is no key {id!r}: `justmem keys list` shows them.")

    def _read(self) -> dict[str, _Stored]:
        """Reads the small file each time. Its size and time do not show every change. If it cannot
        be read, no key is valid, also not the earlier ones."""
        try:
            data = self.path.read_bytes()
            if data != self._seen:
                self._known = {key.id: key for key in _File.model_validate_json(data).keys}
                self._seen = data
        except FileNotFoundError:
            return {}
        except (OSError, ValidationError) as error:
            raise InvalidFile(
                f"{self.path} cannot be read as a key file ({type(error).__name__}): restore it, "
                "or remove it and make new keys."
            ) from None
        return self._known

    @contextmanager
    def _changing(self) -> Iterator[dict[str, _Stored]]:
        """The keys by id. What the block changes is written to the file."""
        private_files.folder(self.path.parent)
        beside = self.path.with_suffix(".new")
        try:
            # Fails if the file exists, so two commands cannot change the keys at the same time.
            file = private_files.create(beside)
        except FileExistsError:
            raise InputError(
                f"Another command is changing the keys. If none is, remove {beside}."
            ) from None
        try:
            with os.fdopen(file, "w", encoding="utf-8") as stream:
                keys = {**self._read()}
                yield keys
                stream.write(_File(keys=[*keys.values()]).model_dump_json(indent=1))
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(beside, self.path)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise


def _hash(secret: str, salt: str) -> str:
    data, key = secret.encode("utf-8", "replace"), bytes.fromhex(salt)
    return hashlib.blake2b(data, key=key, digest_size=32).hexdigest()


class Rates:
    """How often each key may send a request. A bucket of `burst` requests refills by `rate` per
    second. `clock` counts seconds from any start."""

    def __init__(self, rate: float, burst: int, clock: Callable[[], float] = time.perf_counter):
        self._rate = rate
        self._burst = float(burst)
        self._clock = clock
        self._buckets: dict[str, tuple[float, float]] = {}  # requests left, at this time

    def admit(self, key: str) -> None:
        """Counts one request."""
        now = self._clock()
        left, at = self._buckets.get(key, (self._burst, now))
        left = min(self._burst, left + (now - at) * self._rate)
        if left < 1:
            raise TooMany(
                f"This key sends more than {self._rate:g} requests per second: send fewer.",
                after=(1 - left) / self._rate,
            )
        self._buckets[key] = (left - 1, now)
