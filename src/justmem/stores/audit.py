"""The audit in SQLite: entries are added, inside the transaction of what they tell of."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from typing import Any

from justmem.domain import Entry
from justmem.ports import Deed, EntryFilter
from justmem.stores.connections import writing
from justmem.stores.notes import chain, entry_of, instant, mark

_COLUMNS = "number, at, actor, verb, targets, counts, before, hash"


def key(db: sqlite3.Connection) -> bytes:
    """Of the marks."""
    return bytes(db.execute("SELECT key FROM audit_key").fetchone()[0])


def enter(key: bytes, deeds: Sequence[Deed], db: sqlite3.Connection) -> list[Entry]:
    """Inside a transaction."""
    if not deeds:
        return []
    last = db.execute("SELECT number, hash FROM audit ORDER BY number DESC LIMIT 1").fetchone()
    number, before = last or (0, "")
    made = []
    for deed in deeds:
        number += 1
        targets = tuple(mark(key, id) for id in deed.targets)
        made.append(chain(number, deed, targets, before))
        before = made[-1].hash
    db.executemany(
        f"INSERT INTO audit ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", map(_row, made)
    )
    return made


def _row(entry: Entry) -> tuple[Any, ...]:
    at, targets, counts = instant(entry.at), " ".join(entry.targets), json.dumps(entry.counts)
    return entry.number, at, entry.actor, entry.verb, targets, counts, entry.before, entry.hash


def note(key: bytes, deeds: Sequence[Deed], db: sqlite3.Connection) -> None:
    """What was read. A power failure may take the last of these back, and nothing else: they do
    not wait for the disk, which the next change does for them."""
    db.execute("PRAGMA synchronous = NORMAL")
    try:
        with writing(db):
            enter(key, deeds, db)
    finally:
        db.execute("PRAGMA synchronous = FULL")


def entries(key: bytes, where: EntryFilter, db: sqlite3.Connection) -> list[Entry]:
    conditions, values = ["number > ?"], [where.after]
    asked: list[tuple[str, Any]] = [
        ("number < ?", where.before),
        ("at >= ?", where.since and instant(where.since)),
        ("instr(targets, ?)", where.target and mark(key, where.target)),
    ]
    for condition, value in asked:
        if value is not None:
            conditions.append(condition)
            values.append(value)
    order = "DESC" if where.latest else "ASC"
    found = db.execute(
        f"SELECT {_COLUMNS} FROM audit WHERE {' AND '.join(conditions)} "
        f"ORDER BY number {order} LIMIT ?",
        (*values, where.limit),
    )
    made = [entry_of(row) for row in found]
    return made[::-1] if where.latest else made
