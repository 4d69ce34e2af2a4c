"""Vectors that were computed once, by the hash of their text.

The local models read one text at a time, so a text has one vector whatever its neighbours: it
can be kept. Most sessions of LongMemEval occur in several histories, and every ranking
experiment asks for the same vectors again.
"""

from __future__ import annotations

import hashlib
import sqlite3
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from platformdirs import user_cache_path

from justmem.ports import Embedded, Embedder, Vectors

_CHUNK = 500  # keys per SQL statement
_BATCH = 256  # texts computed between two writes, so that a kill loses little


def folder(given: Path | None = None) -> Path:
    path = given or user_cache_path("justmem", appauthor=False) / "eval"
    path.mkdir(parents=True, exist_ok=True)
    return path


class Blobs:
    """key -> bytes, on disk, for several threads and processes."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._db = sqlite3.connect(path, timeout=60, check_same_thread=False)
        self._lock = threading.Lock()
        with self._lock:
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.execute(
                "CREATE TABLE IF NOT EXISTS blobs (key BLOB PRIMARY KEY, value BLOB) WITHOUT ROWID"
            )
            self._db.commit()

    def get(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        found: dict[bytes, bytes] = {}
        with self._lock:
            for start in range(0, len(keys), _CHUNK):
                part = keys[start : start + _CHUNK]
                marks = ",".join("?" * len(part))
                rows = self._db.execute(f"SELECT * FROM blobs WHERE key IN ({marks})", part)
                found.update(rows.fetchall())
        return found

    def put(self, rows: Iterable[tuple[bytes, bytes]]) -> None:
        with self._lock, self._db:
            self._db.executemany("INSERT OR REPLACE INTO blobs VALUES (?, ?)", rows)


def key(*parts: str) -> bytes:
    return hashlib.blake2b("\0".join(parts).encode("utf-8", "replace"), digest_size=16).digest()


class CachedEmbedder:
    def __init__(self, inner: Embedder, blobs: Blobs) -> None:
        self.name = inner.name
        self.dim = inner.dim
        self.inner = inner
        self._blobs = blobs

    def key(self, text: str, *, query: bool = False) -> bytes:
        return key(self.name, "query" if query else "text", text)

    async def embed(self, texts: Sequence[str], *, query: bool = False) -> Embedded:
        if not texts:
            return await self.inner.embed(texts, query=query)
        keys = [self.key(text, query=query) for text in texts]
        found = self._blobs.get(keys)
        missing = {k: text for k, text in zip(keys, texts, strict=True) if k not in found}
        names, spent = list(missing), 0
        for start in range(0, len(names), _BATCH):
            part = names[start : start + _BATCH]
            made = await self.inner.embed([missing[k] for k in part], query=query)
            spent += made.tokens
            rows = [(k, v.tobytes()) for k, v in zip(part, made.vectors, strict=True)]
            self._blobs.put(rows)
            found.update(rows)
        vectors: Vectors = np.stack([np.frombuffer(found[k], np.float32) for k in keys])
        return Embedded(vectors=vectors, tokens=spent)
