"""Forgetting: what is gone leaves the file too."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence

import numpy as np

from justmem import tokens
from justmem.domain import Forgotten, Session
from justmem.errors import NotInMemory, StoreBusy
from justmem.ports import Place
from justmem.stores import rows, tombstones
from justmem.stores.connections import writing
from justmem.stores.derived import remove_derived
from justmem.stores.reads import card_texts, passage_texts
from justmem.stores.tombstones import FORGOTTEN_SINCE
from justmem.stores.writes import session_key


def forget(
    db: sqlite3.Connection,
    cards: Sequence[str],
    turns: Sequence[Place],
    sessions: Sequence[str],
    words: Sequence[str],
    subject: str | None,
) -> Forgotten:
    with writing(db):
        gone = Forgotten()
        # Cards first: a card named beside its session must be known, and stays forgotten.
        for card_id in dict.fromkeys(cards):
            gone = _sum(gone, _forget_card(db, card_id))
        for session_id, numbers in tombstones.by_session(turns).items():
            gone = _sum(gone, _forget_turns(db, session_id, numbers))
        for session_id in dict.fromkeys(words):
            gone = _sum(gone, _forget_words(db, session_id))
        for session_id in dict.fromkeys(sessions):
            gone = _sum(gone, _forget_session(db, session_id))
        if subject is not None:
            gone = _sum(gone, _forget_held(db, "fold(subject) = ?", subject.casefold()))
        if gone != Forgotten():
            db.execute(
                "UPDATE space SET unswept = 1, generation = generation + 1, "
                "removals = removals + 1, "
                "(cards, tokens) = (SELECT total(cards), total(tokens) FROM sessions)"
            )
            _merge_words(db)
    return gone


def _merge_words(db: sqlite3.Connection) -> None:
    """Deleting only marks words as deleted; merging all segments drops them."""
    for table in ("card_words", "passage_words"):
        db.execute(f"INSERT INTO {table} ({table}) VALUES ('optimize')")


def _keeps_marks(db: sqlite3.Connection) -> bool:
    """Whether this SQLite may keep the word of a deletion after merging: those later than 3.40
    were seen to."""
    (version,) = db.execute("SELECT sqlite_version()").fetchone()
    return tuple(map(int, version.split(".")[:2])) > (3, 40)


def _rebuild_words(db: sqlite3.Connection) -> None:
    """The indexes of words anew, from the words that are there."""
    for table, texts in (("card_words", card_texts(db)), ("passage_words", passage_texts(db))):
        said = list(texts)
        db.execute(f"INSERT INTO {table} ({table}) VALUES ('delete-all')")
        db.executemany(f"INSERT INTO {table} (rowid, text) VALUES (?, ?)", said)
    db.execute("UPDATE space SET unswept = max(unswept, 1)")


def sweep(db: sqlite3.Connection, *, thorough: bool = False) -> None:
    """Rewrites the file without what was forgotten, and without what is left of replaced words;
    `thorough`: even if these are all there is. `secure_delete` blanks deleted rows, but when
    SQLite moves rows between pages it leaves copies in the gaps, which only VACUUM drops; the
    log holds earlier pages until it is copied back and cut."""
    if thorough and _keeps_marks(db):
        with writing(db):
            _rebuild_words(db)
    unswept, replaced = db.execute("SELECT unswept, replaced FROM space").fetchone()
    if unswept or (thorough and replaced):
        if replaced:
            with writing(db):
                _merge_words(db)
        db.execute("VACUUM")
        (busy, _, _) = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            raise StoreBusy("Another process has been reading for long: try again in a moment.")
        db.execute("UPDATE space SET unswept = 0, replaced = 0")


def _sum(one: Forgotten, other: Forgotten) -> Forgotten:
    return Forgotten(
        cards=one.cards + other.cards,
        sessions=one.sessions + other.sessions,
        turns=one.turns + other.turns,
        quarantined=one.quarantined + other.quarantined,
    )


def _forget_session(db: sqlite3.Connection, session_id: str) -> Forgotten:
    key = session_key(db, session_id)
    cards, turns, held = db.execute(
        "SELECT cards, turns, quarantined FROM sessions WHERE key = ?", (key,)
    ).fetchone()
    remove_derived(db, key)
    for table in ("texts", "incoming"):
        db.execute(f"DELETE FROM {table} WHERE session = ?", (key,))
    db.execute("DELETE FROM sessions WHERE key = ?", (key,))
    return Forgotten(cards=cards, sessions=1, turns=turns, quarantined=held)


def _forget_words(db: sqlite3.Connection, session_id: str) -> Forgotten:
    current, _ = _texts_of(db, session_key(db, session_id), session_id)
    left = [number for number, turn in enumerate(current.turns, 1) if not turn.forgotten]
    return _forget_turns(db, session_id, left, keep_cards=True) if left else Forgotten()


def _forget_turns(
    db: sqlite3.Connection, session_id: str, numbers: Collection[int], *, keep_cards: bool = False
) -> Forgotten:
    """Their words, passages and vectors, and the cards that rest on them. Of the quarantined
    cards no one can tell what they rest on: those of the session go."""
    key = session_key(db, session_id)
    current, waiting = _texts_of(db, key, session_id)
    marks = [tombstones.mark(text, n) for text, n in tombstones.named(current, waiting, numbers)]
    db.executemany("INSERT OR IGNORE INTO forgotten (id) VALUES (?)", [(id,) for id in marks])
    gone = tombstones.marked(current, marks)
    count = Forgotten(turns=len(gone.union(numbers)))
    resting = db.execute("SELECT id, turns FROM cards WHERE session = ?", (key,)).fetchall()
    for card_id, turns in resting:
        if not keep_cards and not gone.isdisjoint(map(int, turns.split())):
            count = _sum(count, _forget_card(db, card_id))
    _drop_passages(db, key, current, gone)
    count = _sum(count, _forget_held(db, "session = ?", key))
    _rewrite(db, key, current.without(gone), waiting and tombstones.blanked(waiting, marks))
    return count


def _texts_of(db: sqlite3.Connection, key: int, session_id: str) -> tuple[Session, Session | None]:
    """The current text of a session, and one that waits."""
    at, turns, new_at, new = db.execute(
        "SELECT s.at, t.turns, i.at, i.turns FROM sessions s "
        "LEFT JOIN texts t ON t.session = s.key "
        "LEFT JOIN incoming i ON i.session = s.key WHERE s.key = ?",
        (key,),
    ).fetchone()
    current = rows.session_of(session_id, at, turns)
    return current, rows.session_of(session_id, new_at, new) if new is not None else None


def _rewrite(db: sqlite3.Connection, key: int, current: Session, waiting: Session | None) -> None:
    reason = "CASE reason WHEN '' THEN '' ELSE ? END"
    db.execute(
        f"UPDATE sessions SET digest = ?, reason = {reason}, tokens = min(tokens, ?) WHERE key = ?",
        (current.digest, FORGOTTEN_SINCE, tokens.said(current), key),
    )
    db.execute("UPDATE texts SET turns = ? WHERE session = ?", (rows.turns_text(current), key))
    if waiting is None:
        return
    if waiting.digest == current.digest:  # the turn was all that had changed
        db.execute("DELETE FROM incoming WHERE session = ?", (key,))
        return
    db.execute(
        f"UPDATE incoming SET digest = ?, reason = {reason}, turns = ? WHERE session = ?",
        (waiting.digest, FORGOTTEN_SINCE, rows.turns_text(waiting), key),
    )


def _drop_passages(
    db: sqlite3.Connection, key: int, current: Session, gone: Collection[int]
) -> None:
    for first, packed, spans_, vectors in db.execute(
        "SELECT first, keys, spans, vectors FROM passage_chunks WHERE session = ?", (key,)
    ).fetchall():
        keys, spans = np.frombuffer(packed, np.int64), rows.spans_of(spans_)
        stay = ~np.isin(spans[:, 0], list(gone))
        db.executemany(
            "INSERT INTO passage_words (passage_words, rowid, text) VALUES ('delete', ?, ?)",
            zip(keys[~stay].tolist(), rows.passage_texts(current.turns, spans[~stay]), strict=True),
        )
        if not stay.any():
            db.execute("DELETE FROM passage_chunks WHERE first = ?", (first,))
            continue
        if vectors is not None:
            vectors = np.frombuffer(vectors, np.float32).reshape(len(keys), -1)[stay].tobytes()
        db.execute(
            "UPDATE passage_chunks SET keys = ?, spans = ?, vectors = ? WHERE first = ?",
            (keys[stay].tobytes(), spans[stay].tobytes(), vectors, first),
        )


def _forget_held(db: sqlite3.Connection, which: str, *values: object) -> Forgotten:
    """Quarantined cards."""
    gone = db.execute(f"DELETE FROM quarantine WHERE {which}", values).rowcount
    if gone:
        db.execute(
            "UPDATE sessions SET quarantined = "
            "(SELECT count(*) FROM quarantine q WHERE q.session = sessions.key)"
        )
    return Forgotten(quarantined=gone)


def _forget_card(db: sqlite3.Connection, card_id: str) -> Forgotten:
    found = db.execute(
        "SELECT key, session, subject, fact FROM cards WHERE id = ?", (card_id,)
    ).fetchall()
    if not found:
        raise NotInMemory(f"There is no card {card_id!r} in this space.")
    gone = Forgotten(cards=len(found))
    for key, session, *said in found:
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
        same = "session = ? AND subject = ? AND fact = ?"
        gone = _sum(gone, _forget_held(db, same, session, *said))
    db.execute("INSERT OR IGNORE INTO forgotten (id) VALUES (?)", (card_id,))
    return gone


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
        cards, sessions, turns, held = db.execute(
            "SELECT total(cards), count(*), total(turns), total(quarantined) FROM sessions"
        ).fetchone()
    return Forgotten(cards=int(cards), sessions=sessions, turns=int(turns), quarantined=int(held))
