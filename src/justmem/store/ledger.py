"""The ledger: tokens that were spent and reserved, by day."""

from __future__ import annotations

from datetime import date

from justmem.store.engine import Connection, row


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
    if session is not None:  # one that was forgotten meanwhile has no row
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
