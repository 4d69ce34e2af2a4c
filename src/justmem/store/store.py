"""The store of one space: every operation once, for both engines.

An operation is a function of a connection, in one transaction: see `reads`, `writes`,
`forgetting`. Here they become methods. `justmem.ports.Store` says what each promises. An engine
adds the methods with a leading underscore that are abstract here.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from justmem.domain import Card, Health
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
    SpaceMetadata,
    Vectors,
    View,
)
from justmem.store import codes, derived, erase, forgetting, log, reads, schema, writes
from justmem.store.check import check
from justmem.store.engine import Connection
from justmem.store.search import Finder

P = ParamSpec("P")
T = TypeVar("T")
Method = Callable[Concatenate["SqlStore", P], Coroutine[Any, Any, T]]
LEASE = 60.0  # seconds
_BATCH = 20  # sessions that are embedded at a time


def writing(work: Callable[Concatenate[Connection, P], T]) -> Method[P, T]:
    async def method(self: SqlStore, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._write(lambda db: work(db, *args, **kwargs))

    return method


def reading(
    work: Callable[Concatenate[Connection, P], T],
    ids: Callable[[T], Sequence[str]] = lambda _: (),
) -> Method[P, T]:
    """`ids`: the ids that a log of reads names."""

    async def method(self: SqlStore, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._read(lambda db: work(db, *args, **kwargs), ids)

    return method


def _own_ids(found: Sequence[Any]) -> list[str]:
    return [each.id for each in found]


class SqlStore(ABC):
    def __init__(self, space: str, owner: str = "") -> None:
        self.space = space
        self.author: Author | None = None
        self.closed = False
        self._finder = Finder()
        self._owner = owner or f"{os.getpid()}.{secrets.token_hex(6)}"  # of leases

    # ------------------------------------------------------------ of the engine

    @abstractmethod
    async def _transaction(self, work: Callable[[Connection], T], *, writes: bool) -> T:
        """Runs in a thread: reads one snapshot of the space, or writes as its only writer."""

    @abstractmethod
    async def _sweep(self, *, thorough: bool = False) -> None:
        """Removes the bytes of deleted rows, as far as that is cheap. `thorough`: all of them; an
        error if that fails."""

    @abstractmethod
    async def _search_bytes(self, pieces: Collection[bytes]) -> Searched:
        """Sweeps thoroughly, then searches every table and file for the pieces."""

    @abstractmethod
    async def _size(self) -> int:
        """Bytes on disk."""

    async def _damage(self) -> Sequence[tuple[str, str]]:
        """What the engine itself finds wrong, and what to do about it."""
        return []

    def _is_dead(self, owner: str) -> bool:
        """Whether the owner of a lease has certainly ended."""
        return False

    @abstractmethod
    async def backup(self, target: Path) -> None: ...

    async def close(self) -> None:
        self.closed = True
        self._finder.clear()

    # ------------------------------------------------------------ operations

    async def _write(self, work: Callable[[Connection], T]) -> T:
        author = self.author and self.author.acting

        def signed(db: Connection) -> T:
            db.author = author
            return work(db)

        return await self._transaction(signed, writes=True)

    async def _read(
        self, work: Callable[[Connection], T], ids: Callable[[T], Sequence[str]] = lambda _: ()
    ) -> T:
        found = await self._transaction(work, writes=False)
        if self.author is not None and self.author.reads:
            named = list(dict.fromkeys(ids(found)))
            if named:
                await self._write(lambda db: log.add(db, "read", named, items=len(named)))
        return found

    keep = writing(writes.keep)
    settle = writing(writes.settle)
    rebuild = writing(writes.rebuild)
    put = writing(writes.put)
    spend = writing(writes.spend)

    sessions = reading(reads.sessions)
    said_before = reading(reads.said_before)
    read = reading(reads.whole_sessions, lambda found: [each.session.id for each in found])
    log = reading(log.entries)

    # ------------------------------------------------------------ leases

    @asynccontextmanager
    async def claim(self, session_id: str) -> AsyncIterator[bool]:
        renew = partial(
            writes.claim,
            session_id=session_id,
            owner=self._owner,
            lease=LEASE,
            is_dead=self._is_dead,
        )
        if not await self._write(renew):
            yield False
            return

        async def keep_renewing() -> None:
            while True:
                await asyncio.sleep(LEASE / 3)
                with suppress(StoreError):  # try again at the next renewal
                    await self._write(renew)

        renewing = asyncio.create_task(keep_renewing())
        try:
            yield True
        finally:
            renewing.cancel()
            with suppress(asyncio.CancelledError):
                await renewing
            with suppress(StoreError):  # the lease expires
                await self._write(partial(writes.release, session_id=session_id, owner=self._owner))

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
            await self._erase()
            return Removed(counted)
        gone = await self._write(lambda db: forgetting.forget(db, **what))
        self._finder.clear()  # it holds words and vectors
        try:
            await self._sweep()
        except StoreError as error:
            raise type(error)(
                "It is forgotten, but its bytes are still in the file. They are removed the next "
                f"time the space is opened. {error}"
            ) from error
        return gone

    async def _erase(self) -> None:
        """Removes the whole space, and closes."""

        def work(db: Connection) -> None:
            for table in reversed(schema.TABLES):
                db.delete(table)

        await self._write(work)
        await self.close()

    async def remains(self, texts: Sequence[str], vectors: Sequence[Vectors] = ()) -> Searched:
        of_texts = [erase.text_pieces(text) for text in texts]
        pieces = set[bytes]().union(*of_texts, *map(erase.vector_pieces, vectors))
        if self.closed:
            return await self._search_bytes(pieces)
        held = await self._read(lambda db: erase.held_elsewhere(db, pieces))
        found = await self._search_bytes(pieces - held.keys())
        whole = {n: held[min(own)] for n, own in enumerate(of_texts) if own and own <= held.keys()}
        return replace(found, held=whole)

    # ------------------------------------------------------------ the whole space

    async def bind(self, embedder: str, dim: int, embed: Embed | None = None) -> int:
        if embed is None:
            if await self._read(reads.embedder) != (embedder, dim):
                await self._write(lambda db: derived.bind(db, embedder, dim))
            return 0
        state = await self._read(reads.state)
        ids = _own_ids(await self._read(reads.sessions))
        made: dict[tuple[Index, int], bytes] = {}  # by index and key
        for start in range(0, len(ids), _BATCH):
            some = partial(derived.embedded_texts, sessions=ids[start : start + _BATCH])
            for index, found in groupby(await self._read(some), itemgetter(0)):
                _, keys, texts = zip(*found, strict=True)
                packed = codes.pack(await embed(index, texts))
                made |= {(index, key): each for key, each in zip(keys, packed, strict=True)}
        await self._write(lambda db: derived.replace_vectors(db, embedder, dim, made, state))
        return len(made)

    async def exists(self) -> bool:
        return await self._read(lambda db: db.first("1", "spaces") is not None)

    async def metadata(self) -> SpaceMetadata:
        return await self._read(partial(reads.metadata, size=await self._size()))

    async def check(self) -> Health:
        return await self._read(partial(check, found=await self._damage()))
