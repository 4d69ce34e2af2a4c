"""Reads from a space, except search. Each function runs inside the caller's transaction."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from operator import itemgetter
from typing import Any, NamedTuple

from justmem.domain import (
    NOTE,
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
from justmem.ports import CardFilter, Derived, Snapshot, SpaceMetadata, StoredSession, Vectors
from justmem.store import codes, rows
from justmem.store.engine import Connection

_BATCH = 50  # whole sessions read at a time


# ---------------------------------------------------------------- sessions


def record(db: Connection, session_id: str) -> SessionRecord:
    found = db.first(rows.RECORD, "sessions", id=session_id)
    if found is None:
        raise NotInMemory(f"There is no session {session_id!r} in this space.")
    return rows.record_of(found)


def sessions(db: Connection) -> list[SessionRecord]:
    """In order of time."""
    found = db.select(rows.RECORD, "sessions", "ORDER BY instant, number")
    return [rows.record_of(each) for each in found]


def said_before(db: Connection, day: date) -> list[str]:
    """Sessions with turns whose own time is on an earlier day."""
    sql = "SELECT DISTINCT session FROM turns WHERE space = ? AND at < ?"
    return [id for (id,) in db.rows(sql, db.space, day.isoformat())]


def texts(db: Connection, ids: Collection[str], *, checked: bool = True) -> dict[str, Session]:
    """The sessions that exist, in the given order. `checked`: StoreDamaged if their words are."""
    heads = {id: head for id, *head in db.among(rows.HEAD, "sessions", "id", ids)}
    turns: dict[str, list[Sequence[Any]]] = {id: [] for id in heads}
    numbered = db.among(f"session, number, {rows.TURN}", "turns", "session", heads)
    for id, _, *turn in sorted(numbered, key=itemgetter(1)):
        turns[id].append(turn)
    return {
        id: rows.session_of(id, heads[id], turns[id], checked=checked) for id in ids if id in heads
    }


def _waiting(db: Connection, most: int) -> list[Session]:
    """The latest sessions that have turns without cards, in order of time."""
    latest = f"AND due > 0 AND done < turns ORDER BY instant DESC, number DESC LIMIT {most}"
    done: dict[str, int] = dict(db.select("id, done", "sessions", latest)[::-1])
    read = texts(db, done).items()
    return [session.without(range(1, done[id] + 1)) for id, session in read]


def blanked(db: Connection, session: Session) -> Session:
    """The session without the words of forgotten turns, and without forgotten labels."""
    found = db.select("id", "forgotten", prefix=marks.prefix(session.id))
    gone = [mark for (mark,) in found]
    session = marks.without_marked_labels(session, gone)
    return session.without(marks.find_marked(session, gone)) if gone else session


def forgotten(db: Connection) -> list[str]:
    return sorted(id for (id,) in db.select("id", "forgotten"))


# ---------------------------------------------------------------- the whole space


class IndexState(NamedTuple):
    """Changes with everything that a search or an overview reads."""

    next_key: int
    removals: int
    dim: int


def state(db: Connection) -> IndexState:
    return IndexState(*db.head("next_key, removals, dim"))


def embedder(db: Connection) -> tuple[str, int]:
    name, dim = db.head("embedder, dim")
    return name, dim


@dataclass(frozen=True, slots=True)
class Overview:
    """What questions need of the whole space, kept between them."""

    cards: int
    tokens: int
    subjects: Mapping[str, int]  # how many cards each has, except for notes
    corrections: tuple[Correction, ...]

    @property
    def main_subject(self) -> str | None:
        """The subject of more than six cards in ten."""
        most = max(self.subjects, key=lambda name: self.subjects[name], default=None)
        return most if most and self.subjects[most] > 0.6 * sum(self.subjects.values()) else None


def overview(db: Connection) -> Overview:
    ((cards, tokens),) = db.select("sum(cards), sum(tokens)", "sessions")
    by_subject = "AND kind <> 'note' GROUP BY subject"
    subjects: dict[str, int] = dict(db.select("subject, count(*)", "cards", by_subject))
    stored = db.select("correction", "corrections", "ORDER BY session, number")
    corrections = tuple(rows.correction_of(each) for each in stored)
    return Overview(int(cards or 0), int(tokens or 0), subjects, corrections)


def look(db: Connection, waiting: int, known: Overview) -> Snapshot:
    return Snapshot(
        cards=known.cards,
        tokens=known.tokens,
        main_subject=known.main_subject,
        waiting=_waiting(db, waiting) if waiting else (),
        corrections=known.corrections,
    )


def metadata(db: Connection, size: int) -> SpaceMetadata:
    """`size`: bytes on disk."""
    name, dim = embedder(db)
    days = db.select("day, tokens", "spending", "ORDER BY day")
    spending = [(date.fromisoformat(day), tokens) for day, tokens in days]
    sums = ("turns", "cards", "quarantined", "tokens", "card_tokens")
    (found,) = db.select(", ".join(f"sum({column})" for column in sums), "sessions")
    turns, cards, quarantined, tokens, card_tokens = (int(total or 0) for total in found)
    others = f"AND substr(id, 1, {len(NOTE)}) <> '{NOTE}' GROUP BY state ORDER BY state"
    states = db.select("state, count(*)", "sessions", others)
    stats = Stats(
        space=db.space,
        sessions={SessionState(state): count for state, count in states},
        turns=turns,
        cards=cards,
        repeated=cards - len(db.select("DISTINCT subject, fact, event_date", "cards")),
        quarantined=quarantined,
        kinds=dict(db.select("kind, count(*)", "cards", "GROUP BY kind ORDER BY kind")),
        history_tokens=tokens,
        card_tokens=card_tokens,
        bytes=size,
        embedder=name,
        spent_tokens=sum(tokens for _, tokens in spending),
    )
    return SpaceMetadata(name, dim, forgotten(db), spending, stats)


# ---------------------------------------------------------------- cards and passages


def cards_at(db: Connection, keys: Collection[int]) -> dict[int, tuple[Card, bytes | None]]:
    """Cards and their packed vectors."""
    found = db.among(f"{rows.CARD}, vector", "cards", "key", keys)
    return {key: (rows.card_of(row), vector) for key, *row, vector in found}


def passages_at(db: Connection, keys: Collection[int]) -> dict[int, tuple[Passage, bytes | None]]:
    """Passages and their packed vectors."""
    found = db.among(f"{rows.PASSAGE}, vector", "passages", "key", keys)
    return {key: (rows.passage_of(row), vector) for key, *row, vector in found}


def cards(
    db: Connection, where: CardFilter, subjects: Iterable[str], keys: Collection[int] | None
) -> list[Card]:
    """In order of time. `subjects`: all of the space. `keys`: only these cards; None: all."""
    wanted = {"id": where.id, "kind": where.kind, "status": where.status}
    wanted = {column: value for column, value in wanted.items() if value is not None}
    if where.session_id is not None:
        wanted["session"] = where.session_id
    values = [db.space, db.space, *wanted.values()]
    conditions = ["c.space = ?", "s.space = ?", *(f"c.{column} = ?" for column in wanted)]
    if where.subject is not None:  # ignores case
        named = [name for name in subjects if name.casefold() == where.subject.casefold()]
        conditions.append(f"c.subject IN ({', '.join('?' * len(named)) or 'NULL'})")
        values += named
    listed = ", ".join(f"c.{column}" for column in rows.CARD.split(", "))
    sql = (
        f"SELECT s.instant, s.number, {listed} FROM cards c JOIN sessions s ON s.id = c.session "
        f"WHERE {' AND '.join(conditions)}"
    )
    if keys is None:
        page = f"ORDER BY s.instant, s.number, c.key LIMIT {where.limit} OFFSET {where.offset}"
        found: Iterable[Sequence[Any]] = db.each(f"{sql} {page}", *values)
    else:
        in_order = sorted(db.rows_in(f"{sql} AND c.key", values, keys), key=itemgetter(0, 1, 2))
        found = in_order[where.offset :][: where.limit]
    return [rows.card_of(row) for _, _, _, *row in found]


# ---------------------------------------------------------------- whole sessions


def each_whole_session(db: Connection, ids: Sequence[str]) -> Iterator[StoredSession]:
    """The same as `whole_sessions`, some at a time, and damaged ones too."""
    for start in range(0, len(ids), _BATCH):
        yield from whole_sessions(db, ids[start : start + _BATCH], checked=False)


def whole_sessions(
    db: Connection, ids: Collection[str], *, checked: bool = True
) -> list[StoredSession]:
    """Everything that is stored of the sessions that exist, in the given order."""

    def by_session(columns: str, table: str, order: str) -> dict[str, list[list[Any]]]:
        found: dict[str, list[list[Any]]] = {id: [] for id in ids}
        each = db.among(f"{order}, session, {columns}", table, "session", ids)
        for _, id, *row in sorted(each, key=itemgetter(0)):
            found[id].append(row)
        return found

    columns = "id, done, spent, state, reason, tokens, card_tokens"
    heads = {id: head for id, *head in db.among(columns, "sessions", "id", ids)}
    cards = by_session(f"vector, {rows.CARD}", "cards", "key")
    passages = by_session(f"vector, {rows.PASSAGE}", "passages", "key")
    quarantined = by_session("subject, fact, reason", "quarantine", "number")
    corrected = by_session("correction", "corrections", "number")
    made = []
    for id, session in texts(db, ids, checked=checked).items():
        done, spent, state, reason, tokens, card_tokens = heads[id]
        derived = Derived(
            state=SessionState(state),
            reason=reason,
            cards=[rows.card_of(row) for _, _, *row in cards[id]],
            card_vectors=_vectors([vector for vector, *_ in cards[id]]),
            passages=[rows.passage_of(row) for _, _, *row in passages[id]],
            passage_vectors=_vectors([vector for vector, *_ in passages[id]]),
            quarantined=[rows.quarantined_of(row) for row in quarantined[id]],
            corrections=[rows.correction_of(row) for row in corrected[id]],
            tokens=tokens,
            card_tokens=card_tokens,
        )
        made.append(StoredSession(session, derived, done, spent))
    return made


def _vectors(packed: Sequence[bytes | None]) -> Vectors:
    """Empty if a row has none."""
    return codes.unpack(packed if all(packed) else [])
