"""A space's embedder, its sessions as they come in, and its ledger. Each function here, in
`derived` and in `forgetting` is one transaction of the connection it gets."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import date

from justmem.domain import Session, SessionRecord, SessionState
from justmem.errors import EmbedderMismatch, NotInMemory
from justmem.ports import BEGUN
from justmem.stores import rows
from justmem.stores.connections import writing
from justmem.stores.reads import blanked, record

PENDING, FAILED = SessionState.PENDING, SessionState.FAILED


def bind(db: sqlite3.Connection, embedder: str, dim: int) -> None:
    if _bound(db) == (embedder, dim):  # the usual case, and one that waits for no writer
        return
    with writing(db):
        stored, size = _bound(db)
        if (stored or size != dim) and _has_vectors(db):
            raise EmbedderMismatch(
                f"The vectors of this space come from {stored or 'another embedder'} ({size} "
                f"dimensions), the embedder is now {embedder} ({dim}): go back to the former, "
                "or run `justmem reembed` to embed everything again with the new one."
            )
        db.execute("UPDATE space SET embedder = ?, dim = ?", (embedder, dim))


def _bound(db: sqlite3.Connection) -> tuple[str, int]:
    embedder, dim = db.execute("SELECT embedder, dim FROM space").fetchone()
    return embedder, dim


def _has_vectors(db: sqlite3.Connection) -> bool:
    tables = ("card_chunks", "passage_chunks")
    query = " UNION ALL ".join(f"SELECT 1 FROM {t} WHERE vectors IS NOT NULL" for t in tables)
    (there,) = db.execute(f"SELECT EXISTS ({query})").fetchone()
    return bool(there)


# ---------------------------------------------------------------- sessions


def keep(db: sqlite3.Connection, session: Session) -> SessionRecord:
    with writing(db):
        session = blanked(db, session)
        digest, turns = session.digest, rows.turns_text(session)
        known = db.execute(
            "SELECT key, digest, state FROM sessions WHERE id = ?", (session.id,)
        ).fetchone()
        if known is None:
            key = add_session(db, session, digest)
            db.execute("INSERT INTO texts (session, turns) VALUES (?, ?)", (key, turns))
        elif known[1] == digest:
            # Said again as it stands: a change that was waiting is taken back.
            if db.execute("DELETE FROM incoming WHERE session = ?", (known[0],)).rowcount:
                leave_traces(db)
        elif known[2] in (PENDING, FAILED):
            leave_traces(db)
            make_current(db, known[0], session, digest, turns, PENDING)
        else:
            _let_wait(db, known[0], session, digest, turns)
        return record(db, session.id)


def add_session(db: sqlite3.Connection, session: Session, digest: str) -> int:
    at = session.at
    added = db.execute(
        "INSERT INTO sessions (id, at, instant, day, digest, state, turns) "
        "VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            session.id,
            at.isoformat(),
            rows.instant(at),
            rows.day(at),
            digest,
            PENDING,
            len(session.turns),
        ),
    )
    assert added.lastrowid is not None
    return added.lastrowid


def make_current(
    db: sqlite3.Connection,
    key: int,
    session: Session,
    digest: str,
    turns: str,
    state: SessionState,
    reason: str = "",
) -> None:
    at = session.at
    db.execute(
        "UPDATE sessions SET at = ?, instant = ?, day = ?, digest = ?, turns = ?, state = ?, "
        "reason = ?, spent = 0 WHERE key = ?",
        (
            at.isoformat(),
            rows.instant(at),
            rows.day(at),
            digest,
            len(session.turns),
            state,
            reason,
            key,
        ),
    )
    db.execute("UPDATE texts SET turns = ? WHERE session = ?", (turns, key))


def _let_wait(db: sqlite3.Connection, key: int, session: Session, digest: str, turns: str) -> None:
    """Where this very text is waiting already, it keeps its state."""
    if db.execute("DELETE FROM incoming WHERE session = ? AND digest <> ?", (key, digest)).rowcount:
        leave_traces(db)
    at = session.at
    db.execute(
        "INSERT OR IGNORE INTO incoming (session, at, instant, digest, state, length, turns) "
        "VALUES (?, ?, ?, ?, ?, ?, ?)",
        (key, at.isoformat(), rows.instant(at), digest, PENDING, len(session.turns), turns),
    )


def leave_traces(db: sqlite3.Connection) -> None:
    """Words were replaced: what is left of them in the file goes with the next sweep. Unlike
    after `forget` that need not be at the next opening."""
    db.execute("UPDATE space SET replaced = 1 WHERE replaced = 0")


def fail(db: sqlite3.Connection, session_id: str, reason: str) -> None:
    """Marks the text that waits for its cards; one that has them keeps them."""
    with writing(db):
        key = session_key(db, session_id)
        marked = db.execute(
            "UPDATE incoming SET state = ?, reason = ? WHERE session = ?", (FAILED, reason, key)
        )
        if not marked.rowcount:
            db.execute(
                "UPDATE sessions SET state = ?, reason = ? WHERE key = ? AND state IN (?, ?)",
                (FAILED, reason, key, PENDING, FAILED),
            )


def begin(db: sqlite3.Connection, session_id: str) -> None:
    """Marks the text that waits for its cards."""
    with writing(db):
        key = session_key(db, session_id)
        marked = db.execute(
            "UPDATE incoming SET reason = ? WHERE session = ? AND state = ?", (BEGUN, key, PENDING)
        )
        if not marked.rowcount:
            db.execute(
                "UPDATE sessions SET reason = ? WHERE key = ? AND state = ?", (BEGUN, key, PENDING)
            )


def session_key(db: sqlite3.Connection, session_id: str) -> int:
    found = db.execute("SELECT key FROM sessions WHERE id = ?", (session_id,)).fetchone()
    if found is None:
        raise NotInMemory(f"There is no session {session_id!r} in this space.")
    return int(found[0])


# ---------------------------------------------------------------- the ledger


def reserve(db: sqlite3.Connection, day: date, tokens: int, limit: int) -> bool:
    with writing(db):
        done = db.execute(
            "INSERT INTO spending (day, reserved) SELECT ?1, ?2 WHERE ?2 <= ?3 "
            "ON CONFLICT (day) DO UPDATE SET reserved = reserved + excluded.reserved "
            "WHERE tokens + reserved + excluded.reserved <= ?3",
            (day.isoformat(), tokens, limit),
        )
        return done.rowcount > 0


def spend(
    db: sqlite3.Connection, day: date, tokens: int, reserved: int, session: str | None
) -> None:
    with writing(db):
        db.execute(
            "INSERT INTO spending (day, tokens) VALUES (?1, ?2) ON CONFLICT (day) DO UPDATE SET "
            "tokens = tokens + excluded.tokens, reserved = max(0, reserved - ?3)",
            (day.isoformat(), tokens, reserved),
        )
        if session is not None:
            _spend_on(db, session, tokens)


def _spend_on(db: sqlite3.Connection, session_id: str, tokens: int) -> None:
    """On the text that waits for its cards; one that was forgotten meanwhile is no one's."""
    key = db.execute("SELECT key FROM sessions WHERE id = ?", (session_id,)).fetchone()
    if key is not None:
        entered = db.execute(
            "UPDATE incoming SET spent = spent + ? WHERE session = ?", (tokens, *key)
        )
        if not entered.rowcount:
            db.execute("UPDATE sessions SET spent = spent + ? WHERE key = ?", (tokens, *key))


def log(db: sqlite3.Connection, entries: Sequence[tuple[int, str, str]]) -> None:
    with writing(db):
        db.executemany("INSERT INTO audit VALUES (?, ?, '', '', ?, '', '', '')", entries)
