"""Spaces that keep cards but not the words they were made from, in an SQLite file."""

from __future__ import annotations

import sqlite3

import numpy as np

from justmem.domain import Forgotten, SessionState, Sources
from justmem.errors import InvalidSetting, SourceNotKept
from justmem.stores import rows
from justmem.stores.connections import writing

_SETTLED = (SessionState.STORED, SessionState.EMPTY)


def not_kept(session_id: str) -> SourceNotKept:
    return SourceNotKept(
        f"The words of session {session_id!r} are not kept: this space keeps cards without their "
        "sources. Its cards are there."
    )


def not_fresh() -> InvalidSetting:
    return InvalidSetting(
        "This space holds sessions and keeps their words: `justmem drop-sources` lets them go, "
        "or leave the setting sources away."
    )


def policy(db: sqlite3.Connection) -> Sources:
    (found,) = db.execute("SELECT sources FROM space").fetchone()
    return "drop" if found == "drop" else "keep"


def drop(db: sqlite3.Connection, fresh: bool) -> Forgotten:
    with writing(db):
        if fresh and policy(db) == "drop":
            return Forgotten()
        if fresh and db.execute("SELECT EXISTS (SELECT 1 FROM sessions)").fetchone()[0]:
            raise not_fresh()
        settled = db.execute(
            "SELECT s.key, s.turns FROM sessions s JOIN texts t ON t.session = s.key "
            "WHERE s.state IN (?, ?)",
            _SETTLED,
        ).fetchall()
        if policy(db) == "drop" and not settled:
            return Forgotten()
        for key, _ in settled:
            remove_passages(db, key)
            db.execute("DELETE FROM texts WHERE session = ?", (key,))
        db.execute("UPDATE space SET sources = 'drop'")
        if settled:
            db.execute("INSERT INTO passage_words (passage_words) VALUES ('optimize')")
            db.execute(
                "UPDATE space SET unswept = 1, generation = generation + 1, removals = removals + 1"
            )
    return Forgotten(turns=sum(turns for _, turns in settled))


def remove_passages(db: sqlite3.Connection, key: int) -> bool:
    """Whether there were any. Contentless word indexes need the words they are to drop."""
    for passage_keys, spans in db.execute(
        "SELECT keys, spans FROM passage_chunks WHERE session = ?", (key,)
    ).fetchall():
        (turns,) = db.execute("SELECT turns FROM texts WHERE session = ?", (key,)).fetchone()
        db.executemany(
            "INSERT INTO passage_words (passage_words, rowid, text) VALUES ('delete', ?, ?)",
            zip(
                np.frombuffer(passage_keys, np.int64).tolist(),
                rows.passage_texts(rows.turns_of(turns), rows.spans_of(spans)),
                strict=True,
            ),
        )
    return db.execute("DELETE FROM passage_chunks WHERE session = ?", (key,)).rowcount > 0
