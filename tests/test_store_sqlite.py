"""The embedded store: the contract of all stores, and what is special to files."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from justmem.stores.sqlite import SqliteStore, open_store
from store_contract import OpenSpace, StoreContract


@pytest.fixture
async def open_space(tmp_path: Path) -> AsyncIterator[OpenSpace]:
    opened: list[SqliteStore] = []

    async def open_space(space: str = "ana", **options: Any) -> SqliteStore:
        store = await open_store(tmp_path / "spaces", space, **options)
        opened.append(store)
        return store

    yield open_space
    for store in opened:
        await store.close()


class TestContract(StoreContract):
    pass
