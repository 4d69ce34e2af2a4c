"""Everything that is asked of a space except search."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy as np

from justmem.domain import (
    Card,
    Passage,
    Quarantined,
    Session,
    SessionRecord,
    SessionState,
    Stats,
)
from justmem.errors import NotInMemory
from justmem.ports import CardFilter, Extent, Index
from justmem.stores import files, rows, tombstones, words

_RECORDS = f"SELECT {rows.RECORD} FROM sessions s LEFT JOIN incoming i ON i.session = s.key"
_CARDS = f"SELECT {rows.CARD} FROM cards c JOIN sessions s ON s.key = c.session"


def record(db: sqlite3.Connection, session_id: str) -> SessionRecord:
    return rows.record_of(db.execute(f"{_RECORDS} WHERE s.id = ?", (session_id,)).fetchone())


def sessions(db: sqlite3.Connection) -> list[SessionRecord]:
    return [rows.record_of(row) for row in db.execute(f"{_RECORDS} ORDER BY s.instant, s.key")]


def session(db: sqlite3.Connection, session_id: str) -> Session:
    row = db.execute(
        "SELECT s.id, s.at, t.turns, s.digest FROM sessions s "
        "LEFT JOIN texts t ON t.session = s.key "
        "WHERE s.id = ?",
        (session_id,),
    ).fetchone()
    if row is None:
        raise NotInMemory(f"There is no session {session_id!r} in this space.")
    return rows.session_of(*row)


def sessions_at(db: sqlite3.Connection, ids: Sequence[str]) -> dict[str, Session]:
    found = db.execute(
        "SELECT s.id, s.at, t.turns, s.digest FROM sessions s JOIN texts t ON t.session = s.key "
        "WHERE s.id IN (SELECT value FROM json_each(?))",
        (json.dumps(list(ids)),),
    )
    return {row[0]: rows.session_of(*row) for row in found}


def blanked(db: sqlite3.Connection, session: Session) -> Session:
    start = tombstones.prefix(session.id)
    marks = db.execute("SELECT id FROM forgotten WHERE id BETWEEN ? AND ?", (start, start + "~"))
    return tombstones.blanked(session, [mark for (mark,) in marks])


def waiting(db: sqlite3.Connection, *, newest: int | None = None) -> list[Session]:
    found = db.execute(
        "SELECT s.id, i.at, i.turns, i.digest, i.instant AS instant, s.key AS key "
        "FROM incoming i JOIN sessions s ON s.key = i.session "
        "UNION ALL SELECT s.id, s.at, t.turns, s.digest, s.instant, s.key "
        "FROM sessions s JOIN texts t ON t.session = s.key WHERE s.state IN (?, ?) "
        "AND NOT EXISTS (SELECT 1 FROM incoming WHERE session = s.key) "
        "ORDER BY instant DESC, key DESC LIMIT ?",
        (SessionState.PENDING, SessionState.FAILED, -1 if newest is None else newest),
    ).fetchall()
    return [rows.session_of(*row[:4]) for row in reversed(found)]


def extent(db: sqlite3.Connection) -> Extent:
    last = db.execute("SELECT at FROM sessions ORDER BY instant DESC, key DESC LIMIT 1").fetchone()
    cards, tokens = db.execute("SELECT cards, tokens FROM space").fetchone()
    return Extent(datetime.fromisoformat(last[0]) if last else None, cards, tokens)


def main_subject(db: sqlite3.Connection) -> str | None:
    row = db.execute(
        "SELECT subject, count(*) FROM cards GROUP BY subject ORDER BY 2 DESC, 1 LIMIT 1"
    ).fetchone()
    (cards,) = db.execute("SELECT cards FROM space").fetchone()
    return str(row[0]) if row and row[1] > 0.6 * cards else None


def last_day(db: sqlite3.Connection) -> int:
    """The latest day that anything was said, on its own wall calendar."""
    (last,) = db.execute("SELECT max(day) FROM sessions").fetchone()
    return int(last or 0)


def cards_at(db: sqlite3.Connection, keys: Sequence[int]) -> dict[int, Card]:
    """In the order of the keys given."""
    found = db.execute(
        f"{_CARDS} WHERE c.key IN (SELECT value FROM json_each(?))", (json.dumps(list(keys)),)
    )
    cards = {row[0]: rows.card_of(row) for row in found}
    return {key: cards[key] for key in keys if key in cards}


def card(db: sqlite3.Connection, card_id: str) -> Card:
    row = db.execute(f"{_CARDS} WHERE c.id = ?", (card_id,)).fetchone()
    if row is None:
        raise NotInMemory(f"There is no card {card_id!r} in this space.")
    return rows.card_of(row)


def cards(db: sqlite3.Connection, where: CardFilter) -> list[Card]:
    """In order of time. CROSS JOIN keeps sessions the outer loop: no sorting, an early end."""
    conditions: list[str] = ["1"]
    values: list[Any] = []
    for condition, value in (
        ("fold(c.subject) = ?", where.subject and where.subject.casefold()),
        ("c.kind = ?", where.kind),
        ("c.status = ?", where.status),
        ("s.id = ?", where.session_id),
        ("c.key IN (SELECT rowid FROM card_words WHERE card_words MATCH ?)", where.text),
    ):
        if value is not None:
            conditions.append(condition)
            values.append(value)
    if where.text is not None:
        needed = words.words(where.text)
        if not needed:
            return []
        values[-1] = words.all_of(needed)
    found = db.execute(
        f"SELECT {rows.CARD} FROM sessions s CROSS JOIN cards c ON c.session = s.key "
        f"WHERE {' AND '.join(conditions)} ORDER BY s.instant, s.key, c.key LIMIT ? OFFSET ?",
        (*values, where.limit, where.offset),
    )
    return [rows.card_of(row) for row in found]


def passages_at(db: sqlite3.Connection, keys: Sequence[int]) -> dict[int, Passage]:
    passages: dict[int, Passage] = {}
    for key, session_id, packed, spans in db.execute(
        "SELECT k.value, s.id, p.keys, p.spans FROM json_each(?) k CROSS JOIN passage_chunks p "
        "ON p.first = (SELECT max(first) FROM passage_chunks WHERE first <= k.value) "
        "JOIN sessions s ON s.key = p.session",
        (json.dumps(list(keys)),),
    ):
        own = np.frombuffer(packed, np.int64)
        place = int(np.searchsorted(own, key))
        if place < len(own) and own[place] == key:
            turn, start, end = rows.spans_of(spans)[place].tolist()
            passages[key] = Passage.trusted(session_id=session_id, turn=turn, start=start, end=end)
    return passages


def mentions(db: sqlite3.Connection, text: str) -> list[Passage]:
    needed = words.content_words(text)  # those of grammar alone name nothing
    if not needed:
        return []
    found = db.execute(
        "SELECT rowid FROM passage_words WHERE passage_words MATCH ? ORDER BY rowid",
        (words.all_of(needed),),
    ).fetchall()
    return list(passages_at(db, [key for (key,) in found]).values())


def quarantined(db: sqlite3.Connection, session_id: str) -> list[Quarantined]:
    found = db.execute(
        "SELECT q.subject, q.fact, q.reason FROM quarantine q JOIN sessions s ON s.key = q.session "
        "WHERE s.id = ? ORDER BY q.rowid",
        (session_id,),
    )
    return [rows.quarantined_of(row) for row in found]


def texts(db: sqlite3.Connection, index: Index, after: int, count: int) -> list[tuple[int, str]]:
    """The texts that the vectors of an index stand for, in order of their keys. For passages,
    whole sessions at a time, so a little more than `count` may come."""
    if index == "cards":
        return db.execute(
            "SELECT key, subject || ' ' || fact || "
            "CASE event_precision WHEN 'unknown' THEN '' ELSE ' (' || event || ')' END "
            "FROM cards WHERE key > ? ORDER BY key LIMIT ?",
            (after, count),
        ).fetchall()
    found: list[tuple[int, str]] = []
    for packed, spans, turns in db.execute(
        "SELECT p.keys, p.spans, t.turns FROM passage_chunks p JOIN texts t "
        "ON t.session = p.session WHERE p.first > ? ORDER BY p.first",
        (after,),
    ):
        keys = np.frombuffer(packed, np.int64).tolist()
        found += zip(
            keys, rows.passage_texts(rows.turns_of(turns), rows.spans_of(spans)), strict=True
        )
        if len(found) >= count:
            break
    return found


def card_texts(db: sqlite3.Connection) -> Iterable[tuple[int, str]]:
    """What the index of the cards' words is made of."""
    return db.execute("SELECT key, subject || ' ' || fact FROM cards ORDER BY key")


