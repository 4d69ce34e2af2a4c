"""Several processes on one queue."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from justmem import AsyncMemory
from justmem.cli.app import app
from justmem.domain import SessionState
from justmem.memory_parts import Parts
from justmem.ports import Extraction
from justmem.store.engine import storage
from justmem.store.postgres import Job, PostgresStorage
from justmem.testing import HashEmbedder
from postgres import rows
from store_contract import (
    OpenSpace,
    session,
)
from stores import fail, waiting
from stories import RUN, by_rules

pytest_plugins = ["postgres_fixtures"]  # a server, when the first test wants it


AN_HOUR_LATER = "UPDATE justmem.sessions SET due = due - 3600 RETURNING 1"


class CountingExtractor:
    def __init__(self) -> None:
        self.made = 0
        self.going = asyncio.Event()
        self.go = asyncio.Event()

    async def extract(self, session: Any, *, limit: int | None, after: int = 0) -> Extraction:
        self.made += 1
        self.going.set()
        await self.go.wait()
        return Extraction(cards=())


class TestWorkers:
    async def test_a_session_remembered_by_two_processes_is_extracted_once(
        self, open_postgres: OpenSpace
    ) -> None:
        extractor = CountingExtractor()
        parts = Parts(HashEmbedder(8), **{**by_rules(), "extractor": extractor})
        one = AsyncMemory(await open_postgres(), parts)
        other = AsyncMemory(await open_postgres(), parts)
        first = asyncio.create_task(one.remember(RUN))
        await extractor.going.wait()
        second = await other.remember(RUN)
        assert (second.state, second.reason) == ("pending", "another process is making its cards")
        extractor.go.set()
        assert (await first).state == SessionState.EMPTY
        assert (await other.remember(RUN)).unchanged
        assert extractor.made == 1

    async def test_every_session_is_taken_by_one_of_many_workers(
        self, open_postgres: OpenSpace, database_url: str
    ) -> None:
        for space in ("ana", "ben"):
            store = await open_postgres(space)
            for number in range(10):
                await store.keep(session(f"{space} {number}"))
        taken: list[Job] = []

        async def worker() -> None:
            database = PostgresStorage(database_url, size=1)
            while job := await database.take():
                taken.append(job)
            await database.close()

        await asyncio.gather(*(worker() for _ in range(6)))
        assert len(taken) == len(set(taken)) == 20

    async def test_a_claim_whose_holder_died_is_given_to_another(
        self, open_postgres: OpenSpace, database_url: str
    ) -> None:
        store = await open_postgres()
        await store.keep(session())
        dead, alive = PostgresStorage(database_url), PostgresStorage(database_url)
        assert await dead.take() == Job("ana", "s1")
        assert await alive.take() is None
        await rows(database_url, AN_HOUR_LATER, space="ana")
        assert await alive.take() == Job("ana", "s1")
        await dead.close()
        await alive.close()

    async def test_spaces_take_turns_and_what_was_tried_before_comes_last(
        self, open_postgres: OpenSpace, database_url: str
    ) -> None:
        database = PostgresStorage(database_url)
        for space, id in (("ana", "tried"), ("ana", "a1"), ("ana", "a2"), ("ben", "b1")):
            await (await open_postgres(space)).keep(session(id))
            if id == "tried":
                await database.take()  # and its worker died
                await rows(database_url, AN_HOUR_LATER, space="ana")
        order = []
        for busy, full in (((), ()), (("ana",), ()), (("ana",), ("ana",)), ((), ())):
            taken = await database.take(busy=busy, full=full)
            order.append(taken and taken.session)
        assert order == ["a1", "b1", None, "a2"]
        assert await database.take() == Job("ana", "tried")
        await database.close()

    async def test_a_wrong_clock_steals_no_claim(
        self, open_postgres: OpenSpace, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        one, other = await open_postgres(), await open_postgres()
        await one.keep(session())
        async with one.claim("s1") as mine:
            monkeypatch.setattr("time.time", lambda: 4e9)
            async with other.claim("s1") as theirs:
                assert (mine, theirs) == (True, False)

    async def test_a_failed_session_is_left_alone_for_a_while(
        self, open_postgres: OpenSpace, database_url: str
    ) -> None:
        store, database = await open_postgres(), PostgresStorage(database_url)
        await store.keep(session())
        await database.take()
        await fail(store, "s1", "the model stayed away")
        assert await database.take() is None
        assert await waiting(store) == [session()]
        async with store.claim("s1") as mine:  # but `retry` may
            assert mine
        await database.close()


def test_the_command_works_off_what_waits_in_all_spaces(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUSTMEM_STORE", database_url)
    monkeypatch.setenv("JUSTMEM_EMBEDDER", "justmem.testing:HashEmbedder")
    monkeypatch.setenv("JUSTMEM_RERANKER", "none")
    spaces = ("works one", "works two")

    async def each(act: Any) -> list[Any]:
        place = storage(database_url)
        found = [await act(await place.open(space)) for space in spaces]
        await place.close()
        return found

    asyncio.run(each(lambda store: store.keep(session())))
    run = CliRunner()
    done = run.invoke(app, ["work", "--once"])
    assert done.exit_code == 0, done.output
    assert "2 sessions done." in done.output
    assert asyncio.run(each(waiting)) == [[], []]
    seen = run.invoke(app, ["stats", "--space", "works one", "--json"])
    assert seen.exit_code == 0, seen.output
    doctor = run.invoke(app, ["doctor", "--space", "works two", "--offline"])
    assert "'works two' opens" in doctor.output
    missing = run.invoke(app, ["stats", "--space", "nobody"])
    assert missing.exit_code == 8
    assert "works one" in missing.output
    assert run.invoke(app, ["sweep", "--space", "works one"]).exit_code == 0
    asyncio.run(each(lambda store: store.forget(everything=True)))


def test_the_commands_for_a_server_say_so_where_there_is_none(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["work", "--folder", str(tmp_path)])
    assert done.exit_code == 2
    assert "JUSTMEM_STORE" in done.output
