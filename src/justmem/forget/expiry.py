"""Finds and forgets what is older than the retention allows.

Age is counted from the time of a session to the time that the caller passes. No clock is read.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime

from justmem.domain import Expiring, Forgotten, Retention
from justmem.errors import NotInMemory
from justmem.ports import CardFilter, Store

_ATTEMPTS = 3


async def expiring(store: Store, retention: Retention, at: datetime) -> Expiring:
    """Sessions that are too old, whole; and of the others the cards of kinds that go earlier, and
    words that their cards have been made of."""
    records = await store.sessions()
    old = [
        record
        for record in records
        if retention.session_expired(record.at, at)
        or (record.until is not None and record.until <= at)
    ]
    gone = {record.id for record in old}
    cards = [
        card
        for kind in retention.kinds
        for card in await store.cards(CardFilter(kind=kind))
        if card.session_id not in gone and retention.card_expired(card, at)
    ]
    words = [
        record
        for record in records
        if record.id not in gone
        and record.state.settled
        and record.tokens  # its words are still there
        and not record.is_note  # its words are the memory itself
        and retention.words_expired(record.at, at)
    ]
    return Expiring(sessions=tuple(old), cards=tuple(cards), words=tuple(words))


async def expire(
    store: Store,
    retention: Retention,
    at: datetime,
    forget: Callable[[Expiring], Awaitable[Forgotten]],
) -> Forgotten:
    """Has them forgotten, on disk too. Cards go on their own: they do not come back with their
    session."""
    for left in range(_ATTEMPTS - 1, -1, -1):
        found = await expiring(store, retention, at)
        if found == Expiring():
            break
        try:
            return await forget(found)
        except NotInMemory:  # some of it was forgotten or replaced meanwhile
            if not left:
                raise
    return Forgotten()