def passage_texts(db: sqlite3.Connection) -> Iterable[tuple[int, str]]:
    for packed, spans, turns in db.execute(
        "SELECT p.keys, p.spans, t.turns FROM passage_chunks p JOIN texts t "
        "ON t.session = p.session ORDER BY p.first"
    ):
        keys = np.frombuffer(packed, np.int64).tolist()
        yield from zip(
            keys, rows.passage_texts(rows.turns_of(turns), rows.spans_of(spans)), strict=False
        )


def spent(db: sqlite3.Connection, day: date) -> int:
    row = db.execute(
        "SELECT tokens + reserved FROM spending WHERE day = ?", (day.isoformat(),)
    ).fetchone()
    return int(row[0]) if row else 0


def spent_on(db: sqlite3.Connection, session_id: str) -> int:
    row = db.execute(
        "SELECT coalesce(i.spent, s.spent) FROM sessions s LEFT JOIN incoming i "
        "ON i.session = s.key WHERE s.id = ?",
        (session_id,),
    ).fetchone()
    return int(row[0]) if row else 0


def stats(db: sqlite3.Connection, path: Path) -> Stats:
    name, embedder = db.execute("SELECT name, embedder FROM space").fetchone()
    states = db.execute(
        "SELECT coalesce(i.state, s.state), count(*) FROM sessions s "
        "LEFT JOIN incoming i ON i.session = s.key GROUP BY 1"
    )
    turns, count, held, tokens, card_tokens = db.execute(
        "SELECT total(turns), total(cards), total(quarantined), total(tokens), "
        "total(card_tokens) FROM sessions"
    ).fetchone()
    (spent_tokens,) = db.execute("SELECT total(tokens) FROM spending").fetchone()
    kinds = db.execute("SELECT kind, count(*) FROM cards GROUP BY kind ORDER BY kind")
    return Stats(
        space=name,
        sessions=dict(states.fetchall()),
        turns=int(turns),
        cards=int(count),
        quarantined=int(held),
        kinds=dict(kinds.fetchall()),
        history_tokens=int(tokens),
        card_tokens=int(card_tokens),
        bytes=files.size(path),
        embedder=embedder,
        spent_tokens=int(spent_tokens),
    )


def logged(
    db: sqlite3.Connection, after: int, before: int | None, latest: bool, limit: int
) -> list[tuple[int, str, str]]:
    found = db.execute(
        "SELECT number, at, targets FROM audit WHERE number > ? AND number < ? "
        f"ORDER BY number {'DESC' if latest else 'ASC'} LIMIT ?",
        (after, before or 2**62, limit),
    )
    return sorted(found.fetchall())
