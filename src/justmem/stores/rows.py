"""Values to rows and back. What we wrote ourselves is not validated again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from datetime import UTC, date, datetime
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from justmem.domain import (
    UNKNOWN_DATE,
    Card,
    EventDate,
    Precision,
    Quarantined,
    Role,
    Session,
    SessionRecord,
    SessionState,
    Turn,
)
from justmem.errors import StoreDamaged

Row = Sequence[Any]

CARD = """
    c.key, c.id, s.id, c.subject, c.fact, c.event, c.event_start, c.event_end, c.event_precision,
    c.status, c.kind, c.said_at, c.turns
"""
CARD_ROW = """
    key, id, session, subject, fact, event, event_start, event_end, event_precision, status, kind,
    said_at, turns
"""
RECORD = """
    s.id, coalesce(i.at, s.at), coalesce(i.digest, s.digest), coalesce(i.state, s.state),
    coalesce(i.reason, s.reason), coalesce(i.length, s.turns), s.cards, s.quarantined, s.tokens
"""


def instant(at: datetime) -> float:
    """To sort by; a time without a zone counts as UTC."""
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


def day(at: datetime | date) -> int:
    """The day on the wall calendar of wherever it was said."""
    return at.toordinal()


def turns_text(session: Session) -> str:
    said = [_turn_row(turn) for turn in session.turns]
    return json.dumps(said, ensure_ascii=False, separators=(",", ":"))


def _turn_row(turn: Turn) -> Row:
    at = turn.at.isoformat() if turn.at else None
    if turn.forgotten:
        return turn.speaker, turn.role, "", at, True
    said = turn.speaker, turn.role, turn.text
    return (*said, at) if at else said


def session_of(id: str, at: str, turns: str, digest: str | None = None) -> Session:
    """`digest`: what was recorded when the words came in, to check them by."""
    session = Session.trusted(id=id, at=_time(at), turns=turns_of(turns))
    if digest is not None and session.digest != digest:
        raise StoreDamaged(
            f"The words of session {id!r} are not those that were stored: restore the store from a "
            "copy, or forget that session and remember it again."
        )
    return session


def turns_of(text: str) -> tuple[Turn, ...]:
    try:
        return tuple(_turn(*turn) for turn in json.loads(text))
    except (ValueError, TypeError, RecursionError):
        raise StoreDamaged(
            "The turns of a session cannot be read any more: restore the store from a copy, "
            "or forget that session and remember it again."
        ) from None


def _turn(
    speaker: str, role: Role, text: str, at: str | None = None, forgotten: bool = False
) -> Turn:
    return Turn.trusted(
        speaker=speaker,
        role=role,
        text=text,
        at=_time(at) if at is not None else None,
        forgotten=forgotten,
    )


_PACKED = (
    "The vectors or passages of a session cannot be read any more: restore the store from a copy, "
    "or forget that session and remember it again."
)


def check_packed(packed: bytes, size: int) -> None:
    """That packed numbers come in whole rows of `size` bytes."""
    if not isinstance(packed, bytes) or len(packed) % size:
        raise StoreDamaged(_PACKED)


def width_of(size: int, count: int) -> int:
    """Bytes of one of so many vectors that take this many in all."""
    if not count or not size or size % (4 * count):
        raise StoreDamaged(_PACKED)
    return size // count


def spans_of(packed: bytes) -> NDArray[np.int32]:
    """(turn, start, end) of each passage."""
    check_packed(packed, 12)
    return np.frombuffer(packed, np.int32).reshape(-1, 3)


def passage_texts(turns: Sequence[Turn], spans: NDArray[np.int32]) -> list[str]:
    return [turns[turn - 1].text[start:end] for turn, start, end in spans.tolist()]


def card_row(key: int, session: int, card: Card) -> Row:
    event = card.event_date
    row = (
        key,
        card.id,
        session,
        card.subject,
        card.fact,
        event.text,
        event.start.toordinal() if event.start else None,
        event.end.toordinal() if event.end else None,
        event.precision,
        card.status,
        card.kind,
        card.said_at.isoformat(),
        " ".join(map(str, card.turns)),
    )
    return (*row, card_mark(row))


def card_mark(row: Row) -> str:
    """Of a row of `cards` without its mark."""
    return hashlib.blake2b(repr(tuple(row)).encode(), digest_size=6).hexdigest()


def card_of(row: Row) -> Card:
    try:
        return _card_of(row)
    except (ValueError, TypeError, OverflowError, AttributeError):
        raise StoreDamaged(
            f"The card {row[1]!r} cannot be read any more: restore the store from a copy, or "
            "forget its session and remember it again."
        ) from None


def _card_of(row: Row) -> Card:
    _, id, session_id, subject, fact, event, start, end, precision, status, kind, said, turns = row
    return Card.trusted(
        id=id,
        subject=subject,
        fact=fact,
        event_date=_event(event, start, end, precision),
        status=status,
        kind=kind,
        session_id=session_id,
        said_at=_time(said),
        turns=tuple(map(int, turns.split())),
    )


@lru_cache(1024)  # the cards of a session share their time
def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


@lru_cache(4096)
def _event(text: str, start: int | None, end: int | None, precision: Precision) -> EventDate:
    if start is None and text == "unknown":
        return UNKNOWN_DATE
    return EventDate.model_construct(
        text=text,
        start=date.fromordinal(start) if start else None,
        end=date.fromordinal(end) if end else None,
        precision=precision,
    )


def record_of(row: Row) -> SessionRecord:
    id, at, digest, state, reason, turns, cards, quarantined, tokens = row
    return SessionRecord.trusted(
        id=id,
        at=_time(at),
        digest=digest,
        state=SessionState(state),
        reason=reason,
        turns=turns,
        cards=cards,
        quarantined=quarantined,
        tokens=tokens,
    )


def quarantined_of(row: Row) -> Quarantined:
    subject, fact, reason = row
    return Quarantined.trusted(subject=subject, fact=fact, reason=reason)
