"""Reads from a space, except search. Each function runs inside the caller's transaction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from operator import itemgetter
from typing import Any

import numpy as np

from justmem.domain import (
    Card,
    Correction,
    Passage,
    Quarantined,
    Session,
    SessionRecord,
    SessionState,
    Stats,
    marks,
)
from justmem.errors import NotInMemory
from justmem.ports import (
    CardFilter,
    Derived,
    Index,
    Snapshot,
    SpaceMetadata,
    StoredSession,
    Vectors,
)
from justmem.store import rows
from justmem.store.engine import Connection, among, one, row
from justmem.store.session_index import Block

_WAITING = (SessionState.PENDING, SessionState.FAILED)
_NONE = np.zeros((0, 0), np.float32)
_BATCH = 50  # whole sessions read at a time
_BLOCK = "kind, session, generation, first_key, postings"


# ---------------------------------------------------------------- sessions


def record(db: Connection, session_id: str) -> SessionRecord:
    found = row(
        db, f"SELECT {rows.RECORD} FROM sessions WHERE space = ? AND id = ?", db.space, session_id
    )
    if found is None:
        raise NotInMemory(f"There is no session {session_id!r} in this space.")
    return rows.record_of(found)


def sessions(db: Connection) -> list[SessionRecord]:
    """In order of time."""
    sql = f"SELECT {rows.RECORD} FROM sessions WHERE space = ? ORDER BY instant, number"
    return [rows.record_of(each) for each in db.rows(sql, db.space)]


def texts(db: Connection, ids: Sequence[str], *, checked: bool = True) -> dict[str, Session]:
    """The sessions that exist, in the given order."""
    sql = "SELECT id, at, labels, until, digest FROM sessions WHERE space = ? AND id IN"
    heads = {id: head for id, *head in among(db, sql, ids, db.space)}
    turns: dict[str, list[Sequence[Any]]] = {id: [] for id in heads}
    numbered = among(
        db,
        f"SELECT session, number, {rows.TURN} FROM turns WHERE space = ? AND session IN",
        list(heads),
        db.space,
    )
    for id, _, *turn in sorted(numbered, key=itemgetter(1)):
        turns[id].append(turn)
    made = {}
    for id in ids:
        if id in heads:
            *head, digest = heads[id]
            made[id] = rows.session_of(id, [*head, digest if checked else ""], turns[id])
    return made


def _waiting(db: Connection, most: int) -> list[Session]:
    """The latest sessions that have turns without cards, in order of time."""
    found = db.rows(
        "SELECT id, done FROM sessions WHERE space = ? AND state IN (?, ?) AND done < turns "
        f"ORDER BY instant DESC, number DESC LIMIT {most}",
        *(db.space, *_WAITING),
    )
    done: dict[str, int] = dict(found[::-1])
    read = texts(db, list(done)).items()
    return [session.without(range(1, done[id] + 1)) for id, session in read]


def blanked(db: Connection, session: Session) -> Session:
    """The session without the words of forgotten turns."""
    found = db.rows(
        "SELECT id FROM forgotten WHERE space = ? AND prefix = ?",
        *(db.space, marks.prefix(session.id)),
    )
    gone = [mark for (mark,) in found]
    return session.without(marks.find_marked(session, gone)) if gone else session


def forgotten(db: Connection) -> list[str]:
    return sorted(id for (id,) in db.rows("SELECT id FROM forgotten WHERE space = ?", db.space))


def forgotten_among(db: Connection, cards: Sequence[str]) -> set[str]:
    sql = "SELECT id FROM forgotten WHERE space = ? AND prefix = '' AND id IN"
    return {id for (id,) in among(db, sql, cards, db.space)}


def look(db: Connection, waiting: int, subjects: Mapping[str, int]) -> Snapshot:
    last = row(
        db,
        "SELECT at FROM sessions WHERE space = ? ORDER BY instant DESC, number DESC LIMIT 1",
        db.space,
    )
    cards, tokens = one(db, "SELECT cards, tokens FROM spaces WHERE space = ?", db.space)
    return Snapshot(
        last_at=rows.time(last[0]) if last else None,
        cards=cards,
        tokens=tokens,
        main_subject=main_subject(subjects),
        waiting=_waiting(db, waiting) if waiting else (),
        corrections=tuple(corrections(db)),
    )


def subjects(db: Connection) -> dict[str, int]:
    """How many cards each subject has. Notes do not count."""
    return dict(
        db.rows(
            "SELECT subject, count(*) FROM cards WHERE space = ? AND kind <> 'note' "
            "GROUP BY subject",
            db.space,
        )
    )


def main_subject(subjects: Mapping[str, int]) -> str | None:
    """The subject of more than six cards in ten."""
    subject, count = max(subjects.items(), key=lambda each: each[1], default=("", 0))
    return subject if count > 0.6 * sum(subjects.values()) else None


def generation(db: Connection) -> int:
    (number,) = one(db, "SELECT generation FROM spaces WHERE space = ?", db.space)
    return int(number)


def embedder(db: Connection) -> tuple[str, int]:
    name, dim = one(db, "SELECT embedder, dim FROM spaces WHERE space = ?", db.space)
    return name, dim


# ---------------------------------------------------------------- cards


def cards_at(db: Connection, keys: Sequence[int]) -> dict[int, Card]:
    """In the order of the keys."""
    found = among(db, f"SELECT {rows.CARD} FROM cards WHERE space = ? AND key IN", keys, db.space)
    cards = {each[0]: rows.card_of(each) for each in found}
    return {key: cards[key] for key in keys if key in cards}


def cards(
    db: Connection, where: CardFilter, subjects: Iterable[str], keys: Sequence[int] | None
) -> list[Card]:
    """In order of time. `subjects`: all of the space. `keys`: only these cards; None: all."""
    conditions, values = ["c.space = ?", "s.space = ?"], [db.space, db.space]
    for column, value in (
        ("id", where.id),
        ("kind", where.kind),
        ("status", where.status),
        ("session", where.session_id),
    ):
        if value is not None:
            conditions.append(f"c.{column} = ?")
            values.append(value)
    if where.subject is not None:  # ignores case
        named = [name for name in subjects if name.casefold() == where.subject.casefold()]
        conditions.append(f"c.subject IN ({', '.join('?' * len(named)) or 'NULL'})")
        values += named
    listed = ", ".join(f"c.{column}" for column in rows.CARD.split(", "))
    sql = (
        f"SELECT s.instant, s.number, {listed} FROM cards c JOIN sessions s ON s.id = c.session "
        f"WHERE {' AND '.join(conditions)}"
    )
    order = "ORDER BY s.instant, s.number, c.key"
    if keys is None:
        page = f"LIMIT {where.limit} OFFSET {where.offset}"
        found: Iterable[Sequence[Any]] = db.each(f"{sql} {order} {page}", *values)
    else:
        listed_rows = sorted(
            among(db, f"{sql} AND c.key IN", keys, *values), key=itemgetter(0, 1, 2)
        )
        found = listed_rows[where.offset :][: where.limit]
    return [rows.card_of(each[2:]) for each in found]


def quarantined(db: Connection, session_id: str) -> list[Quarantined]:
    found = db.rows(
        "SELECT subject, fact, reason FROM quarantine WHERE space = ? AND session = ? "
        "ORDER BY place",
        *(db.space, session_id),
    )
    return [rows.quarantined_of(each) for each in found]


def corrections(db: Connection, session_id: str | None = None) -> list[Correction]:
    own, values = ("", []) if session_id is None else ("AND session = ?", [session_id])
    found = db.rows(
        f"SELECT correction FROM corrections WHERE space = ? {own} ORDER BY session, number",
        *(db.space, *values),
    )
    return [Correction.model_validate_json(text) for (text,) in found]


# ---------------------------------------------------------------- blocks


def blocks(
    db: Connection,
    *,
    kind: Index | None = None,
    sessions: Sequence[str] | None = None,
    after: int = -1,
    vectors: bool = True,
) -> Iterator[Block]:
    """`after`: only blocks that were written in a later generation."""
    columns = f"{_BLOCK}, vectors" if vectors else _BLOCK
    kinds = "" if kind is None else f"AND kind = '{kind}'"
    sql = f"SELECT {columns} FROM blocks WHERE space = ? {kinds}"
    if sessions is not None:
        found: Iterator[Any] = among(db, f"{sql} AND session IN", sessions, db.space)
    else:
        later = "ORDER BY first_key" if after < 0 else f"AND generation > {after}"
        found = db.each(f"{sql} {later}", db.space)
    return (Block.unpacked(*each) for each in found)


# ---------------------------------------------------------------- whole sessions


def each_whole_session(db: Connection, ids: Sequence[str]) -> Iterator[StoredSession]:
    """The same as `whole_sessions`, some at a time."""
    for start in range(0, len(ids), _BATCH):
        yield from whole_sessions(db, ids[start : start + _BATCH])


def whole_sessions(db: Connection, ids: Sequence[str]) -> list[StoredSession]:
    """Everything that is stored of these sessions, in the given order."""
    columns = "id, done, spent, state, reason, tokens, card_tokens"
    sql = f"SELECT {columns} FROM sessions WHERE space = ? AND id IN"
    heads = {id: head for id, *head in among(db, sql, ids, db.space)}
    cards: dict[str, list[Card]] = {}
    listed = among(
        db, f"SELECT {rows.CARD} FROM cards WHERE space = ? AND session IN", ids, db.space
    )
    for each in sorted(listed, key=itemgetter(0)):
        cards.setdefault(each[2], []).append(rows.card_of(each))
    held = {(block.session, block.kind): block for block in blocks(db, sessions=ids)}
    made = []
    for id, session in texts(db, ids, checked=False).items():
        done, spent, state, reason, tokens, card_tokens = heads[id]
        derived = Derived(
            state=SessionState(state),
            reason=reason,
            cards=cards.get(id, []),
            card_vectors=_vectors(held.get((id, "cards"))),
            passages=_passages(held.get((id, "passages"))),
            passage_vectors=_vectors(held.get((id, "passages"))),
            quarantined=quarantined(db, id),
            corrections=corrections(db, id),
            tokens=tokens,
            card_tokens=card_tokens,
        )
        made.append(StoredSession(session, derived, done, spent))
    return made


def _vectors(block: Block | None) -> Vectors:
    return _NONE if block is None or block.vectors is None else block.vectors.vectors


def _passages(block: Block | None) -> list[Passage]:
    return [] if block is None else [rows.passage(block.session, p) for p in block.places.tolist()]


# ---------------------------------------------------------------- sums


def metadata(db: Connection) -> SpaceMetadata:
    name, dim = embedder(db)
    return SpaceMetadata(name, dim, forgotten(db), spending(db))


def spending(db: Connection) -> list[tuple[date, int]]:
    found = db.rows("SELECT day, tokens FROM spending WHERE space = ?", db.space)
    return sorted((date.fromisoformat(day), tokens) for day, tokens in found)


def stats(db: Connection, size: int) -> Stats:
    listed = [each for each in sessions(db) if not each.is_note]
    states: dict[str, int] = {}
    for each in listed:
        states[each.state] = states.get(each.state, 0) + 1
    sums = one(
        db,
        "SELECT coalesce(sum(turns), 0), coalesce(sum(cards), 0), coalesce(sum(quarantined), 0), "
        "coalesce(sum(tokens), 0), coalesce(sum(card_tokens), 0) FROM sessions "
        "WHERE space = ?",
        db.space,
    )
    turns, cards, quarantined, tokens, card_tokens = map(int, sums)
    kinds = db.rows("SELECT kind, count(*) FROM cards WHERE space = ? GROUP BY kind", db.space)
    (statements,) = one(
        db,
        "SELECT count(*) FROM (SELECT DISTINCT subject, fact, event_date FROM cards "
        "WHERE space = ?) AS statements",
        db.space,
    )
    return Stats(
        space=db.space,
        sessions=states,
        turns=turns,
        cards=cards,
        repeated=cards - statements,
        quarantined=quarantined,
        kinds=dict(sorted(kinds)),
        history_tokens=tokens,
        card_tokens=card_tokens,
        bytes=size,
        embedder=embedder(db)[0],
        spent_tokens=sum(tokens for _, tokens in spending(db)),
    )


def counts(db: Connection) -> Mapping[str, int]:
    """Counts of the whole space, as `Forgotten` has them."""
    names = ("cards", "sessions", "turns", "quarantined")
    sums = one(
        db,
        "SELECT coalesce(sum(cards), 0), count(*), coalesce(sum(turns), 0), "
        "coalesce(sum(quarantined), 0) FROM sessions WHERE space = ?",
        db.space,
    )
    return dict(zip(names, map(int, sums), strict=True))
