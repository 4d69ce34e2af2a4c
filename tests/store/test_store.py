"""The contract of all stores, on each engine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from justmem.store.files import Keyring
from justmem.store.memory import MemoryStorage
from justmem.store.postgres import open_store as open_postgres
from justmem.store.sqlite import open_store
from store_contract import OpenSpace, StoreContract

pytest_plugins = ["postgres_fixtures"]


class TestInMemory(StoreContract):
    @pytest.fixture
    async def open_space(self) -> AsyncIterator[OpenSpace]:
        storage = MemoryStorage()

        async def open_space(space: str = "ana") -> Any:
            return await storage.open(space)

        yield open_space
        await storage.close()


class TestSqlite(StoreContract):
    keys: Keyring | None = None

    @pytest.fixture
    async def open_space(self, tmp_path: Path) -> AsyncIterator[OpenSpace]:
        opened: list[Any] = []

        async def open_space(space: str = "ana") -> Any:
            opened.append(await open_store(tmp_path, space, keys=self.keys))
            return opened[-1]

        yield open_space
        for store in opened:
            await store.close()


class TestEncryptedSqlite(TestSqlite):
    keys = Keyring(SecretStr("0123456789abcdef" * 4))


class TestPostgres(StoreContract):
    @pytest.fixture
    async def open_space(self, database_url: str) -> AsyncIterator[OpenSpace]:
        opened: list[Any] = []

        async def open_space(space: str = "ana") -> Any:
            opened.append(await open_postgres(database_url, space))
            return opened[-1]

        yield open_space
        for store in opened:
            await store.close()
        for space in {store.space for store in opened}:
            await (await open_postgres(database_url, space)).forget(everything=True)
