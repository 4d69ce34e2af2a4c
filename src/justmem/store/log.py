"""The change log: who did what to which sessions and cards.

Each change adds its entry in its own transaction; reads are logged only if the author asks for
it. An entry holds ids and counts, never a word of a conversation. Each holds the hash of the one
before, so that an entry that was changed or taken out is noticed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from pydantic import ValidationError

from justmem.domain import Entry, Forgotten
from justmem.store.engine import Connection

_MOST_TARGETS = 100  # of one entry: what touches more says how many
_PAGE = 1000
_NO_TIME = datetime(1, 1, 1, tzinfo=UTC)


# ---------------------------------------------------------------- writing


def add(db: Connection, verb: str, targets: Sequence[str] = (), **counts: int) -> Entry | None:
    """Writes the next entry. None if nothing is logged."""
    entry = following(db, verb, targets, counts)
    if entry is not None:
        row = (entry.number, entry.at.isoformat(), entry.model_dump_json())
        db.insert("log", "number, at, entry", [row])
    return entry


def following(
    db: Connection, verb: str, targets: Sequence[str], counts: Mapping[str, int]
) -> Entry | None:
    """The next entry, not written yet."""
    if db.author is None:
        return None
    last = db.first("number, entry", "log", "ORDER BY number DESC LIMIT 1")
    before = None if last is None else _entry(*last)
    named = tuple(dict.fromkeys(targets))
    at = db.author.clock().astimezone(UTC)
    entry = Entry(
        number=before.number + 1 if before else 1,
        at=at.replace(microsecond=at.microsecond // 1000 * 1000),
        actor=db.author.name,
        verb=verb,
        targets=named if len(named) <= _MOST_TARGETS else (),
        counts=counts,
        before=before.hash if before else "",
    )
    return entry.model_copy(update={"hash": entry.digest})


def forgotten(gone: Forgotten) -> dict[str, int]:
    counted = ("cards", "sessions", "turns", "quarantined", "labels")
    return {name: getattr(gone, name) for name in counted if getattr(gone, name)}


# ---------------------------------------------------------------- reading


def entries(
    db: Connection, *, after: int | None = None, before: int | None = None, limit: int = _PAGE
) -> list[Entry]:
    found = db.select(
        "number, entry",
        "log",
        f"AND number > {after or 0} AND number < {before or 2**62} "
        f"ORDER BY number {'DESC' if after is None else ''} LIMIT {limit}",
    )
    return [_entry(*each) for each in sorted(found)]


def _entry(number: int, text: str) -> Entry:
    """An entry as stored. If it was changed, its hash does not fit."""
    try:
        return Entry.model_validate_json(text).model_copy(update={"number": number})
    except ValidationError:
        return Entry(number=number, at=_NO_TIME, actor="", verb="unreadable", before="")
