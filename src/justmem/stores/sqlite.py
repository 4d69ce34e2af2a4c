"""The embedded store: one SQLite file per space.

The words are in `texts` and `cards`, the vectors beside them as one blob a session, the words
again in two FTS5 indexes; all of a session is written in one transaction. Search scans every
vector exactly, in a matrix that is kept in memory, and asks FTS5 for the lexical half.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Mapping, Sequence
from datetime import date
from functools import partial
from pathlib import Path
from typing import TypeVar

from justmem.domain import (
    Card,
    Forgotten,
    Health,
    Passage,
    Quarantined,
    Session,
    SessionRecord,
    Stats,
)
from justmem.errors import (
    NotForgotten,
    StoreError,
)
from justmem.ports import (
    CardFilter,
    CopyableStore,
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
)
from justmem.stores import (
    derived,
    files,
    forgetting,
    reads,
    remains,
    schema,
    writes,
)
from justmem.stores.backup import backup, check_target
from justmem.stores.connections import Connections
from justmem.stores.finding import Finder
from justmem.stores.keyring import Keyring
from justmem.stores.vectors import Moment, moment
from justmem.traces import Traces

T = TypeVar("T")


def _ordinal(day: date | None) -> int | None:
    return None if day is None else day.toordinal()


class _Caches:
    """What is kept in memory for all who use the store, under whatever name."""

    def __init__(self) -> None:
        self.empty()

    def empty(self) -> None:
        self.subject: str | None = None
        self.subject_at: Moment | None = None
        self.finder = Finder()


class SqliteStore:
    """See `justmem.ports.Store` for what each method promises."""

    def __init__(
        self,
        space: str,
        path: Path,
        connections: Connections,
        keys: Keyring | None = None,
    ) -> None:
        self.space = space
        self.path = path
        self._keys = keys
        self._db = connections
        self._caches = _Caches()

    # ------------------------------------------------------------ the change log

    async def log(self, entries: Sequence[tuple[int, str, str]]) -> None:
        await self._db.write(partial(writes.log, entries=entries))

    async def logged(
        self, *, after: int = 0, before: int | None = None, latest: bool = False, limit: int = 1000
    ) -> Sequence[tuple[int, str, str]]:
        return await self._db.read(lambda db: reads.logged(db, after, before, latest, limit))

    def copying(self) -> CopyableStore:
        from justmem.stores.whole import SqliteCopy

        return SqliteCopy(self)

    async def bind(self, embedder: str, dim: int) -> None:
        await self._db.write(partial(writes.bind, embedder=embedder, dim=dim))

    # ------------------------------------------------------------ sessions

    async def keep(self, session: Session) -> SessionRecord:
        return await self._db.write(partial(writes.keep, session=session))

    async def blanked(self, session: Session) -> Session:
        return await self._db.read(partial(reads.blanked, session=session))

    async def settle(self, session: Session, digested: Digested) -> None:
        await self._db.write(partial(derived.settle, session=session, digested=digested))

    async def begin(self, session_id: str) -> None:
        await self._db.write(partial(writes.begin, session_id=session_id))

    async def fail(self, session_id: str, reason: str) -> None:
        await self._db.write(partial(writes.fail, session_id=session_id, reason=reason))

    async def session(self, session_id: str) -> Session:
        return await self._db.read(partial(reads.session, session_id=session_id))

    async def sessions_at(self, ids: Sequence[str]) -> Mapping[str, Session]:
        return await self._db.read(partial(reads.sessions_at, ids=ids))

    async def waiting(self, *, newest: int | None = None) -> Sequence[Session]:
        return await self._db.read(partial(reads.waiting, newest=newest))

    async def sessions(self) -> Sequence[SessionRecord]:
        return await self._db.read(reads.sessions)

    async def extent(self) -> Extent:
        return await self._db.read(reads.extent)

    async def main_subject(self) -> str | None:
        return await self._db.read(self._main_subject)

    def _main_subject(self, db: sqlite3.Connection) -> str | None:
        """Counting every card takes time: once for each state of the store."""
        now = moment(db)
        held = self._caches
        if held.subject_at != now:
            held.subject, held.subject_at = reads.main_subject(db), now
        return held.subject

    # ------------------------------------------------------------ search

    async def search(
        self, views: Sequence[View], index: Index, *, dense: int, lexical: int, until: date | None
    ) -> Sequence[Hits]:
        last, finder = _ordinal(until), self._caches.finder
        return await self._db.read(lambda db: finder.search(db, views, index, dense, lexical, last))

    async def find(self, views: Sequence[View], reach: Reach) -> Found:
        finder = self._caches.finder
        return await self._db.read(lambda db: finder.find(db, views, reach))

    # ------------------------------------------------------------ cards and passages

    async def cards_at(self, keys: Sequence[int]) -> Mapping[int, Card]:
        return await self._db.read(partial(reads.cards_at, keys=keys))

    async def passages_at(self, keys: Sequence[int]) -> Mapping[int, Passage]:
        return await self._db.read(partial(reads.passages_at, keys=keys))

    async def card(self, card_id: str) -> Card:
        return await self._db.read(partial(reads.card, card_id=card_id))

    async def cards(self, where: CardFilter) -> Sequence[Card]:
        return await self._db.read(partial(reads.cards, where=where))

    async def mentions(self, text: str) -> Sequence[Passage]:
        return await self._db.read(partial(reads.mentions, text=text))

    async def quarantined(self, session_id: str) -> Sequence[Quarantined]:
        return await self._db.read(partial(reads.quarantined, session_id=session_id))

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
        gone = await self._db.write(
            partial(
                forgetting.forget,
                cards=cards,
                turns=turns,
                sessions=sessions,
                words=words,
                subject=subject,
            )
        )
        self._caches.empty()  # the vectors in this process go too
        try:
            await self._db.write(forgetting.sweep)
        except StoreError as error:
            raise type(error)(
                "What was to be forgotten is gone from memory, but not from the file yet: it goes "
                f"when the space is opened next. {error}"
            ) from error
        return gone

    async def erase(self) -> Forgotten:
        gone = await self._db.write(forgetting.last_count)
        await self.close()
        await asyncio.to_thread(files.unlink, self.path)
        return gone

    async def remains(self, traces: Traces) -> Searched:
        if self._db.closed:  # erased: what is left are files, if anything
            return await asyncio.to_thread(
                remains.in_files, self.path, traces, None, None, self._keys
            )
        if foreign := await self._db.read(schema.foreign):
            raise NotForgotten(
                f"It is forgotten, but there is no certificate: {self.path} holds what JustMem did "
                f"not make and what may keep words ({', '.join(foreign)}). See what it is, and "
                "remove it with DROP in SQLite."
            )
        await self._db.write(partial(forgetting.sweep, thorough=True))
        searched, machinery = await self._db.write(partial(remains.in_tables, traces=traces))
        left = traces.without(machinery)
        return searched + await asyncio.to_thread(
            remains.in_files, self.path, left, self._db.claim, self._db.lock, self._keys
        )

    # ------------------------------------------------------------ re-embedding

    async def texts(
        self, index: Index, *, after: int = 0, count: int = 256
    ) -> Sequence[tuple[int, str]]:
        """The next texts that need a vector, as (key, text) in rising order of keys."""
        return await self._db.read(partial(reads.texts, index=index, after=after, count=count))

    async def replace_vectors(
        self, embedder: str, dim: int, replaced: Mapping[Index, tuple[Sequence[int], Vectors]]
    ) -> None:
        """All vectors at once, in one transaction, with the embedder they come from. An index
        that is left out has no vectors afterwards."""
        await self._db.write(
            partial(derived.replace_vectors, embedder=embedder, dim=dim, replaced=replaced)
        )

    # ------------------------------------------------------------ the ledger

    async def reserve(self, day: date, tokens: int, limit: int) -> bool:
        return await self._db.write(partial(writes.reserve, day=day, tokens=tokens, limit=limit))

    async def spend(
        self, day: date, tokens: int, *, reserved: int = 0, session: str | None = None
    ) -> None:
        await self._db.write(
            partial(writes.spend, day=day, tokens=tokens, reserved=reserved, session=session)
        )

    async def spent_on(self, session_id: str) -> int:
        return await self._db.read(partial(reads.spent_on, session_id=session_id))

    async def spent(self, day: date) -> int:
        return await self._db.read(partial(reads.spent, day=day))

    async def stats(self) -> Stats:
        return await self._db.read(partial(reads.stats, path=self.path))

    async def check(self) -> Health:
        from justmem.stores.checking import check

        return await self._db.aside(check)

    async def backup(self, target: Path) -> None:
        check_target(target)
        lock = self._db.lock
        await self._db.aside(partial(backup, target=target, lock=lock))

    async def close(self) -> None:
        await self._db.close()
        self._caches.empty()
