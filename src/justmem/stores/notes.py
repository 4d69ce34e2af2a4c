"""What both stores share of the audit: marks of ids, and entries that wait to be written."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from justmem.domain import Entry, Forgotten, chained, spoken
from justmem.errors import StoreError
from justmem.ports import Deed, Whole

_PAUSE = 0.2  # seconds for deeds to come together: one entry each, one transaction for all
_MOST = 10_000  # deeds that wait while nothing can be written; beyond, the oldest go
_NO_TIME = datetime(1, 1, 1, tzinfo=UTC)


def mark(key: bytes, id: str) -> str:
    """What stands for an id in the audit. Ids may be words that people chose, and an entry stays
    when what it is about is forgotten: the mark can be recognised by who has the space and the
    id, and tells nothing to who has the entry alone."""
    return hmac.digest(key, id.encode("utf-8", "surrogatepass"), "sha256").hex()[:16]


def chain(number: int, deed: Deed, targets: tuple[str, ...], before: str) -> Entry:
    """The entry that follows the one whose hash is `before`."""
    at, counts = deed.at.replace(microsecond=deed.at.microsecond // 1000 * 1000), dict(deed.counts)
    said = chained(number, spoken(at, deed.actor, deed.verb, targets, counts), before)
    return Entry.trusted(
        number=number,
        at=at,
        actor=deed.actor,
        verb=deed.verb,
        targets=targets,
        counts=counts,
        before=before,
        hash=hashlib.sha256(said.encode()).hexdigest(),
    )


def instant(at: datetime) -> str:
    """As entries have it; a time without a zone is this machine's."""
    try:
        return at.astimezone(UTC).isoformat(timespec="milliseconds")
    except OverflowError:  # at either end of the calendar
        return at.replace(tzinfo=UTC).isoformat(timespec="milliseconds")


def entry_of(row: Sequence[Any]) -> Entry:
    """As the row has it, even one that was tampered with: its hash tells."""
    number, at, actor, verb, targets, counts, before, hash = row
    return Entry.model_construct(
        number=number,
        at=_time(at),
        actor=actor,
        verb=verb,
        targets=tuple(targets.split()),
        counts=_counts(counts),
        before=before,
        hash=hash,
    )


def _time(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return _NO_TIME


def _counts(text: str) -> dict[str, int]:
    try:
        counts = json.loads(text)
    except ValueError:
        return {"unreadable": 1}
    return counts if isinstance(counts, dict) else {"unreadable": 1}


class Notes:
    """Deeds of readers, on their way into the audit. They are written a moment after the reading,
    as many at once as have come together: a read neither waits for the disk nor for another
    writer, and many of them do not make a transaction each."""

    def __init__(self, write: Callable[[Sequence[Deed]], Awaitable[object]]) -> None:
        self._write = write
        self._waiting: deque[Deed] = deque(maxlen=_MOST)
        self._soon: asyncio.TimerHandle | None = None
        self._writing: asyncio.Task[None] | None = None

    def add(self, deeds: Sequence[Deed]) -> None:
        self._waiting += deeds
        if self._waiting and self._soon is None:
            self._soon = asyncio.get_running_loop().call_later(_PAUSE, self._begin)

    def _begin(self) -> None:
        self._soon = None
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._written())

    async def written(self) -> None:
        """Once all that came before is entered, or cannot be."""
        if self._soon is not None:
            self._soon.cancel()
            self._soon = None
        if self._writing is not None and not self._writing.done():
            await asyncio.wait([self._writing])
        await self._written()

    async def _written(self) -> None:
        while self._waiting:
            some = list(self._waiting)
            self._waiting.clear()
            try:
                await self._write(some)
            except StoreError:  # the next deed tries again; what cannot be written can be read
                self._waiting.extendleft(reversed(some))
                return


def counted(gone: Forgotten) -> dict[str, int]:
    counts = {"cards": gone.cards, "sessions": gone.sessions, "turns": gone.turns}
    return {**counts, "quarantined": gone.quarantined} if gone.quarantined else counts


def ids(wholes: Sequence[Whole]) -> list[str]:
    return [whole.session.id for whole in wholes]


def sums(wholes: Sequence[Whole]) -> dict[str, int]:
    """What the entry of a copy or an import counts."""
    return {
        "sessions": len(wholes),
        "cards": sum(len(whole.digested.cards) for whole in wholes),
    }
