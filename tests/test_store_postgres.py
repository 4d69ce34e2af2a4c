"""The PostgreSQL store: the contract of all stores, and what is special to a server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from justmem.stores.postgres import PostgresStore, open_store
from store_contract import OpenSpace, StoreContract

pytestmark = pytest.mark.xdist_group("postgres")


@pytest.fixture
async def open_space(database_url: str) -> AsyncIterator[OpenSpace]:
    opened: list[PostgresStore] = []

    async def open_space(space: str = "ana", **options: Any) -> PostgresStore:
        store = await open_store(database_url, space, **options)
        opened.append(store)
        return store

    yield open_space
    for store in opened:
        await store.close()
    for space in {store.space for store in opened}:
        await (await open_store(database_url, space)).erase()


class TestContract(StoreContract):
    pass
