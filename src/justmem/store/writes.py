"""Writes to a space, except forgetting. Each function runs inside the caller's transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date

from justmem.domain import NOTE, Session, SessionRecord, SessionState, Turn, marks
from justmem.ports import BEGUN, Derived, StoredSession
from justmem.store import log, reads, rows
from justmem.store.derived import put_derived
from justmem.store.engine import Connection

PENDING, FAILED = SessionState.PENDING, SessionState.FAILED
_LONGEST_PAUSE, _FIRST_PAUSE = 3600.0, 60.0  # seconds until a worker tries a failed session again


def create(db: Connection) -> None:
    db.insert("spaces", "embedder", [("",)], "ON CONFLICT (space) DO NOTHING")


# ---------------------------------------------------------------- sessions


def keep(db: Connection, session: Session, *, append: bool = False) -> SessionRecord:
    verb, turns = "keep", len(session.turns)
    if append:
        known = reads.texts(db, [session.id]).get(session.id)
        known = known or session.model_copy(update={"turns": ()})
        fresh = _fresh(known, session)
        verb, turns = "append", len(fresh)
        labels = session.labels or known.labels
        session = known.model_copy(update={"turns": (*known.turns, *fresh), "labels": labels})
    if _keep(db, session):
        log.add(db, verb, [session.id], turns=turns)
    return reads.record(db, session.id)


def _fresh(known: Session, added: Session) -> list[Turn]:
    """The turns whose keys are not stored. Turns without a time that are added on another day
    than the session's take place at the time of `added`."""
    keys = {turn.key for turn in known.turns} - {None}
    fresh: list[Turn] = []
    for turn in added.turns:
        if turn.key not in keys:
            other_day = added.at.date() != known.at.date() and not turn.at
            fresh.append(turn.model_copy(update={"at": added.at}) if other_day else turn)
            keys |= {turn.key} - {None}
    return fresh


def _keep(db: Connection, session: Session) -> bool:
    """Stores the text unless it is stored already. Returns whether it was written."""
    session = reads.blanked(db, session)
    known = reads.texts(db, [session.id], checked=False).get(session.id)
    labels = rows.labels_row(session.labels)
    if session.labels or session.is_note:  # without labels, the stored ones stay
        db.update("sessions", {"labels": labels}, id=session.id)
    if known is not None and known.digest == session.digest:
        return False
    head = {
        "at": session.at.isoformat(),
        "instant": rows.instant(session.at),
        "until": rows.until_row(session.until),
        "digest": session.digest,
        "turns": len(session.turns),
        "state": PENDING,
    }
    if known is None:
        (number,) = db.head("next_key")
        db.update("spaces", {"next_key": number + 1})
        columns = ", ".join(["id", "number", "labels", *head])
        db.insert("sessions", columns, [(session.id, number, labels, *head.values())])
    else:
        db.update("sessions", {**head, "reason": "", "spent": 0}, id=session.id)
    _wait(db, session.id)
    start = session.grown_from(known) if known else 0
    if known and not start:  # remove what was derived from the text, except for the corrections
        (whole,) = reads.whole_sessions(db, [session.id], checked=False)
        put_derived(db, session, _without_words(whole.derived, session))
        db.update("sessions", {"done": 0}, id=session.id)
        db.delete("turns", session=session.id)
    put_turns(db, session, start)
    return True


def put_turns(db: Connection, session: Session, start: int = 0) -> None:
    turns = enumerate(session.turns[start:], start + 1)
    added = [(session.id, n, *rows.turn_row(turn)) for n, turn in turns]
    db.insert("turns", f"session, number, {rows.TURN}", added)


def _wait(db: Connection, session_id: str) -> None:
    """Cards are to be made."""
    waits = {"state": PENDING, "due": db.seconds(), "owner": "", "attempts": 0}
    db.update("sessions", waits, id=session_id)


def _without_words(made: Derived, session: Session) -> Derived:
    """The cards whose turns were all forgotten: they cannot be made again."""
    gone = {number for number, turn in enumerate(session.turns, 1) if turn.forgotten}
    stay = [n for n, card in enumerate(made.cards) if gone.issuperset(card.turns)]
    return replace(made.select(stay, []), quarantined=(), tokens=0)


def rebuild(db: Connection, session_id: str | None = None) -> list[str]:
    """A session that waits although all its turns have cards is being rebuilt."""
    where = {} if session_id is None else {"id": reads.record(db, session_id).id}
    said = "AND EXISTS (SELECT 1 FROM turns t WHERE t.space = sessions.space AND "
    said += "t.session = sessions.id AND t.forgotten = 0) ORDER BY instant, number"
    found = db.select("id, due IS NULL, done = turns", "sessions", said, **where)
    listed = [each for each in found if not each[0].startswith(NOTE)]
    if begun := [id for id, finished, done in listed if done and not finished]:
        return begun
    for id, finished, _ in listed:
        if finished:
            _wait(db, id)
    ids = [id for id, *_ in listed]
    log.add(db, "rebuild", ids, sessions=len(ids))
    return ids


