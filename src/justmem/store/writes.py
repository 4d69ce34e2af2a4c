"""Writes to a space, except forgetting. Each function runs inside the caller's transaction.

`schema.py` explains the two texts of a session: the current one and the waiting one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime
from typing import NamedTuple

from justmem.domain import (
    Session,
    SessionRecord,
    SessionState,
    Turn,
)
from justmem.errors import InvalidSession, NotInMemory
from justmem.ports import BEGUN, Derived, SpaceMetadata, StoredSession, tombstones
from justmem.ports.tombstones import FORGOTTEN_SINCE
from justmem.store import log, reads, rows
from justmem.store.derived import mark_replaced, put_derived
from justmem.store.engine import Connection, one, row
from justmem.store.rows import SETTLED
from justmem.store.session_index import TERMS

PENDING, FAILED = SessionState.PENDING, SessionState.FAILED
_LONGEST_PAUSE, _FIRST_PAUSE = 3600.0, 60.0  # seconds until a worker tries a failed session again


def create(db: Connection) -> None:
    db.run(
        "INSERT INTO spaces (space, terms) VALUES (?, ?) ON CONFLICT (space) DO NOTHING",
        db.space,
        TERMS,
    )


# ---------------------------------------------------------------- sessions


def keep(db: Connection, session: Session) -> SessionRecord:
    if _keep(db, session):
        log.add(db, "keep", [session.id], turns=len(session.turns))
    return reads.record(db, session.id)


def _keep(db: Connection, session: Session) -> bool:
    """Stores the text unless it is stored already. Returns whether it was written."""
    session = reads.blanked(db, session)
    texts = texts_of(db, session.id)
    if 0 not in texts:
        _write(db, session, 0, PENDING)
        return True
    if texts[0].digest == session.digest:
        # The session is back at its current text: drop a waiting change.
        if 1 in texts and texts[1].digest != session.digest:
            remove_text(db, session.id, 1)
        if texts[0].state in SETTLED:
            _dequeue(db, session.id)
        _label(db, session)
        return False
    draft = int(texts[0].state in SETTLED)
    if draft in texts and texts[draft].digest == session.digest:
        _label(db, session)
        return False
    _write(db, session, draft, PENDING)
    return True


def rebuild(db: Connection, session_id: str | None = None) -> list[str]:
    """Queues sessions for new cards: copies the current text to the waiting one."""
    listed = reads.sessions(db) if session_id is None else [reads.record(db, session_id)]
    waiting = [each.id for each in listed if _is_rebuilt(texts_of(db, each.id))]
    if waiting:
        return waiting
    for session in reads.texts(db, [each.id for each in listed if not each.is_note]).values():
        texts = texts_of(db, session.id)
        settled = texts[0].state in SETTLED
        if settled and not all(turn.forgotten for turn in session.turns):
            if 1 not in texts:  # newer words that wait already stay
                _write(db, session, 1, PENDING)
            waiting.append(session.id)
    log.add(db, "rebuild", waiting, sessions=len(waiting))
    return waiting


def _is_rebuilt(texts: dict[int, _Text]) -> bool:
    return len(texts) == 2 and texts[0].digest == texts[1].digest


def _label(db: Connection, session: Session) -> None:
    """Replaces the labels. A session without labels keeps those that are stored."""
    if session.labels or session.is_note:
        labels = rows.labels_row(session.labels)
        changed = db.run(
            "UPDATE sessions SET labels = ? WHERE space = ? AND id = ? AND labels <> ?",
            *(labels, db.space, session.id, labels),
        )
        if changed:  # invalidate cached sessions
            db.run("UPDATE spaces SET removals = removals + 1 WHERE space = ?", db.space)


def append(
    db: Connection, session_id: str, turns: Sequence[Turn], *, at: datetime | None = None
) -> SessionRecord:
    """Adds turns. Skips turns whose key is stored already. Turns without a time that are added on
    a later day than the session's take place at `at`."""
    known = reads.texts(db, [session_id], newest=True).get(session_id)
    if known is None:
        if at is None:
            raise InvalidSession(
                f"There is no session {session_id!r} yet: say with at= when it takes place."
            )
        known = Session(id=session_id, at=at, turns=())
    keys = {turn.key for turn in known.turns if turn.key is not None}
    fresh: list[Turn] = []
    later = {"at": at} if at is not None and at.date() > known.at.date() else {}
    for turn in turns:
        if turn.key is None or turn.key not in keys:
            fresh.append(turn if turn.at else turn.model_copy(update=later))
            keys.add(turn.key or "")
    if _keep(db, known.model_copy(update={"turns": (*known.turns, *fresh)})):
        log.add(db, "append", [session_id], turns=len(fresh))
    return reads.record(db, session_id)


