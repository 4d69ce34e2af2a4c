"""Writes to a space, except forgetting. Each function runs inside the caller's transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date, datetime

from justmem.domain import NOTE, Session, SessionRecord, SessionState, Turn, marks
from justmem.errors import InvalidSession, NotInMemory
from justmem.ports import BEGUN, Derived, SpaceMetadata, StoredSession
from justmem.store import log, reads, rows
from justmem.store.derived import put_derived
from justmem.store.engine import Connection, one, row
from justmem.store.rows import SETTLED

PENDING, FAILED = SessionState.PENDING, SessionState.FAILED
_LONGEST_PAUSE, _FIRST_PAUSE = 3600.0, 60.0  # seconds until a worker tries a failed session again


def create(db: Connection) -> None:
    db.run("INSERT INTO spaces (space) VALUES (?) ON CONFLICT (space) DO NOTHING", db.space)


# ---------------------------------------------------------------- sessions


def keep(db: Connection, session: Session) -> SessionRecord:
    if _keep(db, session):
        log.add(db, "keep", [session.id], turns=len(session.turns))
    return reads.record(db, session.id)


def _keep(db: Connection, session: Session) -> bool:
    """Stores the text unless it is stored already. Returns whether it was written."""
    session = reads.blanked(db, session)
    known = row(db, "SELECT digest FROM sessions WHERE space = ? AND id = ?", db.space, session.id)
    if known is not None and known[0] == session.digest:
        _label(db, session)
        return False
    start = 0
    if known is None:
        _insert(db, session)
    else:
        start = session.grown_from(reads.texts(db, [session.id], checked=False)[session.id])
        _update(db, session, start)
    _put_turns(db, session, start)
    return True


def _put_turns(db: Connection, session: Session, start: int = 0) -> None:
    db.run_many(
        f"INSERT INTO turns (space, session, number, {rows.TURN}) VALUES",
        [
            (db.space, session.id, n, *rows.turn_row(turn))
            for n, turn in enumerate(session.turns[start:], start + 1)
        ],
    )


def _insert(db: Connection, session: Session) -> None:
    (number,) = one(db, "SELECT next_session FROM spaces WHERE space = ?", db.space)
    db.run("UPDATE spaces SET next_session = next_session + 1 WHERE space = ?", db.space)
    db.run(
        "INSERT INTO sessions (space, id, number, at, instant, digest, turns, until, labels, "
        "state, due) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        *(db.space, session.id, number, *_head(session), rows.labels_row(session.labels)),
        *(PENDING, db.seconds()),
    )


def _update(db: Connection, session: Session, start: int) -> None:
    """Writes the head of a changed session. Keeps the first `start` turns, and their cards. If
    there are none, removes what was derived from the text, except for the corrections."""
    _label(db, session)
    db.run(
        "UPDATE sessions SET reason = '', spent = 0, at = ?, instant = ?, digest = ?, turns = ?, "
        "until = ? WHERE space = ? AND id = ?",
        *(*_head(session), db.space, session.id),
    )
    _wait(db, session.id)
    if not start:
        (whole,) = reads.whole_sessions(db, [session.id])
        put_derived(db, session, _without_words(whole.derived, session))
        db.run("UPDATE sessions SET done = 0 WHERE space = ? AND id = ?", db.space, session.id)
        db.run("DELETE FROM turns WHERE space = ? AND session = ?", db.space, session.id)


def _wait(db: Connection, session_id: str) -> None:
    """Cards are to be made."""
    db.run(
        "UPDATE sessions SET state = ?, due = ?, owner = '', attempts = 0 "
        "WHERE space = ? AND id = ?",
        *(PENDING, db.seconds(), db.space, session_id),
    )


def _without_words(made: Derived, session: Session) -> Derived:
    """The cards whose turns were all forgotten: they cannot be made again."""
    gone = {number for number, turn in enumerate(session.turns, 1) if turn.forgotten}
    stay = [n for n, card in enumerate(made.cards) if gone.issuperset(card.turns)]
    return replace(made.select(stay, []), quarantined=(), tokens=0)


def _head(session: Session) -> tuple[str, float, str, int, str]:
    at, until = session.at.isoformat(), rows.until_row(session.until)
    return at, rows.instant(session.at), session.digest, len(session.turns), until


def rebuild(db: Connection, session_id: str | None = None) -> list[str]:
    """A session that waits although all its turns have cards is being rebuilt."""
    one, values = "", [db.space]
    if session_id is not None:
        one, values = "AND s.id = ?", [db.space, reads.record(db, session_id).id]
    found = db.rows(
        f"SELECT id, state, done, turns FROM sessions s WHERE space = ? {one} AND EXISTS "
        "(SELECT 1 FROM turns t WHERE t.space = s.space AND t.session = s.id AND t.forgotten = 0) "
        "ORDER BY instant, number",
        *values,
    )
    listed = [each for each in found if not each[0].startswith(NOTE)]
    if begun := [id for id, state, done, turns in listed if done == turns and state not in SETTLED]:
        return begun
    for id, state, *_ in listed:
        if state in SETTLED:
            _wait(db, id)
    ids = [id for id, *_ in listed]
    log.add(db, "rebuild", ids, sessions=len(ids))
    return ids


def _label(db: Connection, session: Session) -> None:
    """Replaces the labels. A session without labels keeps those that are stored."""
    if session.labels or session.is_note:
        db.run(
            "UPDATE sessions SET labels = ? WHERE space = ? AND id = ?",
            *(rows.labels_row(session.labels), db.space, session.id),
        )


def append(
    db: Connection, session_id: str, turns: Sequence[Turn], *, at: datetime | None = None
) -> SessionRecord:
    """Adds turns. Skips turns whose key is stored already. Turns without a time that are added on
    a later day than the session's take place at `at`."""
    known = reads.texts(db, [session_id]).get(session_id)
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


