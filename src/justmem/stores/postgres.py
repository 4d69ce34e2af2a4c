"""The store for many: PostgreSQL with pgvector, all spaces in one database.

What it promises is what the SQLite store promises (`justmem.ports.Store`). Every table is divided
by space and guarded by row-level security; a search reads the rows of its space and no others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import date
from pathlib import Path

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
from justmem.errors import InvalidSetting, NotInMemory, StoreError
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
from justmem.stores.pg import remains, schema
from justmem.stores.pg.database import Connection, Database
from justmem.stores.pg.derived import Derived
from justmem.stores.pg.encode import plain, text
from justmem.stores.pg.finding import Finder
from justmem.stores.pg.forgetting import Forgetting
from justmem.stores.pg.lexicon import Lexicon
from justmem.stores.pg.reads import Reads
from justmem.stores.pg.schema import Names
from justmem.stores.pg.search import Search
from justmem.stores.pg.wire import Statement
from justmem.stores.pg.workers import Claims
from justmem.stores.pg.writes import Writes
from justmem.traces import Traces


async def open_store(url: str, space: str, *, create: bool = True) -> PostgresStore:
    """With a pool of its own. To open many spaces of one database, share a `Database`."""
    database = Database(url)
    await schema.prepare(database)
    return await open_in(database, space, create=create, close=True)


async def open_in(
    database: Database, space: str, *, create: bool = True, close: bool = False
) -> PostgresStore:
    """A space of a database that is prepared (`schema.prepare`). `close`: the database is closed
    with the store."""
    number = schema.number(space)
    async with database.connection() as connection:
        found = await _row(connection, number, space, database.language if create else None)
    if found is None:
        raise NotInMemory(f"There is no space {space!r} in {database.shown}.")
    part, language = found
    names, lexicon = Names(number, part), Lexicon(database, language)
    return PostgresStore(space, database, names, lexicon, close=close)


async def _row(
    connection: Connection, number: int, space: str, language: str | None
) -> tuple[str, str] | None:
    """The ending of the names of the tables that hold this space, and its language. A space that
    is not there is made if a language is given for it."""
    async with connection.transaction():
        await connection.execute("SELECT set_config('justmem.space', %s, true)", [str(number)])
        name = text(space).decode()
        asked = (
            "SELECT name, tableoid::regclass::text, language FROM justmem.spaces WHERE space = %s"
        )
        found = await (await connection.execute(asked, [number])).fetchone()
        if found is None and language is not None:
            await schema.check_language(connection, language)
            await connection.execute(
                "INSERT INTO justmem.spaces (space, name, language) VALUES (%s, %s, %s) "
                "ON CONFLICT DO NOTHING",
                [number, name, language],
            )
            found = await (await connection.execute(asked, [number])).fetchone()
    if found is None:
        return None
    if found[0] != name:
        raise StoreError(f"The name {space!r} cannot be told from another: choose another name.")
    return str(found[1]).rpartition("spaces")[2], found[2]


async def spaces(database: Database) -> list[str]:
    """The names of all spaces, in order."""
    found = await database.read_all(Statement("SELECT name FROM justmem.spaces"))
    return sorted(plain(name) for (name,) in found.rows)


class PostgresStore:
    """See `justmem.ports.Store` for what each method promises."""

    def __init__(
        self,
        space: str,
        database: Database,
        names: Names,
        lexicon: Lexicon,
        *,
        close: bool,
    ) -> None:
        self.space = space
        self.database = database
        self.names = names
        self.lexicon = lexicon
        self._close = close
        self._reads = Reads(database, names, lexicon)
        self._search = Search(database, names, lexicon)
        self._finder = Finder(database, names, self._search, self._reads)
        self._claims = Claims(database, names)
        self._writes = Writes(database, names, self._reads)
        self._derived = Derived(database, names, self._writes, lexicon)
        self._forgetting = Forgetting(database, names, self._derived)

    # ------------------------------------------------------------ the change log

    async def log(self, entries: Sequence[tuple[int, str, str]]) -> None:
        await self._writes.log(entries)

    async def logged(
        self, *, after: int = 0, before: int | None = None, latest: bool = False, limit: int = 1000
    ) -> Sequence[tuple[int, str, str]]:
        return await self._reads.logged(after, before, latest, limit)

    def copying(self) -> CopyableStore:
        from justmem.stores.pg.whole import PostgresCopy

        return PostgresCopy(self)

    async def bind(self, embedder: str, dim: int) -> None:
        await self._writes.bind(embedder, dim)

    # ------------------------------------------------------------ sessions

    async def keep(self, session: Session) -> SessionRecord:
        return await self._writes.keep(session)

    async def blanked(self, session: Session) -> Session:
        return await self._reads.blanked(session)

    async def settle(self, session: Session, digested: Digested) -> None:
        await self._derived.settle(session, digested)

    async def begin(self, session_id: str) -> None:
        await self._writes.begin(session_id)

    async def fail(self, session_id: str, reason: str) -> None:
        await self._writes.fail(session_id, reason)

    def claim(self, session_id: str) -> AbstractAsyncContextManager[bool]:
        return self._claims.claim(session_id)

    async def session(self, session_id: str) -> Session:
        return await self._reads.session(session_id)

    async def sessions_at(self, ids: Sequence[str]) -> Mapping[str, Session]:
        return await self._reads.sessions_at(ids)

    async def waiting(self, *, newest: int | None = None) -> Sequence[Session]:
        return await self._reads.waiting(newest)

    async def sessions(self) -> Sequence[SessionRecord]:
        return await self._reads.sessions()

    async def extent(self) -> Extent:
        return await self._reads.extent()

    async def main_subject(self) -> str | None:
        return await self._reads.main_subject()

    # ------------------------------------------------------------ search

    async def search(
        self, views: Sequence[View], index: Index, *, dense: int, lexical: int, until: date | None
    ) -> Sequence[Hits]:
        return await self._search(views, index, dense, lexical, until)

    async def find(self, views: Sequence[View], reach: Reach) -> Found:
        return await self._finder(views, reach)

    # ------------------------------------------------------------ cards and passages

    async def cards_at(self, keys: Sequence[int]) -> Mapping[int, Card]:
        return await self._reads.cards_at(keys)

    async def passages_at(self, keys: Sequence[int]) -> Mapping[int, Passage]:
        return await self._reads.passages_at(keys)

    async def card(self, card_id: str) -> Card:
        return await self._reads.card(card_id)

    async def cards(self, where: CardFilter) -> Sequence[Card]:
        return await self._reads.cards(where)

    async def mentions(self, text: str) -> Sequence[Passage]:
        return await self._reads.mentions(text)

    async def quarantined(self, session_id: str) -> Sequence[Quarantined]:
        return await self._reads.quarantined(session_id)

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
        """The rows are gone when this returns. Their bytes go with the server's next vacuum, or
        with `sweep`, which `remains` does too."""
        self._reads.forget()
        return await self._forgetting.forget(cards, turns, sessions, words, subject)

    async def erase(self) -> Forgotten:
        gone = await self._forgetting.erase()
        await self.close()
        return gone

    async def sweep(self, *, rewrite: bool = False) -> None:
        """See `pg.remains.sweep`."""
        await remains.sweep(self.database, self.names, rewrite=rewrite)

    async def remains(self, traces: Traces) -> Searched:
        return await remains.remains(self.database, self.names, traces)

    # ------------------------------------------------------------ re-embedding

    async def texts(
        self, index: Index, *, after: int = 0, count: int = 256
    ) -> Sequence[tuple[int, str]]:
        return await self._reads.texts(index, after, count)

    async def replace_vectors(
        self, embedder: str, dim: int, replaced: Mapping[Index, tuple[Sequence[int], Vectors]]
    ) -> None:
        await self._derived.replace_vectors(embedder, dim, replaced)

    # ------------------------------------------------------------ the ledger

    async def reserve(self, day: date, tokens: int, limit: int) -> bool:
        return await self._writes.reserve(day, tokens, limit)

    async def spend(
        self, day: date, tokens: int, *, reserved: int = 0, session: str | None = None
    ) -> None:
        await self._writes.spend(day, tokens, reserved, session)

    async def spent_on(self, session_id: str) -> int:
        return await self._reads.spent_on(session_id)

    async def spent(self, day: date) -> int:
        return await self._reads.spent(day)

    async def stats(self) -> Stats:
        return await self._reads.stats(self.space)

    async def check(self) -> Health:
        from justmem.stores.pg.checking import check

        return await check(self)

    async def backup(self, target: Path) -> None:
        raise InvalidSetting(
            "A space in PostgreSQL is backed up with its database: use pg_dump. `justmem export` "
            "or `justmem copy` writes one space."
        )

    async def close(self) -> None:
        if self._close:
            await self.database.close()
