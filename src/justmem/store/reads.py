"""Reads from a space, except search. Each function runs inside the caller's transaction."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from operator import itemgetter
from typing import Any, NamedTuple

from justmem.domain import (
    Card,
    Correction,
    Passage,
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
    Snapshot,
    SpaceMetadata,
    StoredSession,
    Vectors,
)
from justmem.store import codes, rows
from justmem.store.engine import Connection, among, one, row

_BATCH = 50  # whole sessions read at a time


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
        "SELECT id, done FROM sessions WHERE space = ? AND due IS NOT NULL AND done < turns "
        f"ORDER BY instant DESC, number DESC LIMIT {most}",
        db.space,
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


@dataclass(frozen=True, slots=True)
class Overview:
    """Counts of a space, kept between questions."""

    cards: int
    tokens: int
    subjects: Mapping[str, int]  # how many cards each has, except for notes

    @property
    def main_subject(self) -> str | None:
        """The subject of more than six cards in ten."""
        most = max(self.subjects, key=lambda name: self.subjects[name], default=None)
        return most if most and self.subjects[most] > 0.6 * sum(self.subjects.values()) else None


def overview(db: Connection) -> Overview:
    sql = "SELECT sum(cards), sum(tokens) FROM sessions WHERE space = ?"
    cards, tokens = one(db, sql, db.space)
    subjects = db.rows(
        "SELECT subject, count(*) FROM cards WHERE space = ? AND kind <> 'note' GROUP BY subject",
        db.space,
    )
    return Overview(int(cards or 0), int(tokens or 0), dict(subjects))


def look(db: Connection, waiting: int, known: Overview) -> Snapshot:
    last = row(
        db,
        "SELECT at FROM sessions WHERE space = ? ORDER BY instant DESC, number DESC LIMIT 1",
        db.space,
    )
    return Snapshot(
        last_at=rows.time(last[0]) if last else None,
        cards=known.cards,
        tokens=known.tokens,
        main_subject=known.main_subject,
        waiting=_waiting(db, waiting) if waiting else (),
        corrections=tuple(corrections(db)),
    )


class State(NamedTuple):
    """Changes with everything that a search or an overview reads."""

    next_key: int
    removals: int
    dim: int


def state(db: Connection) -> State:
    sql = "SELECT next_key, removals, dim FROM spaces WHERE space = ?"
    return State(*one(db, sql, db.space))


def embedder(db: Connection) -> tuple[str, int]:
    name, dim = one(db, "SELECT embedder, dim FROM spaces WHERE space = ?", db.space)
    return name, dim


# ---------------------------------------------------------------- cards


def cards_at(db: Connection, keys: Collection[int]) -> dict[int, tuple[Card, bytes | None]]:
    """Cards and their packed vectors."""
    sql = f"SELECT {rows.CARD}, vector FROM cards WHERE space = ? AND key IN"
    found = among(db, sql, list(keys), db.space)
    return {key: (rows.card_of(row), vector) for key, *row, vector in found}


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
    return [rows.card_of(each[3:]) for each in found]


def corrections(db: Connection, session: str | None = None) -> list[Correction]:
    """Of all cards, or of a session's."""
    sql = "SELECT correction FROM corrections WHERE space = ? {} ORDER BY session, number"
    if session is None:
        found = db.rows(sql.format(""), db.space)
    else:
        found = db.rows(sql.format("AND session = ?"), db.space, session)
    return [rows.correction_of(each) for each in found]


def passages_at(db: Connection, keys: Collection[int]) -> dict[int, tuple[Passage, bytes | None]]:
    """Passages and their packed vectors."""
    sql = f"SELECT {rows.PASSAGE}, vector FROM passages WHERE space = ? AND key IN"
    found = among(db, sql, list(keys), db.space)
    return {key: (rows.passage_of(row), vector) for key, *row, vector in found}


# ---------------------------------------------------------------- whole sessions


def each_whole_session(db: Connection, ids: Sequence[str]) -> Iterator[StoredSession]:
    """The same as `whole_sessions`, some at a time."""
    for start in range(0, len(ids), _BATCH):
        yield from whole_sessions(db, ids[start : start + _BATCH])


def whole_sessions(db: Connection, ids: Sequence[str]) -> list[StoredSession]:
    """Everything that is stored of these sessions, in the given order."""

    def by_session(columns: str, table: str, order: str) -> dict[str, list[list[Any]]]:
        sql = f"SELECT {order}, session, {columns} FROM {table} WHERE space = ? AND session IN"
        found: dict[str, list[list[Any]]] = {id: [] for id in ids}
        for _, id, *each in sorted(among(db, sql, ids, db.space), key=itemgetter(0)):
            found[id].append(each)
        return found

    columns = "id, done, spent, state, reason, tokens, card_tokens"
    sql = f"SELECT {columns} FROM sessions WHERE space = ? AND id IN"
    heads = {id: head for id, *head in among(db, sql, ids, db.space)}
    cards = by_session(f"vector, {rows.CARD}", "cards", "key")
    passages = by_session(f"vector, {rows.PASSAGE}", "passages", "key")
    quarantined = by_session("subject, fact, reason", "quarantine", "number")
    corrected = by_session("correction", "corrections", "number")
    made = []
    for id, session in texts(db, ids, checked=False).items():
        done, spent, state, reason, tokens, card_tokens = heads[id]
        derived = Derived(
            state=SessionState(state),
            reason=reason,
            cards=[rows.card_of(each) for _, _, *each in cards[id]],
            card_vectors=_vectors([vector for vector, *_ in cards[id]]),
            passages=[rows.passage_of(each) for _, _, *each in passages[id]],
            passage_vectors=_vectors([vector for vector, *_ in passages[id]]),
            quarantined=[rows.quarantined_of(each) for each in quarantined[id]],
            corrections=[rows.correction_of(each) for each in corrected[id]],
            tokens=tokens,
            card_tokens=card_tokens,
        )
        made.append(StoredSession(session, derived, done, spent))
    return made


def _vectors(packed: Sequence[bytes | None]) -> Vectors:
    """Empty if a row has none."""
    return codes.unpack(packed if all(packed) else [])


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
