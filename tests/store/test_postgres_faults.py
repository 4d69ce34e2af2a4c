"""Lines that are cut and servers that are killed: nothing lost, nothing twice."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import Any

import psycopg
import pytest

from justmem.domain import SessionState
from justmem.errors import NotInMemory, StoreError
from justmem.ports import CardFilter, Store
from justmem.store.postgres import open_store
from postgres import Server, create_database, short_folder
from store_contract import (
    OpenSpace,
    all_facts,
    card,
    derived,
    found,
    remember,
    session,
)
from stores import settle, spent

pytest_plugins = ["postgres_fixtures"]  # a server, when the first test wants it


async def _sessions(store: Store) -> int:
    return len(await store.sessions())


class Flaky:
    """Stands between the store and the server, and cuts the line after so many replies."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self.left = 10**9
        self.cuts = 0

    async def start(self, folder: Path) -> None:
        self._server = await asyncio.start_unix_server(self._serve, folder / ".s.PGSQL.5432")

    async def stop(self) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream, down = await asyncio.open_unix_connection(self._socket)

        async def up() -> None:
            while data := await reader.read(65536):
                down.write(data)
                await down.drain()

        sending = asyncio.create_task(up())
        with suppress(ConnectionError):
            while data := await upstream.read(65536):
                self.left -= 1
                if self.left < 0:  # the server did it, and its answer is lost
                    self.left, self.cuts = 10**9, self.cuts + 1
                    break
                writer.write(data)
                await writer.drain()
        sending.cancel()
        for each in (writer, down):
            each.close()


@pytest.fixture
async def flaky(postgres_server: Server, tmp_path_factory: Any) -> AsyncIterator[Any]:
    line = Flaky(postgres_server.folder / ".s.PGSQL.5432")
    with tempfile.TemporaryDirectory(prefix="jm-cut-") as folder:
        await line.start(Path(folder))
        yield line, folder
        await line.stop()


class TestCuts:
    async def test_whenever_the_line_is_cut_everything_happens_at_most_once(
        self, flaky: Any, open_postgres: OpenSpace, database_url: str
    ) -> None:
        """After every reply in turn. If the reply to the commit is lost, an error says that nobody
        knows whether it happened. Otherwise it happened."""
        direct = await open_postgres()
        line, folder = flaky
        store = await open_store(database_url.partition("?")[0] + f"?host={folder}", "ana")
        day, told = date(2023, 5, 7), list[str]()
        await remember(store, session(), "likes tea", "likes rain")
        for cut in range(12):
            for act, counted in (
                (lambda: store.spend(day, 5), lambda: spent(direct, day)),
                (
                    lambda id=f"cut {cut}": store.keep(session(id)),
                    lambda: _sessions(direct),
                ),
                (
                    lambda id=f"cut {cut}": store.forget(sessions=[id]),
                    lambda: _sessions(direct),
                ),
            ):
                before = await counted()
                line.left = cut
                try:
                    await act()
                except NotInMemory:
                    continue  # it was not kept
                except StoreError as error:
                    told.append(str(error))
                    assert abs(await counted() - before) in (0, 1, 5)
                else:
                    assert abs(await counted() - before) in (1, 5)
                finally:
                    line.left = 10**9
        assert line.cuts >= 15
        assert 1 <= len(told) < line.cuts
        assert all("may be stored" in each for each in told)
        assert await all_facts(direct) == ["likes tea", "likes rain"]
        await store.close()

    async def test_a_connection_that_the_server_ends_is_replaced(
        self, open_postgres: OpenSpace, administrator_url: str
    ) -> None:
        store = await open_postgres()
        for number in range(5):
            await remember(store, session(f"s{number}"), f"fact {number}")
            with psycopg.connect(administrator_url, autocommit=True) as db:
                db.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE usename = 'justmem_tests'"
                )
        assert len(await all_facts(store)) == 5

    async def test_a_cancelled_question_leaves_the_store_usable(
        self, open_postgres: OpenSpace
    ) -> None:
        store = await open_postgres()
        await remember(store, session(), "likes tea")
        for _ in range(20):
            task = asyncio.create_task(found(store, "tea"))
            await asyncio.sleep(0)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        assert await all_facts(store) == ["likes tea"]


class TestKilledServer:
    @pytest.fixture
    def server(self) -> Any:

        server = Server(short_folder())
        server.start()
        yield server
        server.stop()
        shutil.rmtree(server.folder, ignore_errors=True)

    async def test_nothing_acknowledged_is_lost_and_nothing_is_stored_twice(
        self, server: Server
    ) -> None:
        url = create_database(server.url(), "killed")
        store = await open_store(url, "ana")
        await store.bind("hash", 8)
        kept: set[str] = set()
        settled: set[str] = set()
        acknowledged = [0]

        async def write(worker: int) -> None:
            for number in range(10**6):
                of = session(f"{worker} {number}", f"turn {worker} {number}")
                try:
                    await store.keep(of)
                    kept.add(of.id)
                    made = derived(of, card(of, f"fact {number}"), card(of, "more"), tokens=7)
                    await settle(store, of, made)
                    settled.add(of.id)
                    await store.spend(date(2023, 5, 7), 1)
                    acknowledged[0] += 1
                except StoreError:
                    await asyncio.sleep(0.05)

        for _ in range(3):
            before = len(settled)
            tasks = [asyncio.create_task(write(100 * before + n)) for n in range(3)]
            while len(settled) < before + 25:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            await asyncio.to_thread(server.kill)
            await asyncio.sleep(0.05)
            await asyncio.to_thread(server.start)
            while len(settled) < before + 40:  # noqa: ASYNC110  they go on by themselves
                await asyncio.sleep(0.01)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await store.close()
            store = await open_store(url, "ana")
        records = {record.id: record for record in await store.sessions()}
        assert kept <= records.keys()
        assert all(records[id].state == SessionState.STORED for id in settled)
        cards = await store.cards(CardFilter(limit=10**6))
        assert len(cards) == len({c.id for c in cards}) == sum(r.cards for r in records.values())
        extent = await store.look()
        assert extent.cards == len(cards)
        assert extent.tokens == sum(record.tokens for record in records.values())
        # A cancelled task's last call may have happened unacknowledged: three tasks, three times.
        total = await spent(store, date(2023, 5, 7))
        assert acknowledged[0] <= total <= acknowledged[0] + 9
        await store.close()
