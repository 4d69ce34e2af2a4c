"""Migrations under load, sweeping, dump and restore, and a memory opened by its address."""

from __future__ import annotations

import asyncio
import re

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

import justmem
from justmem.errors import StoreTooNew
from justmem.store import schema
from justmem.store.postgres import open_store
from justmem.testing import HashEmbedder
from justmem.transfer.lines import SessionLine
from postgres import Server, create_database, rows
from store_contract import (
    OpenSpace,
    card,
    found,
    remember,
    session,
)
from stories import RUN

pytest_plugins = ["postgres_fixtures"]  # a server, when the first test wants it


class TestMigrations:
    async def test_many_may_open_an_empty_database_at_once(self, fresh_database_url: str) -> None:
        stores = await asyncio.gather(
            *(open_store(fresh_database_url, f"space {n % 3}") for n in range(6))
        )
        await asyncio.gather(*(remember(s, session(f"s{n}"), "ran") for n, s in enumerate(stores)))
        assert [len(await store.sessions()) for store in stores] == [2] * 6
        for store in stores:
            await store.close()

    async def test_a_step_is_taken_while_others_read_and_write(
        self, open_postgres: OpenSpace, fresh_database_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store = await open_store(fresh_database_url, "ana")
        done = asyncio.Event()

        async def busy() -> int:
            count = 0
            while not done.is_set():
                await remember(store, session(f"s{count}"), "ran")
                await found(store, "ran")
                count += 1
            return count

        working = asyncio.create_task(busy())
        added = "ALTER TABLE sessions ADD COLUMN mood TEXT NOT NULL DEFAULT '';"
        monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, added))
        newer = await open_store(fresh_database_url, "ben")
        done.set()
        count = await working
        assert len(await store.sessions()) == count > 0
        monkeypatch.undo()
        with pytest.raises(StoreTooNew, match="upgrade JustMem"):
            await open_store(fresh_database_url, "ana")
        await store.close()
        await newer.close()


async def test_no_byte_of_what_was_forgotten_stays_after_a_sweep(
    open_postgres: OpenSpace, postgres_server: Server, database_url: str, administrator_url: str
) -> None:
    store = await open_postgres()
    of = session("s1", "Marzipan01 in a turn", "and Marzipan02")
    await remember(store, of, "likes Marzipan03", "likes Marzipan04")
    await remember(store, session("s2"), "likes Marzipan05")
    await store.keep(session("s2", "changed to Marzipan06"))
    with psycopg.connect(_as_administrator(administrator_url, database_url)) as db:
        db.autocommit = True
        db.execute("ANALYZE")  # the planner's samples are a place to look in too
        db.execute("CHECKPOINT")
    assert _markers(postgres_server) >= {b"Marzipan01", b"Marzipan03", b"Marzipan05"}
    await store.forget(cards=[card(of, "likes Marzipan03").id], sessions=["s2"])
    await store.forget(sessions=["s1"])
    await store._sweep(thorough=True)
    with psycopg.connect(administrator_url, autocommit=True) as db:
        db.execute("CHECKPOINT")
    assert _markers(postgres_server) == set()


def _as_administrator(administrator_url: str, database_url: str) -> str:
    name = conninfo_to_dict(database_url)["dbname"]
    return make_conninfo(administrator_url, dbname=name)


def _markers(server: Server) -> set[bytes]:
    """In the tables' files; the log keeps what it has until it is overwritten (see the docs)."""
    found: set[bytes] = set()
    for path in (server.data / "base").rglob("*"):
        if path.is_file():
            found |= set(re.findall(rb"(?i)marzipan\d\d", path.read_bytes()))
    return {each.capitalize() for each in found}


async def test_a_dump_is_restored_to_the_same_memory(
    open_postgres: OpenSpace,
    postgres_server: Server,
    database_url: str,
    administrator_url: str,
    worker_id: str,
) -> None:

    store = await open_postgres()
    for number in range(5):
        await remember(store, session(f"s{number}", f"turn {number}"), f"fact {number}", "more")
    file = postgres_server.folder / "dump"
    name = str(conninfo_to_dict(database_url)["dbname"])
    postgres_server.run("pg_dump", "-Fc", "-f", str(file), postgres_server.url(name))
    create_database(administrator_url, f"{name}_restored")
    target = postgres_server.url(f"{name}_restored")
    postgres_server.run("pg_restore", "-d", target, str(file))
    restored = await open_store(database_url.replace(f"/{name}?", f"/{name}_restored?"), "ana")
    ids = [record.id for record in await store.sessions()]
    assert [SessionLine.of(w, vectors=True) for w in await restored.read(ids)] == [
        SessionLine.of(w, vectors=True) for w in await store.read(ids)
    ]
    assert await found(restored, "fact 3") == await found(store, "fact 3")
    assert await rows(restored.database.url, "SELECT * FROM justmem.cards") == []
    await restored.close()


def test_a_memory_is_opened_by_its_address(database_url: str) -> None:
    """The synchronous face: made in one event loop, used in another."""
    with justmem.open(
        "opened", store=database_url, embedder=HashEmbedder(64), reranker="none"
    ) as memory:
        memory.remember(RUN)
        evidence = memory.recall("How long did the half marathon take?")
        assert any("half marathon" in card.fact for card in evidence.cards)
        assert memory.stats().sessions == {"stored": 1}
        memory.forget(everything=True)