class _Text(NamedTuple):
    """The row of a session's text."""

    digest: str
    state: str
    number: int
    cards: int
    tokens: int


def texts_of(db: Connection, session_id: str) -> dict[int, _Text]:
    """By draft."""
    found = db.rows(
        "SELECT draft, digest, state, number, cards, tokens FROM sessions "
        "WHERE space = ? AND id = ?",
        *(db.space, session_id),
    )
    return {draft: _Text(*rest) for draft, *rest in found}


def _write(
    db: Connection, session: Session, draft: int, state: SessionState, reason: str = ""
) -> None:
    """Writes or replaces one of the two texts, and queues the session for cards."""
    known = texts_of(db, session.id)
    if draft in known:
        mark_replaced(db)
    number = known[0].number if known else _next_number(db)
    at = session.at
    until = session.until.isoformat() if session.until else ""
    labels = session.labels
    if known and not labels and not session.is_note:
        labels = reads.record(db, session.id).labels
    values = (at.isoformat(), rows.instant(at), session.digest, state, reason)
    db.run(
        "INSERT INTO sessions (space, id, draft, number, at, instant, digest, state, reason, "
        "turns, labels, until) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
        "ON CONFLICT (space, id, draft) DO UPDATE "
        "SET at = excluded.at, instant = excluded.instant, "
        "digest = excluded.digest, state = excluded.state, reason = excluded.reason, "
        "turns = excluded.turns, spent = 0, labels = excluded.labels, until = excluded.until",
        *(db.space, session.id, draft, number, *values, len(session.turns)),
        *(rows.labels_row(labels), until),
    )
    write_turns(db, session, draft)
    _enqueue(db, session.id)


def write_turns(db: Connection, session: Session, draft: int) -> None:
    where = (db.space, session.id, draft)
    db.run("DELETE FROM turns WHERE space = ? AND session = ? AND draft = ?", *where)
    db.run_many(
        f"INSERT INTO turns (space, session, draft, number, {rows.TURN}) VALUES",
        [(*where, n, *rows.turn_row(turn)) for n, turn in enumerate(session.turns, 1)],
    )


def _next_number(db: Connection) -> int:
    (number,) = one(db, "SELECT next_session FROM spaces WHERE space = ?", db.space)
    db.run("UPDATE spaces SET next_session = next_session + 1 WHERE space = ?", db.space)
    return int(number)


def remove_text(db: Connection, session_id: str, draft: int) -> None:
    where = (db.space, session_id, draft)
    db.run("DELETE FROM turns WHERE space = ? AND session = ? AND draft = ?", *where)
    db.run("DELETE FROM sessions WHERE space = ? AND id = ? AND draft = ?", *where)
    mark_replaced(db)


def replace_session(db: Connection, before: StoredSession, after: StoredSession | None) -> None:
    """Writes what is left of a session. None: nothing."""
    id = before.session.id
    if after is None:
        put_derived(db, before.session, Derived(before.derived.state))
        for draft in (0, 1):
            remove_text(db, id, draft)
        db.run("DELETE FROM queue WHERE space = ? AND session = ?", db.space, id)
        return
    _rewrite(db, before.session, after.session, 0)
    if before.derived.state in SETTLED:
        put_derived(db, after.session, after.derived)
    if before.waiting is None:
        return
    if after.waiting is None:
        remove_text(db, id, 1)
        db.run("DELETE FROM queue WHERE space = ? AND session = ?", db.space, id)
    else:
        _rewrite(db, before.waiting, after.waiting, 1)


