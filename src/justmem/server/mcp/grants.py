"""OAuth clients and tokens, in one small SQLite file of the data folder. It stores only hashes of
the tokens."""

from __future__ import annotations

import hashlib
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from justmem.runtime import private_files

FILE = "oauth.sqlite3"
PREFIX = "jmo_"
_MOST_CLIENTS = 1000  # anybody may register one: the oldest without a token goes
_SCHEMA = """
CREATE TABLE IF NOT EXISTS clients (id TEXT PRIMARY KEY, info TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS tokens (
  hash TEXT PRIMARY KEY, client TEXT NOT NULL, family TEXT NOT NULL, expires INTEGER NOT NULL,
  used INTEGER NOT NULL DEFAULT 0, granted TEXT NOT NULL);
"""


class Grant(BaseModel):
    """What an owner allowed one client: this space, by this key, for these scopes."""

    model_config = ConfigDict(frozen=True)

    client: str
    key: str
    space: str
    scopes: tuple[str, ...]
    resource: str
    family: str  # the tokens that came from one consent
    kind: Literal["access", "refresh"] = "access"
    expires: int = 0


class Grants:
    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE

    @contextmanager
    def _file(self) -> Iterator[sqlite3.Connection]:
        if not self._path.exists():
            private_files.folder(self._path.parent)
            private_files.write(self._path, b"")
        with closing(sqlite3.connect(self._path, timeout=5)) as db, db:
            db.executescript(_SCHEMA)
            yield db

    # ------------------------------------------------------------ clients

    def client(self, id: str) -> str | None:
        with self._file() as db:
            row = db.execute("SELECT info FROM clients WHERE id = ?", (id,)).fetchone()
        return row[0] if row else None

    def add_client(self, id: str, info: str) -> None:
        with self._file() as db:
            db.execute("INSERT INTO clients VALUES (?, ?)", (id, info))
            db.execute(
                "DELETE FROM clients WHERE id NOT IN (SELECT client FROM tokens) AND rowid <= "
                "(SELECT max(rowid) FROM clients) - ?",
                (_MOST_CLIENTS,),
            )

    # ------------------------------------------------------------ tokens

    def add(self, grant: Grant) -> str:
        """The new token: shown once, stored as a hash."""
        token = PREFIX + secrets.token_urlsafe(32)
        row = (_hash(token), grant.client, grant.family, grant.expires, grant.model_dump_json())
        with self._file() as db:
            db.execute("INSERT INTO tokens VALUES (?, ?, ?, ?, 0, ?)", row)
        return token

    def find(self, token: str) -> Grant | None:
        with self._file() as db:
            found = "SELECT granted FROM tokens WHERE hash = ?"
            row = db.execute(found, (_hash(token),)).fetchone()
        return Grant.model_validate_json(row[0]) if row else None

    def use(self, token: str) -> bool:
        """False if it was used before. A refresh token works once. It stays known, so that a second
        use is noticed."""
        with self._file() as db:
            used = "UPDATE tokens SET used = 1 WHERE hash = ? AND used = 0"
            return db.execute(used, (_hash(token),)).rowcount == 1

    def revoke(self, family: str) -> None:
        with self._file() as db:
            db.execute("DELETE FROM tokens WHERE family = ?", (family,))

    def clean(self, now: int) -> None:
        with self._file() as db:
            db.execute("DELETE FROM tokens WHERE expires < ?", (now,))


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()
