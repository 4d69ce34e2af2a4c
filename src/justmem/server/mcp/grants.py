"""OAuth clients and tokens, in one small SQLite file of the data folder. Of tokens it holds
hashes only."""

from __future__ import annotations

import hashlib
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from justmem.runtime import private_files

FILE = "oauth.sqlite3"
PREFIX = "jmo_"
_MOST_CLIENTS = 1000  # anybody may register one: the oldest without a token goes
_SCHEMA = """
CREATE TABLE IF NOT EXISTS clients (id TEXT PRIMARY KEY, info TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS tokens (
  hash TEXT PRIMARY KEY, kind TEXT NOT NULL, family TEXT NOT NULL, client TEXT NOT NULL,
  key TEXT NOT NULL, space TEXT NOT NULL, scopes TEXT NOT NULL, resource TEXT NOT NULL,
  expires INTEGER NOT NULL, used INTEGER NOT NULL DEFAULT 0);
"""


@dataclass(frozen=True, slots=True)
class Grant:
    """What an owner allowed one client: this space, by this key, for these scopes."""

    client: str
    key: str
    space: str
    scopes: tuple[str, ...]
    resource: str
    family: str = ""  # the tokens that came from one consent
    expires: int = 0
    used: bool = False


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

    def add(self, kind: str, grant: Grant, expires: int) -> str:
        """The new token: shown once, stored as a hash."""
        token = PREFIX + secrets.token_urlsafe(32)
        row = (_hash(token), kind, grant.family, grant.client, grant.key, grant.space)
        row_end = (" ".join(grant.scopes), grant.resource, expires)
        with self._file() as db:
            db.execute("INSERT INTO tokens VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0)", row + row_end)
        return token

    def find(self, kind: str, token: str) -> Grant | None:
        with self._file() as db:
            row = db.execute(
                "SELECT client, key, space, scopes, resource, family, expires, used FROM tokens "
                "WHERE hash = ? AND kind = ?",
                (_hash(token), kind),
            ).fetchone()
        if row is None:
            return None
        client, key, space, scopes, resource, family, expires, used = row
        named = tuple(scopes.split())
        return Grant(client, key, space, named, resource, family, expires, bool(used))

    def use(self, token: str) -> None:
        """A refresh token works once. It stays known, so that a second use is noticed."""
        with self._file() as db:
            db.execute("UPDATE tokens SET used = 1 WHERE hash = ?", (_hash(token),))

    def revoke(self, family: str) -> None:
        with self._file() as db:
            db.execute("DELETE FROM tokens WHERE family = ?", (family,))

    def clean(self, now: int) -> None:
        with self._file() as db:
            db.execute("DELETE FROM tokens WHERE expires < ?", (now,))


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()
