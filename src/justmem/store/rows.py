"""Converts values to rows and back. Stored values are not validated again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from justmem.domain import (
    Card,
    Correction,
    EventDate,
    Passage,
    Quarantined,
    Session,
    SessionRecord,
    SessionState,
    Turn,
)
from justmem.errors import StoreDamaged

CARD = "key, id, session, subject, fact, event_date, status, kind, said_at, turns, until"
PASSAGE = "key, session, turn, start, stop"
TURN = "speaker, role, text, at, key, forgotten"
HEAD = "id, at, labels, until, digest"
RECORD = "id, at, digest, state, reason, turns, cards, quarantined, tokens, labels, until"


def instant(at: datetime) -> float:
    """A number to sort times by. A time without a zone counts as UTC."""
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


@lru_cache(1024)  # the cards of a session share their time
def time(text: str) -> datetime:
    return datetime.fromisoformat(text)


@lru_cache(4096)
def _event(text: str) -> EventDate:
    return EventDate.parse(text)


# ---------------------------------------------------------------- sessions and turns


def turn_row(turn: Turn) -> tuple[Any, ...]:
    at = turn.at.isoformat() if turn.at else None
    text = "" if turn.forgotten else turn.text
    return turn.speaker, turn.role, text, at, turn.key, int(turn.forgotten)


def turn_of(row: Sequence[Any]) -> Turn:
    speaker, role, text, at, key, forgotten = row
    when = at and time(at)
    return Turn(speaker=speaker, role=role, text=text, at=when, key=key, forgotten=bool(forgotten))


def session_of(
    id: str, head: Sequence[str], turns: Iterable[Sequence[Any]], *, checked: bool
) -> Session:
    at, labels, until, digest = head
    session = Session(
        id=id,
        at=time(at),
        turns=tuple(map(turn_of, turns)),
        labels=labels_of(labels),
        until=time(until) if until else None,
    )
    if checked and session.digest != digest:
        raise StoreDamaged(
            f"The stored words of session {id!r} are damaged: restore the store from a "
            "backup, or forget that session and remember it again."
        )
    return session


def labels_row(labels: Mapping[str, str]) -> str:
    return json.dumps(dict(sorted(labels.items())), ensure_ascii=False) if labels else ""


def labels_of(text: str) -> dict[str, str]:
    found: dict[str, str] = json.loads(text) if text else {}
    return found


def until_row(until: datetime | None) -> str:
    return until.isoformat() if until else ""


def record_of(row: Sequence[Any]) -> SessionRecord:
    fields = dict(zip(RECORD.split(", "), row, strict=True))
    fields["at"] = time(fields["at"])
    fields["state"] = SessionState(fields["state"])
    fields["labels"] = labels_of(fields["labels"])
    fields["until"] = time(fields["until"]) if fields["until"] else None
    return SessionRecord(**fields)


# ---------------------------------------------------------------- what is derived from them


def card_row(key: int, card: Card) -> tuple[Any, ...]:
    row = (
        *(key, card.id, card.session_id, card.subject, card.fact, card.event_date.text),
        *(card.status, card.kind, card.said_at.isoformat(), " ".join(map(str, card.turns))),
        until_row(card.until),
    )
    return (*row, card_mark(row))


def card_mark(row: Sequence[Any]) -> str:
    """A hash of a row of `cards`, without its key."""
    return hashlib.blake2b(repr(tuple(row[1:])).encode(), digest_size=6).hexdigest()


def card_of(row: Sequence[Any]) -> Card:
    id, session, subject, fact, event, status, kind, said, turns, until = row
    return Card(
        id=id,
        subject=subject,
        fact=fact,
        event_date=_event(event),
        status=status,
        kind=kind,
        session_id=session,
        said_at=time(said),
        turns=tuple(map(int, turns.split())),
        until=time(until) if until else None,
    )


def passage_of(row: Sequence[Any]) -> Passage:
    session, turn, start, end = row
    return Passage(session_id=session, turn=turn, start=start, end=end)


def passage_text(session: Session, said: Passage) -> str:
    return session.turn(said.turn).text[said.start : said.end]


def quarantined_of(row: Sequence[Any]) -> Quarantined:
    subject, fact, reason = row
    return Quarantined(subject=subject, fact=fact, reason=reason)


def correction_of(row: Sequence[Any]) -> Correction:
    return Correction.model_validate_json(row[0])
