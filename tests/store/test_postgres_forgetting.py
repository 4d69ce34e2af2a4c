"""Forgetting in PostgreSQL: no certificate while the server still has the rows."""

from __future__ import annotations

import re
import secrets
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from justmem import AsyncMemory
from justmem.errors import StoreBusy, StoreError
from justmem.language.languages import LANGUAGES
from justmem.memory_parts import Parts
from justmem.store import postgres
from justmem.store.postgres import PostgresStorage, open_store
from justmem.testing import HashEmbedder
from postgres import ROLE, Server

pytest_plugins = ["postgres_fixtures"]

DOCS = Path(__file__).parents[2] / "docs" / "postgresql.md"


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "_TRIES", 2)
    monkeypatch.setattr(postgres, "_LOCK_TIMEOUT", "500ms")


@pytest.fixture
def word() -> str:
    """One that no other test says: the server keeps what they left."""
    return f"zephyr{secrets.token_hex(6)}"


@pytest.fixture
async def memory(database_url: str, word: str) -> AsyncIterator[AsyncMemory]:
    """As the owner of the tables."""
    opened = await _memory(database_url)
    turn = {"speaker": "Mira", "text": f"My kite is called {word}, a fine name for a kite."}
    await opened.remember({"id": "kite", "at": "2025-03-01T18:00", "turns": [turn]})
    yield opened
    await opened.forget(everything=True)


async def _memory(url: str) -> AsyncMemory:
    parts = Parts(HashEmbedder(64), LANGUAGES)
    return AsyncMemory(await open_store(url, "mira"), parts)


@pytest.fixture
def administrator(administrator_url: str, database_url: str) -> str:
    """The administrator's address of the database under test."""
    return make_conninfo(administrator_url, dbname=conninfo_to_dict(database_url)["dbname"])


@contextmanager
def _transaction(url: str, *statements: str) -> Iterator[psycopg.Connection[Any]]:
    """Another program that leaves a transaction open."""
    with psycopg.connect(url, autocommit=True) as other:
        for statement in statements:
            other.execute(statement)  # type: ignore[call-overload]
        yield other


@pytest.fixture
def in_files(postgres_server: Server, administrator: str, word: str) -> Callable[[], bool]:
    """Whether the tables' files still have the word."""

    def in_files() -> bool:
        with psycopg.connect(administrator, autocommit=True) as db:
            db.execute("CHECKPOINT")
        for path in (postgres_server.data / "base").rglob("[0-9]*"):
            with suppress(FileNotFoundError, IsADirectoryError):  # files come and go
                if word.encode() in path.read_bytes():
                    return True
        return False

    return in_files


_SNAPSHOT = ("BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT 1 FROM pg_class")
_CURSOR = ("BEGIN", "DECLARE c CURSOR FOR SELECT 1 FROM pg_class", "FETCH 1 FROM c")
_READER = ("BEGIN", "SELECT count(*) FROM justmem.turns")  # it keeps its locks until it ends


@pytest.mark.parametrize("held", [_SNAPSHOT, _CURSOR, _READER], ids=["snapshot", "cursor", "lock"])
async def test_no_certificate_while_a_transaction_keeps_the_rows(
    memory: AsyncMemory, in_files: Callable[[], bool], administrator: str, held: tuple[str, ...]
) -> None:
    with _transaction(administrator, *held):
        with pytest.raises(StoreBusy) as refused:
            await memory.forget(session="kite", verify=True)
        assert in_files()
        said = str(refused.value)
        assert "no certificate" in said
        assert "justmem sweep --rewrite" in said


async def test_no_certificate_where_citus_distributes_the_tables(
    memory: AsyncMemory, administrator: str
) -> None:
    """Citus is not installed here, so the test only writes its name into the list."""
    with psycopg.connect(administrator, autocommit=True) as db:
        db.execute(
            "INSERT INTO pg_extension SELECT 1, 'citus', extowner, extnamespace, false, '1', "
            "NULL, NULL FROM pg_extension WHERE extname = 'plpgsql'"
        )
        try:
            with pytest.raises(StoreError, match=r"no certificate\. Citus does not report"):
                await memory.forget(session="kite", verify=True)
        finally:
            db.execute("DELETE FROM pg_extension WHERE extname = 'citus'")
    assert await memory.sessions() == []


async def test_a_sweep_says_that_rows_are_kept_and_works_afterwards(
    memory: AsyncMemory, in_files: Callable[[], bool], database_url: str, administrator: str
) -> None:
    database = PostgresStorage(database_url)
    with _transaction(administrator, *_SNAPSHOT):
        await memory.forget(session="kite")
        with pytest.raises(StoreBusy, match="still sees deleted rows"):
            await database.sweep(rewrite=True)
    await database.sweep(rewrite=True)
    await database.close()
    assert not in_files()


# ---------------------------------------------------------------- the recommended role


def _printed(first: str) -> str:
    """The SQL block of the docs that begins with these words, for the roles of these tests."""
    blocks = re.findall(r"```sql\n(.*?)```", DOCS.read_text("utf-8"), re.DOTALL)
    (found,) = [block for block in blocks if block.startswith(first)]
    return found.replace("ROLE owner", f"ROLE {ROLE}").replace("TO app", "TO justmem_app")


@pytest.fixture
def as_app(memory: AsyncMemory, administrator: str, database_url: str) -> Iterator[str]:
    """The address for a role that has what the docs grant it, and no more."""
    with psycopg.connect(administrator, autocommit=True) as db:
        if not db.execute("SELECT 1 FROM pg_roles WHERE rolname = 'justmem_app'").fetchone():
            db.execute("CREATE ROLE justmem_app LOGIN")
    with psycopg.connect(database_url, autocommit=True) as owner:
        owner.execute(_printed("GRANT USAGE"))  # type: ignore[call-overload]
    yield database_url.replace(f"//{ROLE}@", "//justmem_app@")
    with psycopg.connect(administrator, autocommit=True) as db:
        db.execute("DROP OWNED BY justmem_app")


async def test_no_certificate_for_a_role_that_may_not_vacuum(
    as_app: str, in_files: Callable[[], bool]
) -> None:
    memory = await _memory(as_app)
    with pytest.raises(StoreError, match="permission denied to vacuum") as refused:
        await memory.forget(session="kite", verify=True)
    assert "GRANT MAINTAIN ON ALL TABLES IN SCHEMA justmem" in str(refused.value)
    assert await memory.sessions() == []
    assert in_files()
    await memory.close()


@pytest.mark.parametrize("rewrite", [False, True])
async def test_no_sweep_is_claimed_where_the_server_says_nothing(
    as_app: str, rewrite: bool
) -> None:
    """A server may be set to keep its warnings to itself."""
    url = f"{as_app}&options=-c%20client_min_messages%3Derror"
    database = PostgresStorage(url)
    with pytest.raises(StoreError, match="did not vacuum justmem"):
        await database.sweep(rewrite=rewrite)
    await database.close()


async def test_a_role_that_may_vacuum_gets_its_certificate(
    as_app: str, database_url: str, in_files: Callable[[], bool]
) -> None:
    with psycopg.connect(database_url, autocommit=True) as owner:
        if owner.info.server_version < 170_000:
            pytest.skip("MAINTAIN came with PostgreSQL 17")
        owner.execute(_printed("GRANT MAINTAIN"))  # type: ignore[call-overload]
    memory = await _memory(as_app)
    proof = (await memory.forget(session="kite", verify=True)).certificate
    assert proof is not None
    assert not in_files()
    await memory.close()
