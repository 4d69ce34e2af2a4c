"""Where the OAuth server stores clients, tickets, codes and tokens: in one small SQLite file."""

from __future__ import annotations

import hashlib
import math
import secrets
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from justmem.runtime import private_files

FILE = "oauth.sqlite3"
_PREFIX = "jmo_"
_MOST = 1000  # rows without a consent: anybody may make one
_SCHEMA = """
CREATE TABLE IF NOT EXISTS secrets (
  hash TEXT PRIMARY KEY, kind TEXT NOT NULL, client TEXT NOT NULL, consent TEXT NOT NULL,
  expires REAL NOT NULL, used INTEGER NOT NULL, value TEXT NOT NULL);
"""


T = TypeVar("T", bound=BaseModel)


class OAuthSecrets:
    """Each row has a kind, a JSON value and the hash of a secret that the client holds. What was
    granted by one consent of an owner has the same `consent`."""

    def __init__(self, folder: Path, clock: Callable[[], float]) -> None:
        self._path = folder / FILE
        self._clock = clock

    @contextmanager
    def _file(self) -> Iterator[sqlite3.Connection]:
        if not self._path.exists():
            private_files.folder(self._path.parent)
            private_files.write(self._path, b"")
        with closing(sqlite3.connect(self._path, timeout=5)) as db, db:
            db.executescript(_SCHEMA)
            yield db

    def add(
        self,
        kind: str,
        value: BaseModel,
        *,
        client: str,
        consent: str = "",
        seconds: float = math.inf,
        secret: str | None = None,
    ) -> str:
        """The secret, by default a new one."""
        secret = secret or _PREFIX + secrets.token_urlsafe(32)
        now = self._clock()
        row = (_hash(secret), kind, client, consent, now + seconds, value.model_dump_json())
        with self._file() as db:
            db.execute("INSERT INTO secrets VALUES (?, ?, ?, ?, ?, 0, ?)", row)
            db.execute("DELETE FROM secrets WHERE expires < ?", (now,))
            db.execute(
                "DELETE FROM secrets WHERE consent = '' AND rowid <= (SELECT max(rowid) FROM "
                "secrets) - ? AND client NOT IN (SELECT client FROM secrets WHERE consent != '')",
                (_MOST,),
            )
        return secret

    def find(self, type: type[T], kind: str, secret: str) -> T | None:
        """Its value. A ticket is found until it is used, everything else until it expires."""
        with self._file() as db:
            row = db.execute(
                "SELECT value FROM secrets WHERE kind = ? AND hash = ? AND expires >= ? AND NOT "
                "(used AND kind = 'ticket')",
                (kind, _hash(secret), self._clock()),
            ).fetchone()
        return None if row is None else type.model_validate_json(row[0])

    def use(self, secret: str) -> bool:
        """False if it was used before. It stays known, so that a second use is noticed."""
        with self._file() as db:
            used = "UPDATE secrets SET used = 1 WHERE hash = ? AND used = 0"
            return db.execute(used, (_hash(secret),)).rowcount == 1

    def revoke(self, consent: str) -> None:
        with self._file() as db:
            db.execute("DELETE FROM secrets WHERE consent = ?", (consent,))


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()