def _rewrite(db: Connection, before: Session, after: Session, draft: int) -> None:
    """Removes words of a text. Its reason may quote them."""
    if before.digest == after.digest:
        return
    write_turns(db, after, draft)
    db.run(
        "UPDATE sessions SET digest = ?, reason = CASE reason WHEN '' THEN '' ELSE ? END "
        "WHERE space = ? AND id = ? AND draft = ?",
        *(after.digest, FORGOTTEN_SINCE, db.space, after.id, draft),
    )


def _fail(db: Connection, session_id: str, reason: str) -> None:
    """Marks the waiting text as failed; does nothing if the newest text has its cards. Workers try
    again, each time after a longer pause."""
    draft, state = _newest(db, session_id)
    if state in SETTLED:
        return
    db.run(
        "UPDATE sessions SET state = ?, reason = ? WHERE space = ? AND id = ? AND draft = ?",
        *(FAILED, reason, db.space, session_id, draft),
    )
    found = row(
        db, "SELECT attempts FROM queue WHERE space = ? AND session = ?", db.space, session_id
    )
    pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(found[0] if found else 0, 10))
    db.run(
        "UPDATE queue SET owner = '', due = ? WHERE space = ? AND session = ?",
        *(db.seconds() + pause, db.space, session_id),
    )


def _begin(db: Connection, session_id: str) -> None:
    draft, state = _newest(db, session_id)
    if state == PENDING:
        db.run(
            "UPDATE sessions SET reason = ? WHERE space = ? AND id = ? AND draft = ?",
            *(BEGUN, db.space, session_id, draft),
        )


def _newest(db: Connection, session_id: str) -> tuple[int, str]:
    texts = texts_of(db, session_id)
    if not texts:
        raise NotInMemory(f"There is no session {session_id!r} in this space.")
    return max(texts), texts[max(texts)].state


# ---------------------------------------------------------------- cards of a session


def settle(db: Connection, session: Session, derived: Derived) -> None:
    if derived.state == FAILED:
        _fail(db, session.id, derived.reason)
        log.add(db, "fail", [session.id])
        return
    if reads.corrections(db, session.id) != [*derived.corrections]:
        raise _changed(session.id)
    _settle(db, session, derived)
    cards = [card.id for card in derived.cards]
    log.add(db, "settle", [session.id, *cards], cards=len(cards))


def _settle(db: Connection, session: Session, derived: Derived) -> None:
    """A text that was replaced or forgotten while its cards were made must not come back."""
    texts = texts_of(db, session.id)
    draft = next((n for n in (1, 0) if n in texts and texts[n].digest == session.digest), None)
    if draft is None:
        raise _changed(session.id)
    if draft == 1:
        _move_draft(db, session.id, texts[0])
    put_derived(db, session, derived)
    _dequeue(db, session.id)


def _changed(session_id: str) -> NotInMemory:
    return NotInMemory(
        f"Session {session_id!r} was changed or forgotten while its cards were being made: "
        "remember it again if it should stay."
    )


def _move_draft(db: Connection, session_id: str, replaced: _Text) -> None:
    remove_text(db, session_id, 0)
    where = (db.space, session_id)
    db.run("UPDATE turns SET draft = 0 WHERE space = ? AND session = ? AND draft = 1", *where)
    db.run(
        "UPDATE sessions SET draft = 0, number = ?, cards = ?, tokens = ? "
        "WHERE space = ? AND id = ? AND draft = 1",
        *(replaced.number, replaced.cards, replaced.tokens, *where),
    )


# ---------------------------------------------------------------- whole sessions


def put(
    db: Connection, sessions: Sequence[StoredSession], metadata: SpaceMetadata | None = None
) -> None:
    """Stores sessions of another store, without what was forgotten here."""
    if metadata is not None:
        remember_forgotten(db, metadata.forgotten)
        known = dict(reads.spending(db))
        for day, tokens in metadata.spending:
            enter(db, day, max(0, tokens - known.get(day, 0)), 0)
    if not sessions:
        return
    gone = set(reads.forgotten(db))
    for whole in sessions:
        _put(db, tombstones.remove_forgotten(whole, gone))
    cards = sum(len(whole.derived.cards) for whole in sessions)
    ids = [whole.session.id for whole in sessions]
    log.add(db, "load", ids, sessions=len(ids), cards=cards)


