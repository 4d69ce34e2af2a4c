"""Bearer keys: who may do what in which spaces.

A key is `jm_ID_SECRET`. The secret has 256 random bits, so one round of a keyed hash is enough. The
file contains only salts and hashes.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import secrets
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

from justmem.errors import InputError, InvalidFile, NotInMemory
from justmem.runtime import private_files

FILE = "keys.json"
Right = Literal["read", "write", "admin"]
RIGHTS: tuple[Right, ...] = get_args(Right)  # each includes those before it


@dataclass(frozen=True)
class Key:
    """`spaces` are names; a * in one stands for any characters."""

    id: str
    name: str
    right: Right
    spaces: tuple[str, ...]
    made: str = ""

    def may(self, right: Right) -> bool:
        return RIGHTS.index(self.right) >= RIGHTS.index(right)

    def opens(self, space: str) -> bool:
        return self._pattern.fullmatch(space) is not None

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

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        parts = (".*".join(map(re.escape, name.split("*"))) for name in self.spaces)
        return re.compile("|".join(f"(?:{part})" for part in parts), re.DOTALL)


# Somebody with access to the data folder: on the command line, or with `--no-keys`.
OWNER = Key("owner", "owner", "admin", ("*",))


class Keys:
    """The keys of a data folder. Changes of the file apply from the next request on."""

    def __init__(self, folder: Path) -> None:
        self.path = Path(folder) / FILE
        self._seen: bytes | None = None  # the file as it was read last
        self._known: dict[str, tuple[Key, bytes, bytes]] = {}

    # ------------------------------------------------------------ checking

    def find(self, token: str) -> Key | None:
        """Takes the same time for a wrong secret and for an unknown key."""
        self._refresh()
        prefix, _, rest = token.partition("_")
        id, _, secret = rest.partition("_")
        key, salt, stored = self._known.get(id, (None, b"\0" * 16, b"\0" * 32))
        same = hmac.compare_digest(_hash(secret, salt), stored)
        return key if same and prefix == "jm" else None

    def all(self) -> list[Key]:
        self._refresh()
        return [key for key, _, _ in self._known.values()]

    def _refresh(self) -> None:
        """Reads the small file each time. Its size and time do not show every change."""
        try:
            now = self.path.read_bytes()
        except FileNotFoundError:
            self._seen, self._known = None, {}
            return
        except OSError as error:
            self._seen, self._known = None, {}
            raise self._unreadable(error) from None
        if now != self._seen:
            # If the file cannot be read, no key is valid, also not the earlier ones.
            self._seen, self._known = None, {}
            self._known = {row["id"]: _known(row) for row in self._rows_in(now)}
            self._seen = now

    # ------------------------------------------------------------ changing

    def add(self, name: str, right: Right, spaces: tuple[str, ...], made: datetime) -> str:
        """The new key. Only its hash is stored."""
        if not spaces or not all(space.strip() for space in spaces):
            raise InputError("A key needs at least one space: name it, or write * for all.")
        id, secret, salt = secrets.token_hex(6), secrets.token_urlsafe(32), secrets.token_bytes(16)
        row = {
            "id": id,
            "name": name,
            "right": right,
            "spaces": list(spaces),
            "made": made.isoformat(timespec="minutes"),
            "salt": salt.hex(),
            "hash": _hash(secret, salt).hex(),
        }
        self._change(lambda rows: [*rows, row])
        return f"jm_{id}_{secret}"

    def revoke(self, id: str) -> None:
        if all(key.id != id for key in self.all()):
            raise NotInMemory(f"There is no key {id!r}: `justmem keys list` shows them.")
        self._change(lambda rows: [row for row in rows if row["id"] != id])

    def _change(self, change: Any) -> None:
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
                json.dump({"version": 1, "keys": change(self._rows())}, stream, indent=1)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(beside, self.path)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise

    def _rows(self) -> list[dict[str, Any]]:
        try:
            return self._rows_in(self.path.read_bytes())
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._unreadable(error) from None

    def _rows_in(self, data: bytes) -> list[dict[str, Any]]:
        try:
            rows = json.loads(data.decode("utf-8"))["keys"]
            for row in rows:
                _known(row)
        except (ValueError, KeyError, TypeError) as error:
            raise self._unreadable(error) from None
        return list(rows)

    def _unreadable(self, error: Exception) -> InvalidFile:
        return InvalidFile(
            f"{self.path} cannot be read as a key file ({type(error).__name__}): restore it, "
            "or remove it and make new keys."
        )


def _known(row: dict[str, Any]) -> tuple[Key, bytes, bytes]:
    right = row["right"]
    if right not in RIGHTS:
        raise ValueError(right)
    key = Key(row["id"], row["name"], right, tuple(row["spaces"]), row.get("made", ""))
    return key, bytes.fromhex(row["salt"]), bytes.fromhex(row["hash"])


def _hash(secret: str, salt: bytes) -> bytes:
    return hashlib.blake2b(secret.encode("utf-8", "replace"), key=salt, digest_size=32).digest()