# ---------------------------------------------------------------- cards of a session


def settle(db: Connection, before: StoredSession, derived: Derived) -> bool:
    id, session = before.session.id, before.session
    now = reads.whole_sessions(db, [id], checked=False)
    if not now or _content(now[0]) != _content(before):
        return False
    if derived.state == FAILED and derived.cards == ():
        if not now[0].derived.state.finished:
            _fail(db, id, derived.reason)
            log.add(db, "fail", [id])
        return True
    cards = put_derived(db, session, derived)
    if derived.state.finished:
        made = {"spent": 0, "done": len(session.turns), "due": None}
        db.update("sessions", made, id=id)
    old, new = before.derived.corrections, derived.corrections
    if changed := [each for each in (*old, *new) if (each in old) != (each in new)]:
        ids = [card.id for each in changed for card in (each.before, each.after)]
        log.add(db, "correct" if len(new) > len(old) else "undo", [id, *ids])
    else:
        log.add(db, "settle", [id, *(card.id for card in derived.cards)], cards=len(cards))
    return True


def _content(whole: StoredSession) -> tuple[object, ...]:
    made = whole.derived
    return whole.session.digest, [*made.cards], [*made.quarantined], [*made.corrections]


def _fail(db: Connection, session_id: str, reason: str) -> None:
    """Workers try again, each time after a longer pause."""
    ((attempts,),) = db.select("attempts", "sessions", id=session_id)
    due = db.seconds() + min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(attempts, 10))
    failed = {"state": FAILED, "reason": reason, "owner": "", "due": due}
    db.update("sessions", failed, id=session_id)


# ---------------------------------------------------------------- whole sessions


def put(
    db: Connection,
    sessions: Sequence[StoredSession],
    *,
    forgotten: Sequence[str] = (),
    spending: Sequence[tuple[date, int]] = (),
) -> None:
    """Stores sessions of another store, without what was forgotten here."""
    remember_forgotten(db, forgotten)
    for day, tokens in spending:
        _enter(db, day, max(0, tokens - _entered(db, day)[0]), 0)
    if not sessions:
        return
    gone = set(reads.forgotten(db))
    for each in sessions:
        whole = each.without(gone)
        session, made = whole.session, whole.derived
        _keep(db, session)
        put_derived(db, session, made)
        due = None if made.state.finished else db.seconds()
        db.update("sessions", {"done": whole.done, "due": due}, id=session.id)
        if made.state == FAILED:
            _fail(db, session.id, made.reason)
    ids = [whole.session.id for whole in sessions]
    cards = sum(len(whole.derived.cards) for whole in sessions)
    log.add(db, "load", ids, sessions=len(ids), cards=cards)


def remember_forgotten(db: Connection, ids: Sequence[str]) -> None:
    """Ids of cards and marks of turns."""
    added = [(marks.prefix_of(id), id) for id in dict.fromkeys(ids)]
    db.insert("forgotten", "prefix, id", added, "ON CONFLICT (space, prefix, id) DO NOTHING")


# ---------------------------------------------------------------- leases


def claim(
    db: Connection, session_id: str, owner: str, lease: float, is_dead: Callable[[str], bool]
) -> bool:
    """Leases a session to whoever makes its cards, or renews the lease. False if another owner has
    it, or if its cards are made."""
    now = db.seconds()
    found = db.select("owner, due, state", "sessions", "AND due IS NOT NULL", id=session_id)
    for holder, due, state in found:
        if holder not in ("", owner) and due > now and not is_dead(holder):
            return False
        begun = {"reason": BEGUN} if state == PENDING else {}
        db.update("sessions", {"owner": owner, "due": now + lease, **begun}, id=session_id)
    return bool(found)


def release(db: Connection, session_id: str, owner: str) -> None:
    if db.select("1", "sessions", "AND due IS NOT NULL", id=session_id):
        db.update("sessions", {"owner": "", "due": db.seconds()}, id=session_id, owner=owner)


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
    _enter(db, day, tokens, reserve)
    if session is not None:
        for (spent,) in db.select("spent", "sessions", id=session):
            db.update("sessions", {"spent": spent + tokens}, id=session)
    return reserve


def _entered(db: Connection, day: date) -> tuple[int, int]:
    """Spent and reserved."""
    spent, reserved = db.first("tokens, reserved", "spending", day=day.isoformat()) or (0, 0)
    return spent, reserved


def _enter(db: Connection, day: date, tokens: int, reserved: int) -> None:
    if tokens or reserved:
        spent, held = _entered(db, day)
        db.delete("spending", day=day.isoformat())
        entered = (day.isoformat(), spent + tokens, max(0, held + reserved))
        db.insert("spending", "day, tokens, reserved", [entered])
