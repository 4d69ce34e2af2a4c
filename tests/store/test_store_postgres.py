"""The PostgreSQL store: the contract of all stores, spaces kept apart, ranks as in SQLite."""

from __future__ import annotations

import random
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from justmem.store import schema
from justmem.store.postgres import open_store as open_postgres_store
from justmem.store.sqlite import open_store as open_sqlite
from postgres import rows
from store_contract import (
    MAY,
    OpenSpace,
    all_facts,
    remember,
    session,
    view,
)
from stores import search

pytest_plugins = ["postgres_fixtures"]  # a server, when the first test wants it


@pytest.fixture
def open_space(open_postgres: OpenSpace) -> OpenSpace:
    return open_postgres


class TestRowSecurity:
    async def test_a_query_without_its_space_returns_nothing(
        self, open_postgres: OpenSpace, database_url: str
    ) -> None:
        store = await open_postgres()
        await remember(store, session(), "likes tea")
        for table in schema.TABLES:
            assert await rows(database_url, f"SELECT * FROM justmem.{table}") == []

    async def test_a_query_of_another_space_sees_its_own_rows_alone(
        self, open_postgres: OpenSpace, database_url: str
    ) -> None:
        ana, ben = await open_postgres("ana"), await open_postgres("ben")
        await remember(ana, session(), "likes tea")
        await remember(ben, session(), "likes rain")
        seen = await rows(database_url, "SELECT fact FROM justmem.cards", space="ben")
        assert seen == [("likes rain",)]

    async def test_rows_of_another_space_can_be_neither_changed_nor_added(
        self, open_postgres: OpenSpace, database_url: str
    ) -> None:
        ana, ben = await open_postgres("ana"), await open_postgres("ben")
        await remember(ana, session(), "likes tea")
        await rows(database_url, "DELETE FROM justmem.cards RETURNING 1", space="ben")
        assert await all_facts(ana) == ["likes tea"]
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            await rows(
                database_url,
                "INSERT INTO justmem.forgotten VALUES ('ana', '', 'c1') RETURNING 1",
                space="ben",
            )
        assert await all_facts(ben) == []

    async def test_every_table_is_guarded(
        self, open_postgres: OpenSpace, database_url: str
    ) -> None:
        await open_postgres()
        unguarded = await rows(
            database_url,
            "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = 'justmem' AND c.relkind IN ('r', 'p') "
            "AND NOT (c.relrowsecurity AND c.relforcerowsecurity)",
        )
        assert unguarded == [("schema_versions",)]

    async def test_the_tests_role_is_one_that_row_security_holds_for(
        self, database_url: str
    ) -> None:
        found = await rows(
            database_url,
            "SELECT rolsuper, rolbypassrls FROM pg_roles WHERE rolname = current_user",
        )
        assert found == [(False, False)]


_OURS = "JOIN pg_namespace n ON n.nspname = 'justmem' AND n.oid ="
REFUSED = (  # queries that find it
    f"SELECT c.relname FROM pg_class c {_OURS} c.relnamespace WHERE c.relkind IN ('r', 'p') "
    "AND c.relname <> 'schema_versions' AND NOT EXISTS (SELECT FROM pg_index i JOIN pg_attribute a "
    "ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0] "
    "WHERE i.indrelid = c.oid AND i.indisprimary AND a.attname = 'space')",
    f"SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid {_OURS} "
    "c.relnamespace JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0] "
    "WHERE i.indisunique AND a.attname <> 'space'",
    f"SELECT c.relname FROM pg_class c {_OURS} c.relnamespace "
    "WHERE c.relispartition OR c.relkind NOT IN ('r', 'i', 't')",
    f"SELECT t.tgname FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid {_OURS} "
    "c.relnamespace",
    f"SELECT p.proname FROM pg_proc p {_OURS} p.pronamespace",
    "SELECT qual FROM pg_policies WHERE schemaname = 'justmem' AND qual ~* 'select'",
)
PLANTED = (
    "CREATE TABLE odd (id TEXT PRIMARY KEY)",
    "CREATE UNIQUE INDEX odd ON cards (id)",
    "CREATE TABLE odd (space TEXT PRIMARY KEY) PARTITION BY HASH (space)",
    "CREATE TRIGGER odd BEFORE UPDATE ON cards "
    "FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()",
    "CREATE FUNCTION odd() RETURNS INT LANGUAGE sql AS 'SELECT 1'",
    "CREATE POLICY odd ON cards USING ((SELECT current_setting('justmem.space', true)) = space)",
)


class TestDistributed:
    """What a PostgreSQL that distributes tables by their first column accepts. Citus refuses
    subqueries in policies and triggers, and answers `tableoid` with the name of a shard. It does
    not pass `set_config` on to its workers."""

    async def test_the_schema_has_nothing_that_is_refused(
        self, open_postgres: OpenSpace, database_url: str
    ) -> None:
        await open_postgres()
        for rule in REFUSED:
            assert await rows(database_url, rule) == [], rule

    @pytest.mark.parametrize(("rule", "planted"), [*zip(REFUSED, PLANTED, strict=True)])
    async def test_each_rule_finds_what_is_planted(
        self, fresh_database_url: str, rule: str, planted: str
    ) -> None:
        await (await open_postgres_store(fresh_database_url, "ana")).close()
        with psycopg.connect(fresh_database_url, autocommit=True) as db:
            db.execute("SET search_path = justmem")
            db.execute(planted)  # type: ignore[call-overload]
        assert await rows(fresh_database_url, rule) != []

    def test_no_statement_uses_what_is_not_passed_on(self) -> None:
        for path in Path(schema.__file__).parent.glob("*.py"):
            text = path.read_text().lower()
            for refused in ("tableoid", "set_config(", "partition by", "create extension"):
                assert refused not in text, path


async def test_both_stores_rank_alike(open_postgres: OpenSpace, tmp_path: Path) -> None:
    draw = random.Random(3)
    vocabulary = [f"{a}{b}" for a in ("paint", "walk", "run", "sing") for b in ("", "s", "ing")]
    vocabulary += ["tea", "kittens", "Café", "one", "the", "of", "marathon", "Lisbon", "on"]
    theirs, ours = await open_sqlite(tmp_path, "ana"), await open_postgres()
    for number in range(40):
        said = [" ".join(draw.choices(vocabulary, k=draw.randint(2, 14))) for _ in range(5)]
        of = session(f"s{number}", *said, at=MAY + timedelta(days=number))
        for store in (theirs, ours):
            await remember(store, of, *(text[::-1] + " " + text for text in said))
    for _ in range(60):
        asked = view(" ".join(draw.choices(vocabulary, k=4)))
        until = (MAY + timedelta(days=draw.randint(5, 60))).date()
        for index in ("cards", "passages"):
            (left,) = await search(theirs, [asked], index, dense=15, lexical=15, until=until)
            (right,) = await search(ours, [asked], index, dense=15, lexical=15, until=until)
            assert left == right
    await theirs.close()
