"""Values to PostgreSQL's rows and back; what both stores share is in `justmem.stores.rows`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from justmem.domain import Card, Passage, Quarantined, Session, SessionRecord
from justmem.stores import rows
from justmem.stores.pg.encode import plain

Row = tuple[Any, ...]
Numbers = NDArray[np.int64]
_NO_DAY = -1  # of an event without a date: arrays of numbers hold no nulls


def card_of(row: Row) -> Card:
    return rows.card_of([plain(field) if isinstance(field, str) else field for field in row])


def record_of(row: Row) -> SessionRecord:
    return rows.record_of([plain(field) if isinstance(field, str) else field for field in row])


def session_of(id: str, at: str, turns: str, digest: str | None = None) -> Session:
    return rows.session_of(plain(id), at, plain(turns), digest)


def quarantined_of(row: Row) -> Quarantined:
    return rows.quarantined_of([plain(field) for field in row])


def passage_of(session_id: str, turn: int, start: int, stop: int) -> Passage:
    return Passage.model_construct(session_id=plain(session_id), turn=turn, start=start, end=stop)


def numbers(values: Sequence[int]) -> Numbers:
    return np.asarray(values, np.int64)


def columns(cards: Sequence[Card]) -> list[Any]:
    """The cards' fields, a list for each column, in the order that `derived` inserts them."""
    events = [card.event_date for card in cards]
    return [
        numbers([event.start.toordinal() if event.start else _NO_DAY for event in events]),
        numbers([event.end.toordinal() if event.end else _NO_DAY for event in events]),
        [card.id for card in cards],
        [card.subject for card in cards],
        [card.fact for card in cards],
        [event.text for event in events],
        [event.precision for event in events],
        [card.status for card in cards],
        [card.kind for card in cards],
        [card.said_at.isoformat() for card in cards],
        [" ".join(map(str, card.turns)) for card in cards],
        [card.subject.casefold() for card in cards],
    ]
