"""The store of one space: every operation once, for both engines.

An operation is a function of a connection, in one transaction: see `reads`, `writes`,
`forgetting`. Here they become methods. `justmem.ports.Store` says what each promises.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from justmem.domain import Card, Health, Stats
from justmem.errors import StoreError
from justmem.ports import (
    Author,
    CardFilter,
    Embed,
    Found,
    Index,
    Removed,
    Searched,
    SearchLimits,
    Snapshot,
    Vectors,
    View,
)
from justmem.ports.searches import INDEXES
from justmem.store import derived, erase, forgetting, log, reads, writes
from justmem.store.check import check
from justmem.store.engine import Connection, Engine
from justmem.store.search import Finder

P = ParamSpec("P")
T = TypeVar("T")
Method = Callable[Concatenate["SqlStore", P], Coroutine[Any, Any, T]]
LEASE = 60.0  # seconds
_BATCH = 20  # sessions that are embedded at a time


def writing(work: Callable[Concatenate[Connection, P], T], *, once: bool = False) -> Method[P, T]:
    """A method that writes. `once`: it must not be applied twice if the connection is lost."""

    async def method(self: SqlStore, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._write(lambda db: work(db, *args, **kwargs), once=once)

    return method


def reading(
    work: Callable[Concatenate[Connection, P], T],
    ids: Callable[[T], Sequence[str]] = lambda _: (),
) -> Method[P, T]:
    """A method that reads. `ids`: the ids that a log of reads names."""

    async def method(self: SqlStore, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._read(lambda db: work(db, *args, **kwargs), ids)

    return method


def _own_ids(found: Sequence[Any]) -> list[str]:
    return [each.id for each in found]


class SqlStore:
    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.space = engine.space
        self.author: Author | None = None
        self._finder = Finder()
        self._owner = engine.owner or f"{os.getpid()}.{secrets.token_hex(6)}"  # of leases

    @property
    def path(self) -> Path | None:
        """The file of the space; None if it has none."""
        return getattr(self.engine, "path", None)

    async def _write(self, work: Callable[[Connection], T], *, once: bool = False) -> T:
        author = self.author and self.author.acting

        def signed(db: Connection) -> T:
            db.author = author
            return work(db)

        return await self.engine.write(signed, once=once)

    async def _read(
        self, work: Callable[[Connection], T], ids: Callable[[T], Sequence[str]] = lambda _: ()
    ) -> T:
        found = await self.engine.read(work)
        if self.author is not None and self.author.reads:
            named = list(dict.fromkeys(ids(found)))
            if named:
                await self._write(lambda db: log.add(db, "read", named, items=len(named)))
        return found

    keep = writing(writes.keep)
    append = writing(writes.append, once=True)
    settle = writing(writes.settle)
    revise = writing(derived.revise, once=True)
    rebuild = writing(writes.rebuild)
    put = writing(writes.put)
    spend = writing(writes.spend, once=True)

    sessions = reading(reads.sessions)
    texts = reading(reads.texts, list)
    whole_sessions = reading(
        reads.whole_sessions, lambda found: [whole.session.id for whole in found]
    )
    metadata = reading(reads.metadata)
    log = reading(log.rows)

    # ------------------------------------------------------------ vectors

    async def bind(self, embedder: str, dim: int, embed: Embed | None = None) -> int:
        if embed is None:
            if await self.engine.read(reads.embedder) != (embedder, dim):
                await self._write(lambda db: derived.bind(db, embedder, dim))
            return 0
        state = await self.engine.read(reads.state)
        ids = [record.id for record in await self.engine.read(reads.sessions)]
        made: dict[tuple[Index, str], Vectors] = {}  # by index and session
        for start in range(0, len(ids), _BATCH):
            some = await self.engine.read(
                partial(reads.whole_sessions, ids=ids[start : start + _BATCH])
            )
            found = {each.session.id: derived.texts(each.derived, each.session) for each in some}
            for index in INDEXES:
                texts = [text for own in found.values() for text in own[index]]
                ends = np.cumsum([len(own[index]) for own in found.values()])
                parts = np.split(await embed(index, texts), ends[:-1]) if texts else []
                made |= {(index, id): part for id, part in zip(found, parts, strict=bool(parts))}
        await self._write(lambda db: derived.replace_vectors(db, embedder, dim, made, state))
        return sum(map(len, made.values()))

    # ------------------------------------------------------------ leases

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
            with suppress(StoreError):  # the lease expires
                await self._write(partial(writes.release, session_id=session_id, owner=self._owner))

    async def _renewed(self, session_id: str) -> bool:
        engine = self.engine
        return await self._write(
            lambda db: writes.claim(db, session_id, self._owner, LEASE, engine.is_dead)
        )

    async def _keep_renewing(self, session_id: str) -> None:
        while True:
            await asyncio.sleep(LEASE / 3)
            with suppress(StoreError):  # try again at the next renewal
                await self._renewed(session_id)

    # ------------------------------------------------------------ search

    async def look(self, *, waiting: int = 0) -> Snapshot:
        return await self._read(
            lambda db: reads.look(db, waiting, self._finder.overview(db)),
            lambda found: _own_ids(found.waiting),
        )

    async def find(self, views: Sequence[View], limits: SearchLimits) -> Found:
        return await self._read(
            lambda db: self._finder.find(db, views, limits),
            lambda found: [
                *_own_ids(list(found.cards.values())),
                *(session.id for session, _ in found.bare),
                *(passage.session_id for passage in found.passages.values() if limits.mentions),
            ],
        )

    async def cards(self, where: CardFilter) -> Sequence[Card]:
        def work(db: Connection) -> list[Card]:
            keys = None if where.text is None else self._finder.card_keys(db, where.text)
            subjects = () if where.subject is None else self._finder.overview(db).subjects
            return reads.cards(db, where, subjects, keys)

        return await self._read(work, _own_ids)

    # ------------------------------------------------------------ forgetting

    async def forget(self, *, dry_run: bool = False, **what: Any) -> Removed:
        if dry_run:
            return await self._read(lambda db: forgetting.forget(db, dry_run=True, **what))
        if what.get("everything"):
            counted = await self._write(forgetting.last_entry)
            self._finder.clear()
            await self.engine.erase()
            return Removed(counted)
        gone = await self._write(lambda db: forgetting.forget(db, **what), once=True)
        self._finder.clear()  # it holds vectors
        try:
            await self.engine.sweep()
        except StoreError as error:
            raise type(error)(
                "It is forgotten, but its bytes are still in the file. They are removed the next "
                f"time the space is opened. {error}"
            ) from error
        return gone

    async def remains(self, texts: Sequence[str], vectors: Sequence[Vectors] = ()) -> Searched:
        of_texts = [erase.text_pieces(text) for text in texts]
        pieces = set[bytes]().union(*of_texts, *map(erase.vector_pieces, vectors))
        if self.engine.closed:
            return await self.engine.remains(pieces)
        held = await self.engine.read(lambda db: erase.held_elsewhere(db, pieces))
        found = await self.engine.remains(pieces - held.keys())
        whole = {n: held[min(own)] for n, own in enumerate(of_texts) if own and own <= held.keys()}
        return replace(found, held=whole)

    # ------------------------------------------------------------ the whole space

    async def stats(self) -> Stats:
        size = await self.engine.size()
        return await self._read(partial(reads.stats, size=size))

    async def check(self) -> Health:
        found = await self.engine.damage()
        return await self._read(partial(check, found=found))

    async def backup(self, target: Path) -> None:
        await self.engine.backup(target)

    async def close(self) -> None:
        self._finder.clear()
        await self.engine.close()
