"""The store of one space: every operation once, for both engines.

See `justmem.ports.Store` for what each method promises.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import date, datetime
from functools import partial
from pathlib import Path

from justmem.domain import (
    Card,
    Forgotten,
    Health,
    Passage,
    Session,
    SessionRecord,
    Stats,
    Turn,
)
from justmem.errors import StoreError
from justmem.ports import (
    CardFilter,
    Digested,
    Extent,
    Found,
    Hits,
    Index,
    Place,
    Reach,
    Searched,
    Vectors,
    View,
    Whole,
)
from justmem.ports.traces import Traces
from justmem.store import forgetting, reads, writes
from justmem.store.check import check
from justmem.store.engine import Connection, Engine, one
from justmem.store.finding import Finder
from justmem.store.search import TERMS

LEASE = 60.0  # seconds


class SqlStore:
    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.space = engine.space
        self._finder = Finder()
        self._owner = engine.owner or f"{os.getpid()}.{secrets.token_hex(6)}"  # of leases

    @property
    def path(self) -> Path | None:
        """Of the file, where the space has one of its own."""
        return getattr(self.engine, "path", None)

    # ------------------------------------------------------------ sessions

    async def bind(self, embedder: str, dim: int) -> None:
        if await self.engine.read(_bound) != (embedder, dim, TERMS):

            def work(db: Connection) -> None:
                writes.bind(db, embedder, dim)
                if _bound(db)[2] != TERMS:
                    writes.index_again(db)

            await self.engine.write(work)

    async def keep(self, session: Session) -> SessionRecord:
        return await self.engine.write(partial(writes.keep, session=session))

    async def append(
        self, session_id: str, turns: Sequence[Turn], *, at: datetime | None = None
    ) -> SessionRecord:
        return await self.engine.write(
            partial(writes.append, session_id=session_id, turns=turns, at=at), once=True
        )

    async def settle(self, session: Session, digested: Digested) -> None:
        await self.engine.write(partial(writes.settle, session=session, digested=digested))

    async def fail(self, session_id: str, reason: str) -> None:
        await self.engine.write(partial(writes.fail, session_id=session_id, reason=reason))

    @asynccontextmanager
    async def claim(self, session_id: str) -> AsyncIterator[bool]:
        if not await self._renewed(session_id):
            yield False
            return
        renewing = asyncio.create_task(self._keep_renewing(session_id))
        try:
            yield True
        finally:
            renewing.cancel()
            with suppress(asyncio.CancelledError):
                await renewing
            with suppress(StoreError):  # the lease ends by itself
                await self.engine.write(
                    partial(writes.release, session_id=session_id, owner=self._owner)
                )

    async def _renewed(self, session_id: str) -> bool:
        engine = self.engine
        return await engine.write(
            lambda db: writes.claim(db, session_id, self._owner, LEASE, engine.is_dead)
        )

    async def _keep_renewing(self, session_id: str) -> None:
        while True:
            await asyncio.sleep(LEASE / 3)
            with suppress(StoreError):  # the next renewal, or the work itself, will tell
                await self._renewed(session_id)

    async def session(self, session_id: str) -> Session:
        return await self.engine.read(partial(reads.session, session_id=session_id))

    async def sessions_at(
        self, ids: Sequence[str], *, newest: bool = False
    ) -> Mapping[str, Session]:
        return await self.engine.read(partial(reads.texts, ids=ids, newest=newest))

    async def waiting(self, *, newest: int | None = None) -> Sequence[Session]:
        return await self.engine.read(partial(reads.waiting, newest=newest))

    async def sessions(self) -> Sequence[SessionRecord]:
        return await self.engine.read(reads.sessions)

    async def extent(self) -> Extent:
        return await self.engine.read(reads.extent)

    async def main_subject(self) -> str | None:
        return await self.engine.read(self._finder.main_subject)

    # ------------------------------------------------------------ search

    async def search(
        self, views: Sequence[View], index: Index, *, dense: int, lexical: int, until: date | None
    ) -> Sequence[Hits]:
        return await self.engine.read(
            lambda db: self._finder.search(db, views, index, dense, lexical, until)
        )

    async def find(self, views: Sequence[View], reach: Reach) -> Found:
        return await self.engine.read(lambda db: self._finder.find(db, views, reach))

    async def passages_at(self, keys: Sequence[int]) -> Mapping[int, Passage]:
        return await self.engine.read(lambda db: self._finder.passages_at(db, keys))

    async def mentions(self, text: str) -> Sequence[Passage]:
        return await self.engine.read(lambda db: self._finder.mentions(db, text))

    # ------------------------------------------------------------ cards

    async def cards_at(self, keys: Sequence[int]) -> Mapping[int, Card]:
        return await self.engine.read(partial(reads.cards_at, keys=keys))

    async def card(self, card_id: str) -> Card:
        return await self.engine.read(partial(reads.card, card_id=card_id))

    async def cards(self, where: CardFilter) -> Sequence[Card]:
        def work(db: Connection) -> list[Card]:
            keys = None if where.text is None else self._finder.card_keys(db, where.text)
            return reads.cards(db, where, keys)

        return await self.engine.read(work)

    # ------------------------------------------------------------ forgetting

    async def forget(
        self,
        *,
        cards: Sequence[str] = (),
        turns: Sequence[Place] = (),
        sessions: Sequence[str] = (),
        words: Sequence[str] = (),
        subject: str | None = None,
    ) -> Forgotten:
        gone = await self.engine.write(
            lambda db: forgetting.forget(db, cards, turns, sessions, words, subject), once=True
        )
        self._finder.clear()  # the vectors in this process go too
        try:
            await self.engine.sweep()
        except StoreError as error:
            raise type(error)(
                "What was to be forgotten is gone from memory, but not from the file yet: it goes "
                f"when the space is opened next. {error}"
            ) from error
        return gone

    async def erase(self) -> Forgotten:
        gone = Forgotten(**await self.engine.write(reads.counts))
        self._finder.clear()
        await self.engine.erase()
        return gone

    async def remains(self, traces: Traces) -> Searched:
        return await self.engine.remains(traces)

    # ------------------------------------------------------------ vectors

    async def texts(
        self, index: Index, *, after: int = 0, count: int = 256
    ) -> Sequence[tuple[int, str]]:
        return await self.engine.read(lambda db: reads.vector_texts(db, index, after, count))

    async def replace_vectors(
        self, embedder: str, dim: int, replaced: Mapping[Index, tuple[Sequence[int], Vectors]]
    ) -> None:
        await self.engine.write(lambda db: writes.replace_vectors(db, embedder, dim, replaced))

    # ------------------------------------------------------------ the ledger

    async def reserve(self, day: date, tokens: int, limit: int) -> bool:
        return await self.engine.write(
            partial(writes.reserve, day=day, tokens=tokens, limit=limit), once=True
        )

    async def spend(
        self, day: date, tokens: int, *, reserved: int = 0, session: str | None = None
    ) -> None:
        await self.engine.write(
            lambda db: writes.spend(db, day, tokens, reserved, session), once=True
        )

    async def spent(self, day: date) -> int:
        return await self.engine.read(partial(reads.spent, day=day))

    async def spent_on(self, session_id: str) -> int:
        return await self.engine.read(partial(reads.spent_on, session_id=session_id))

    # ------------------------------------------------------------ whole sessions

    async def embedder(self) -> tuple[str, int]:
        return await self.engine.read(reads.embedder)

    async def wholes(self, ids: Sequence[str]) -> Sequence[Whole]:
        return await self.engine.read(partial(reads.wholes, ids=ids))

    async def take(self, wholes: Sequence[Whole], forgotten: Sequence[str] = ()) -> None:
        await self.engine.write(lambda db: writes.take(db, wholes, forgotten))

    async def forgotten(self) -> Sequence[str]:
        return await self.engine.read(reads.forgotten)

    async def spending(self) -> Sequence[tuple[date, int]]:
        return await self.engine.read(reads.spending)

    # ------------------------------------------------------------ the change log

    async def log(self, entries: Sequence[tuple[int, str, str]]) -> None:
        await self.engine.write(partial(writes.log, entries=entries), once=True)

    async def logged(
        self, *, after: int = 0, before: int | None = None, latest: bool = False, limit: int = 1000
    ) -> Sequence[tuple[int, str, str]]:
        return await self.engine.read(lambda db: reads.entries(db, after, before, latest, limit))

    # ------------------------------------------------------------ the whole space

    async def stats(self) -> Stats:
        size = await self.engine.size()
        return await self.engine.read(partial(reads.stats, size=size))

    async def check(self) -> Health:
        found = await self.engine.damage()
        return await self.engine.read(partial(check, found=found))

    async def backup(self, target: Path) -> None:
        await self.engine.backup(target)

    async def close(self) -> None:
        self._finder.clear()
        await self.engine.close()


def _bound(db: Connection) -> tuple[str, int, str]:
    name, dim, terms = one(db, "SELECT embedder, dim, terms FROM spaces WHERE space = ?", db.space)
    return name, dim, terms
