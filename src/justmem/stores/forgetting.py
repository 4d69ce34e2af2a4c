"""Forgetting: what is gone leaves the file too."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

import numpy as np

from justmem.domain import Forgotten
from justmem.errors import NotInMemory, StoreBusy
from justmem.stores.connections import writing
from justmem.stores.derived import remove_derived
from justmem.stores.writes import session_key


def forget(db: sqlite3.Connection, cards: Sequence[str], sessions: Sequence[str]) -> Forgotten:
    with writing(db):
        gone = Forgotten()
        # Cards first: a card named beside its session must be known, and stays forgotten.
        for card_id in dict.fromkeys(cards):
            gone = _sum(gone, _forget_card(db, card_id))
        for session_id in dict.fromkeys(sessions):
            gone = _sum(gone, _forget_session(db, session_id))
        if cards or sessions:
            # Deleting only marks words as deleted; merging all segments drops them.
            db.execute("INSERT INTO card_words (card_words) VALUES ('optimize')")
            db.execute(
                "UPDATE space SET unswept = 1, generation = generation + 1, "
                "removals = removals + 1, "
                "(cards, tokens) = (SELECT total(cards), total(tokens) FROM sessions)"
            )
        if sessions:
            db.execute("INSERT INTO passage_words (passage_words) VALUES ('optimize')")
    return gone


def sweep(db: sqlite3.Connection) -> None:
    """Rewrites the file without what was forgotten. `secure_delete` blanks deleted rows, but when
    SQLite moves rows between pages it leaves copies in the gaps, which only VACUUM drops; the
    log holds earlier pages until it is copied back and cut."""
    (unswept,) = db.execute("SELECT unswept FROM space").fetchone()
    if unswept:
        db.execute("VACUUM")
        (busy, _, _) = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            raise StoreBusy("Another process has been reading for long: try again in a moment.")
        db.execute("UPDATE space SET unswept = 0")


def _sum(one: Forgotten, other: Forgotten) -> Forgotten:
    return Forgotten(
        cards=one.cards + other.cards,
        sessions=one.sessions + other.sessions,
        turns=one.turns + other.turns,
    )


def _forget_session(db: sqlite3.Connection, session_id: str) -> Forgotten:
    key = session_key(db, session_id)
    cards, turns = db.execute("SELECT cards, turns FROM sessions WHERE key = ?", (key,)).fetchone()
    remove_derived(db, key)
    for table in ("texts", "incoming"):
        db.execute(f"DELETE FROM {table} WHERE session = ?", (key,))
    db.execute("DELETE FROM sessions WHERE key = ?", (key,))
    return Forgotten(cards=cards, sessions=1, turns=turns)


def _forget_card(db: sqlite3.Connection, card_id: str) -> Forgotten:
    found = db.execute("SELECT key, session FROM cards WHERE id = ?", (card_id,)).fetchall()
    if not found:
        raise NotInMemory(f"There is no card {card_id!r} in this space.")
    for key, session in found:
        db.execute(
            "INSERT INTO card_words (card_words, rowid, text) "
            "SELECT 'delete', key, subject || ' ' || fact FROM cards WHERE key = ?",
            (key,),
        )
        db.execute("DELETE FROM cards WHERE key = ?", (key,))
        _drop_vector(db, session, key)
        db.execute(
            "UPDATE sessions SET card_tokens = card_tokens * (cards - 1) / cards, "
            "cards = cards - 1 WHERE key = ?",
            (session,),
        )
    db.execute("INSERT OR IGNORE INTO forgotten (id) VALUES (?)", (card_id,))
    return Forgotten(cards=len(found))


def _drop_vector(db: sqlite3.Connection, session: int, key: int) -> None:
    first, packed, vectors = db.execute(
        "SELECT first, keys, vectors FROM card_chunks WHERE session = ?", (session,)
    ).fetchone()
    keys = np.frombuffer(packed, np.int64)
    stay = keys != key
    if vectors is not None:
        vectors = np.frombuffer(vectors, np.float32).reshape(len(keys), -1)[stay].tobytes()
    if stay.any():
        db.execute(
            "UPDATE card_chunks SET keys = ?, vectors = ? WHERE first = ?",
            (keys[stay].tobytes(), vectors, first),
        )
    else:
        db.execute("DELETE FROM card_chunks WHERE first = ?", (first,))


def last_count(db: sqlite3.Connection) -> Forgotten:
    """What a space holds, taken while no one else writes, just before it is erased."""
    with writing(db):
        cards, sessions, turns = db.execute(
            "SELECT total(cards), count(*), total(turns) FROM sessions"
        ).fetchone()
    return Forgotten(cards=int(cards), sessions=sessions, turns=int(turns))
