"""Sessions as wholes, out of an SQLite store and into one: what copying needs."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import date
from functools import partial
from typing import Any

import numpy as np

from justmem.domain import Passage, SessionState
from justmem.ports import Digested, Vectors, Whole
from justmem.stores import derived, rows, tombstones, writes
from justmem.stores.connections import writing
from justmem.stores.sqlite import SqliteStore

_NONE = np.zeros((0, 0), np.float32)
_SETTLED = (SessionState.STORED, SessionState.EMPTY)
_SESSIONS = """
    SELECT s.key, s.id, s.at, t.turns, s.state, s.reason, s.tokens, s.card_tokens,
        i.at, i.turns, i.state, i.reason
    FROM sessions s LEFT JOIN texts t ON t.session = s.key LEFT JOIN incoming i ON i.session = s.key
    WHERE s.id = ?
"""


class SqliteCopy:
    def __init__(self, store: SqliteStore) -> None:
        self.store = store
        self._db = store._db

    async def embedder(self) -> tuple[str, int]:
        found = await self._db.read(
            lambda db: db.execute("SELECT embedder, dim FROM space").fetchone()
        )
        return str(found[0]), int(found[1])

    async def wholes(self, ids: Sequence[str]) -> Sequence[Whole]:
        return await self._db.read(partial(wholes_in, ids=ids))

    async def take(self, wholes: Sequence[Whole]) -> None:
        forgotten = set(await self.forgotten())
        spared = [tombstones.spared(whole, forgotten) for whole in wholes]
        await self._db.write(partial(_take, wholes=spared))

    async def forgotten(self) -> Sequence[str]:
        found = await self._db.read(
            lambda db: db.execute("SELECT id FROM forgotten ORDER BY id").fetchall()
        )
        return [id for (id,) in found]

    async def take_forgotten(self, ids: Sequence[str]) -> None:
        await self._db.write(partial(_take_forgotten, ids=ids))

    async def spending(self) -> Sequence[tuple[date, int]]:
        found = await self._db.read(
            lambda db: db.execute("SELECT day, tokens FROM spending ORDER BY day").fetchall()
        )
        return [(date.fromisoformat(day), tokens) for day, tokens in found]


def _take(db: sqlite3.Connection, wholes: Sequence[Whole]) -> None:
    with writing(db):
        for whole in wholes:
            id, made = whole.session.id, whole.digested
            writes.keep(db, whole.session)
            if made.state in _SETTLED:
                derived.settle(db, whole.session, made)
            elif made.state == SessionState.FAILED:
                writes.fail(db, id, made.reason)
            if whole.waiting is not None:
                writes.keep(db, whole.waiting)
                if whole.failure:
                    writes.fail(db, id, whole.failure)


def _take_forgotten(db: sqlite3.Connection, ids: Sequence[str]) -> None:
    with writing(db):
        db.executemany("INSERT OR IGNORE INTO forgotten (id) VALUES (?)", [(id,) for id in ids])


def wholes_in(db: sqlite3.Connection, ids: Sequence[str]) -> list[Whole]:
    found = [db.execute(_SESSIONS, (id,)).fetchone() for id in ids]
    return [_whole(db, row) for row in found if row is not None]


def _whole(db: sqlite3.Connection, row: Sequence[Any]) -> Whole:
    key, id, at, turns, state, reason, tokens, card_tokens, *changed = row
    cards = db.execute(
        f"SELECT {rows.CARD} FROM cards c JOIN sessions s ON s.key = c.session "
        "WHERE c.session = ? ORDER BY c.key",
        (key,),
    ).fetchall()
    held = db.execute(
        "SELECT subject, fact, reason FROM quarantine WHERE session = ? ORDER BY rowid", (key,)
    ).fetchall()
    passages, passage_vectors = _passages(db, key, id)
    return Whole(
        session=rows.session_of(id, at, turns),
        digested=Digested(
            state=SessionState(state),
            reason=reason,
            cards=[rows.card_of(card) for card in cards],
            card_vectors=_vectors(db, "card_chunks", key, len(cards)),
            passages=passages,
            passage_vectors=passage_vectors,
            quarantined=[rows.quarantined_of(each) for each in held],
            tokens=tokens,
            card_tokens=card_tokens,
        ),
        waiting=rows.session_of(id, changed[0], changed[1]) if changed[0] else None,
        failure=changed[3] or "" if changed[2] == SessionState.FAILED else "",
    )


def _passages(db: sqlite3.Connection, key: int, id: str) -> tuple[list[Passage], Vectors]:
    row = db.execute("SELECT spans FROM passage_chunks WHERE session = ?", (key,)).fetchone()
    if row is None:
        return [], _NONE
    passages = [
        Passage.model_construct(session_id=id, turn=turn, start=start, end=end)
        for turn, start, end in rows.spans_of(row[0]).tolist()
    ]
    return passages, _vectors(db, "passage_chunks", key, len(passages))


def _vectors(db: sqlite3.Connection, table: str, key: int, count: int) -> Vectors:
    row = db.execute(f"SELECT vectors FROM {table} WHERE session = ?", (key,)).fetchone()
    if row is None or row[0] is None or not count:
        return _NONE
    rows.check_packed(row[0], 4 * count)
    return np.frombuffer(row[0], np.float32).reshape(count, -1)
