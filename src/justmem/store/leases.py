"""Leases on sessions whose cards are being made."""

from __future__ import annotations

from collections.abc import Callable

from justmem.store.engine import Connection, row
from justmem.store.writes import begin


def claim(
    db: Connection, session_id: str, owner: str, lease: float, is_dead: Callable[[str], bool]
) -> bool:
    """False if another has the session, or its cards are made. Renews one's own claim."""
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
    begin(db, session_id)
    return True


def release(db: Connection, session_id: str, owner: str) -> None:
    db.run(
        "UPDATE queue SET owner = '', due = ? WHERE space = ? AND session = ? AND owner = ?",
        *(db.seconds(), db.space, session_id, owner),
    )
