"""What goes wrong between a user and a server, in sentences that say what to do."""

from __future__ import annotations

import sys
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from justmem.errors import InvalidSetting, NotInMemory, StoreError
from justmem.store.engine import storage
from justmem.store.postgres import open_store
from postgres import create_database
from store_contract import (
    OpenSpace,
    found,
    remember,
    session,
)

pytest_plugins = ["postgres_fixtures"]  # a server, when the first test wants it


class TestClearErrors:
    @pytest.mark.parametrize(
        ("url", "error", "said"),
        [
            ("postgresql://ana@nowhere.invalid/x", StoreError, "cannot be reached"),
            ("postgresql://ana@127.0.0.1:1/x", StoreError, "cannot be reached"),
            ("postgresql://ana:secret@/x?host=/nowhere", StoreError, "cannot be reached"),
            ("postgresql://ana@host/x?colour=blue", InvalidSetting, "postgresql://user@host"),
            ("postgresql://ana@host:port/x", (InvalidSetting, StoreError), "port"),
        ],
    )
    async def test_an_address_that_leads_nowhere(self, url: str, error: Any, said: str) -> None:
        with pytest.raises(error, match=said) as raised:
            await open_store(url, "ana")
        assert "secret" not in str(raised.value)

    async def test_a_database_or_role_that_is_not_there(self, database_url: str) -> None:
        name = str(conninfo_to_dict(database_url)["dbname"])
        with pytest.raises(StoreError, match="createdb"):
            await open_store(database_url.replace(f"/{name}?", "/nowhere?"), "ana")
        with pytest.raises(StoreError, match="the password"):
            await open_store(database_url.replace("//justmem_tests@", "//nobody_here@"), "ana")

    @pytest.mark.parametrize("table", ["format", "migrations", "versions"])
    async def test_a_database_of_an_earlier_format_is_explained_and_left_as_it_was(
        self, administrator_url: str, worker_id: str, table: str
    ) -> None:
        url = create_database(administrator_url, f"justmem_{worker_id}_old")
        with psycopg.connect(url, autocommit=True) as db:
            db.execute("CREATE SCHEMA justmem")
            db.execute(f"CREATE TABLE justmem.{table} (version integer)")
        with pytest.raises(StoreError, match=r"earlier format.*justmem export.*justmem import"):
            await open_store(url, "ana")
        with psycopg.connect(url) as db:
            tables = db.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'justmem'")
            assert tables.fetchall() == [(table,)]

    async def test_a_role_that_may_only_read_reads_and_is_told_so_when_it_writes(
        self, open_postgres: OpenSpace, database_url: str
    ) -> None:
        store = await open_postgres()
        await store.bind("onnx:small", 8)
        await remember(store, session(), "likes tea")
        options = "&options=-cdefault_transaction_read_only%3Don"
        reader = await open_store(database_url + options, "ana")
        await reader.bind("onnx:small", 8)
        assert len((await found(reader, "tea"))[1]) == 1
        with pytest.raises(StoreError, match="read-only"):
            await reader.keep(session("s2"))
        with pytest.raises(StoreError, match="read-only"):
            await open_store(database_url + options, "a new one")
        await reader.close()

    async def test_a_role_without_rights_is_told_what_to_grant(
        self, open_postgres: OpenSpace, database_url: str, administrator_url: str
    ) -> None:
        await open_postgres()
        with psycopg.connect(administrator_url, autocommit=True) as db:
            if not db.execute(
                "SELECT 1 FROM pg_roles WHERE rolname = 'justmem_stranger'"
            ).fetchone():
                db.execute("CREATE ROLE justmem_stranger LOGIN")
        with pytest.raises(StoreError, match="Grant"):
            await open_store(database_url.replace("justmem_tests", "justmem_stranger", 1), "ana")

    async def test_a_space_that_is_not_there(self, open_postgres: OpenSpace) -> None:
        with pytest.raises(NotInMemory, match="nobody"):
            await open_postgres("nobody", create=False)

    async def test_without_the_extra_the_command_that_installs_it_is_named(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:

        for name in [
            n
            for n in sys.modules
            if n in ("justmem.store.postgres", "justmem.store.postgres_connection")
        ]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, "psycopg", None)
        with pytest.raises(InvalidSetting, match=r"justmem\[postgres\]"):
            await storage("postgresql://ana@host/x").spaces()
