"""The embedded store: one SQLite file per space.

The words are in `texts` and `cards`, the vectors beside them as one blob a session, the words
again in two FTS5 indexes; all of a session is written in one transaction. Search scans every
vector exactly, in a matrix that is kept in memory, and asks FTS5 for the lexical half.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from datetime import date
from functools import partial
from pathlib import Path
from typing import TypeVar

from justmem.domain import (
    Card,
    Entry,
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
    Author,
    CardFilter,
    CopyableStore,
    Deed,
    Digested,
    EntryFilter,
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
    audit,
    derived,
    forgetting,
    locks,
    reads,
    remains,
    schema,
    writes,
)
from justmem.stores.backup import backup, check_target
from justmem.stores.connections import Connections, writing
from justmem.stores.finding import Finder
from justmem.stores.keyring import Keyring
from justmem.stores.notes import Notes, counted
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
        key: bytes,
        keys: Keyring | None = None,
    ) -> None:
        self.space = space
        self.path = path
        self._keys = keys
        self._db = connections
        self._caches = _Caches()
        self._key = key
        self._notes = Notes(lambda deeds: connections.write(partial(audit.note, key, deeds)))
        self._author: Author | None = None

    # ------------------------------------------------------------ the audit

    def by(self, author: Author) -> SqliteStore:
        named = copy(self)
        named._author = author
        return named

    def note(self, deeds: Sequence[Deed]) -> None:
        self._notes.add(deeds)

    async def entries(self, where: EntryFilter) -> Sequence[Entry]:
        await self._notes.written()
        return await self._db.read(partial(audit.entries, self._key, where))

    async def change(
        self, work: Callable[[sqlite3.Connection], T], told: Callable[[Author, T], list[Deed]]
    ) -> tuple[T, Entry | None]:
        """The work and its entry in one transaction, after the entries of what was read before.
        What changed nothing leaves none."""
        await self._notes.written()

        def both(db: sqlite3.Connection) -> tuple[T, Entry | None]:
            with writing(db):
                before = db.total_changes
                done = work(db)
                if self._author is None or db.total_changes == before:
                    return done, None
                made = audit.enter(self._key, told(self._author, done), db)
                return done, made[-1] if made else None

        return await self._db.write(both)

    def copying(self) -> CopyableStore:
        from justmem.stores.whole import SqliteCopy

        return SqliteCopy(self)

    async def bind(self, embedder: str, dim: int) -> None:
        await self._db.write(partial(writes.bind, embedder=embedder, dim=dim))

    # ------------------------------------------------------------ sessions

    async def keep(self, session: Session) -> SessionRecord:
        record, _ = await self.change(
            partial(writes.keep, session=session),
            lambda author, _: author.did("keep", [session.id], turns=len(session.turns)),
        )
        return record

    async def blanked(self, session: Session) -> Session:
        return await self._db.read(partial(reads.blanked, session=session))

    async def settle(self, session: Session, digested: Digested) -> None:
        await self.change(
            partial(derived.settle, session=session, digested=digested),
            lambda author, _: author.did(
                "settle",
                [session.id, *(card.id for card in digested.cards)],
                cards=len(digested.cards),
                quarantined=len(digested.quarantined),
            ),
        )

    async def begin(self, session_id: str) -> None:
        await self._db.write(partial(writes.begin, session_id=session_id))

    async def fail(self, session_id: str, reason: str) -> None:
        await self.change(
            partial(writes.fail, session_id=session_id, reason=reason),
            lambda author, _: author.did("fail", [session_id]),
        )

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
        named = [*cards, *(f"{id}#{number}" for id, number in turns), *sessions, *words]
        return await self._gone(
            partial(
                forgetting.forget,
                cards=cards,
                turns=turns,
                sessions=sessions,
                words=words,
                subject=subject,
            ),
            lambda author, gone: author.did("forget", named, **counted(gone)),
        )

    async def _gone(
        self,
        work: Callable[[sqlite3.Connection], Forgotten],
        told: Callable[[Author, Forgotten], list[Deed]],
    ) -> Forgotten:
        gone, entry = await self.change(work, told)
        self._caches.empty()  # the vectors in this process go too
        try:
            await self._db.write(forgetting.sweep)
        except StoreError as error:
            raise type(error)(
                "What was to be forgotten is gone from memory, but not from the file yet: it goes "
                f"when the space is opened next. {error}"
            ) from error
        return gone.model_copy(update={"entry": entry})

    async def erase(self) -> Forgotten:
        await self._notes.written()  # so that erasing is the last entry
        gone = await self._db.write(self._last_count)
        await self.close()
        await asyncio.to_thread(locks.erase, self.path, self._keys)
        return gone

    def _last_count(self, db: sqlite3.Connection) -> Forgotten:
        with writing(db):
            gone = forgetting.last_count(db)
            deeds = self._author.did("erase", (), **counted(gone)) if self._author else []
            made = audit.enter(self._key, deeds, db)
            return gone.model_copy(update={"entry": made[-1] if made else None})

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
        texts = sum(len(keys) for keys, _ in replaced.values())
        await self.change(
            partial(derived.replace_vectors, embedder=embedder, dim=dim, replaced=replaced),
            lambda author, _: author.did("reembed", texts=texts),
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
        await self._notes.written()
        await self._db.close()
        self._caches.empty()
