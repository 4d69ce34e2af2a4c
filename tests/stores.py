"""What tests ask of a store, beyond its port."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from typing import Any

from justmem.domain import Card, Passage, Session, SessionRecord, SessionState, Turn
from justmem.ports import Derived, Hits, Index, SearchLimits, Store, StoredSession, View, texts_of
from justmem.store import reads

_VAST = 10**9


async def waiting(store: Store) -> list[Session]:
    """The sessions that wait for their cards."""
    ids = [record.id for record in await store.sessions() if not record.state.finished]
    return list((await texts_of(store, ids)).values())


async def settle(store: Store, of: Session, made: Derived) -> bool:
    """Settles what is stored as if it had this text and these corrections when it was read."""
    for whole in await store.read([of.id]):
        own = replace(whole.derived, corrections=made.corrections)
        return await store.settle(replace(whole, session=of, derived=own), made)
    return await store.settle(StoredSession(of, made), made)


async def append(store: Store, id: str, turns: Sequence[Turn], at: datetime) -> SessionRecord:
    return await store.keep(Session(id=id, at=at, turns=tuple(turns)), append=True)


async def fail(store: Store, session_id: str, reason: str) -> bool:
    (whole,) = await store.read([session_id])
    return await store.settle(whole, Derived(SessionState.FAILED, reason))


async def search(
    store: Store,
    views: Sequence[View],
    index: Index,
    *,
    dense: int,
    lexical: int,
    until: date | None = None,
) -> Sequence[Hits]:
    if index == "cards":
        return (
            await store.find(views, SearchLimits(dense=dense, lexical=lexical, until=until))
        ).hits
    found = await store.find(views, SearchLimits(passages=max(dense, lexical), until=until))
    return [Hits(hits.dense[:dense], hits.lexical[:lexical]) for hits in found.said]


async def cards_at(store: Any, keys: Sequence[int]) -> Mapping[int, Card]:
    found = await store._read(lambda db: reads.cards_at(db, keys))
    return {key: found[key][0] for key in keys if key in found}


async def passages_at(store: Any, keys: Sequence[int]) -> Mapping[int, Passage]:
    found = await store._read(lambda db: reads.passages_at(db, keys))
    return {key: found[key][0] for key in keys if key in found}


async def spent(store: Store, day: date) -> int:
    """Spent and reserved."""
    left = await store.spend(day, reserve=_VAST, limit=_VAST)
    await store.spend(day, reserve=-left)
    return _VAST - left


async def spent_on(store: Store, session_id: str) -> int:
    return sum(whole.spent for whole in await store.read([session_id]))