def replace_session(db: Connection, before: StoredSession, after: StoredSession | None) -> None:
    """Writes what is left of a session. None: nothing."""
    here = (db.space, before.session.id)
    left = Derived(before.derived.state) if after is None else after.derived
    put_derived(db, before.session if after is None else after.session, left)
    if after is None:
        db.run("DELETE FROM turns WHERE space = ? AND session = ?", *here)
        db.run("DELETE FROM sessions WHERE space = ? AND id = ?", *here)
    elif before.session.digest != after.session.digest:
        db.run("DELETE FROM turns WHERE space = ? AND session = ?", *here)
        _put_turns(db, after.session)
        db.run(
            "UPDATE sessions SET digest = ? WHERE space = ? AND id = ?", after.session.digest, *here
        )


# ---------------------------------------------------------------- cards of a session


def settle(db: Connection, session: Session, derived: Derived) -> None:
    known = row(
        db, "SELECT digest, state FROM sessions WHERE space = ? AND id = ?", db.space, session.id
    )
    if derived.state == FAILED:
        if known is None:
            raise NotInMemory(f"There is no session {session.id!r} in this space.")
        if known[0] == session.digest and known[1] not in SETTLED:
            _fail(db, session.id, derived.reason)
            log.add(db, "fail", [session.id])
        return
    # A text that was replaced or forgotten while its cards were made must not come back.
    if (
        known is None
        or known[0] != session.digest
        or reads.corrections(db, session.id) != [*derived.corrections]
    ):
        raise NotInMemory(
            f"Session {session.id!r} was changed or forgotten while its cards were being made: "
            "remember it again if it should stay."
        )
    cards = put_derived(db, session, derived)
    db.run(
        "UPDATE sessions SET spent = 0, done = turns, due = NULL WHERE space = ? AND id = ?",
        *(db.space, session.id),
    )
    log.add(db, "settle", [session.id, *(card.id for card in derived.cards)], cards=len(cards))


def _fail(db: Connection, session_id: str, reason: str) -> None:
    """Workers try again, each time after a longer pause."""
    (attempts,) = one(
        db, "SELECT attempts FROM sessions WHERE space = ? AND id = ?", db.space, session_id
    )
    pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(attempts, 10))
    db.run(
        "UPDATE sessions SET state = ?, reason = ?, owner = '', due = ? WHERE space = ? AND id = ?",
        *(FAILED, reason, db.seconds() + pause, db.space, session_id),
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
        _put(db, whole.without(gone))
    cards = sum(len(whole.derived.cards) for whole in sessions)
    ids = [whole.session.id for whole in sessions]
    log.add(db, "load", ids, sessions=len(ids), cards=cards)


def remember_forgotten(db: Connection, ids: Sequence[str]) -> None:
    """Ids of cards and marks of turns."""
    db.run_many(
        "INSERT INTO forgotten (space, prefix, id) VALUES",
        [(db.space, marks.prefix_of(id), id) for id in dict.fromkeys(ids)],
        "ON CONFLICT (space, prefix, id) DO NOTHING",
    )


def _put(db: Connection, whole: StoredSession) -> None:
    session, made = whole.session, whole.derived
    _keep(db, session)
    put_derived(db, session, made)
    due = None if made.state in SETTLED else db.seconds()
    db.run(
        "UPDATE sessions SET done = ?, due = ? WHERE space = ? AND id = ?",
        *(whole.done, due, db.space, session.id),
    )
    if made.state == FAILED:
        _fail(db, session.id, made.reason)


# ---------------------------------------------------------------- leases


def claim(
    db: Connection, session_id: str, owner: str, lease: float, is_dead: Callable[[str], bool]
) -> bool:
    """Leases a session to whoever makes its cards, or renews the lease. False if another owner has
    it, or if its cards are made."""
    here = (db.space, session_id)
    found = row(
        db, "SELECT owner, due FROM sessions WHERE space = ? AND id = ? AND due IS NOT NULL", *here
    )
    if found is None:
        return False
    holder, due = found
    now = db.seconds()
    if holder not in ("", owner) and due > now and not is_dead(holder):
        return False
    db.run(
        "UPDATE sessions SET owner = ?, due = ?, reason = CASE state WHEN ? THEN ? ELSE reason END "
        "WHERE space = ? AND id = ?",
        *(owner, now + lease, PENDING, BEGUN, *here),
    )
    return True


def release(db: Connection, session_id: str, owner: str) -> None:
    db.run(
        "UPDATE sessions SET owner = '', due = ? "
        "WHERE space = ? AND id = ? AND owner = ? AND due IS NOT NULL",
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
            "UPDATE sessions SET spent = spent + ? WHERE space = ? AND id = ?",
            *(tokens, db.space, session),
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