def remember_forgotten(db: Connection, ids: Sequence[str]) -> None:
    """Ids of cards and marks of turns."""
    db.run_many(
        "INSERT INTO forgotten (space, prefix, id) VALUES",
        [(db.space, tombstones.prefix_of(id), id) for id in dict.fromkeys(ids)],
        "ON CONFLICT (space, prefix, id) DO NOTHING",
    )


def _put(db: Connection, whole: StoredSession) -> None:
    _keep(db, whole.session)
    if whole.derived.state == FAILED:
        _fail(db, whole.session.id, whole.derived.reason)
    elif whole.derived.state != PENDING:
        _settle(db, whole.session, whole.derived)
    if whole.waiting is not None:
        _keep(db, whole.waiting)
        if whole.failure:
            _fail(db, whole.session.id, whole.failure)


# ---------------------------------------------------------------- sessions that wait


def _enqueue(db: Connection, session_id: str) -> None:
    db.run(
        "INSERT INTO queue (space, session, due) VALUES (?, ?, ?) ON CONFLICT (space, session) "
        "DO UPDATE SET due = excluded.due, owner = '', attempts = 0",
        *(db.space, session_id, db.seconds()),
    )


def _dequeue(db: Connection, session_id: str) -> None:
    """Removes the session from the queue, unless a newer text waits."""
    db.run(
        "DELETE FROM queue WHERE space = ? AND session = ? AND NOT EXISTS "
        "(SELECT 1 FROM sessions WHERE space = ? AND id = ? AND draft = 1)",
        *(db.space, session_id) * 2,
    )


def claim(
    db: Connection, session_id: str, owner: str, lease: float, is_dead: Callable[[str], bool]
) -> bool:
    """Leases a session to whoever makes its cards, or renews the lease. False if another owner has
    it, or if its cards are made."""
    found = row(
        db, "SELECT owner, due FROM queue WHERE space = ? AND session = ?", db.space, session_id
    )
    if found is None:
        return False
    holder, due = found
    now = db.seconds()
    if holder not in ("", owner) and due > now and not is_dead(holder):
        return False
    db.run(
        "UPDATE queue SET owner = ?, due = ? WHERE space = ? AND session = ?",
        *(owner, now + lease, db.space, session_id),
    )
    _begin(db, session_id)
    return True


def release(db: Connection, session_id: str, owner: str) -> None:
    db.run(
        "UPDATE queue SET owner = '', due = ? WHERE space = ? AND session = ? AND owner = ?",
        *(db.seconds(), db.space, session_id, owner),
    )


# ---------------------------------------------------------------- tokens spent, by day


def spend(
    db: Connection,
    day: date,
    tokens: int = 0,
    *,
    reserve: int = 0,
    limit: int | None = None,
    least: int = 0,
    session: str | None = None,
) -> int:
    if limit is not None:
        left = max(0, limit - sum(_entered(db, day)) - tokens)
        reserve = min(reserve, left) if left >= least else 0
    enter(db, day, tokens, reserve)
    if session is not None:  # no row if it was forgotten meanwhile
        db.run(
            "UPDATE sessions SET spent = spent + ? WHERE space = ? AND id = ? AND draft = "
            "(SELECT max(draft) FROM sessions WHERE space = ? AND id = ?)",
            *(tokens, *(db.space, session) * 2),
        )
    return reserve


def _entered(db: Connection, day: date) -> tuple[int, int]:
    """Spent and reserved."""
    found = row(
        db,
        "SELECT tokens, reserved FROM spending WHERE space = ? AND day = ?",
        *(db.space, day.isoformat()),
    )
    return (found[0], found[1]) if found else (0, 0)


def enter(db: Connection, day: date, tokens: int, reserved: int) -> None:
    if not tokens and not reserved:
        return
    spent, held = _entered(db, day)
    db.run(
        "INSERT INTO spending (space, day, tokens, reserved) VALUES (?, ?, ?, ?) "
        "ON CONFLICT (space, day) DO UPDATE "
        "SET tokens = excluded.tokens, reserved = excluded.reserved",
        *(db.space, day.isoformat(), spent + tokens, max(0, held + reserved)),
    )
