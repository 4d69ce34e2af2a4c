"""The PostgreSQL store: the contract of all stores, spaces kept apart, ranks as in SQLite."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

import justmem
from justmem.errors import InvalidSetting
from justmem.ports import CardFilter
from justmem.stores import opening
from justmem.stores.pg import schema, terms
from justmem.stores.pg.porter import stem
from justmem.stores.postgres import open_store
from postgres import rows
from store_contract import (
    MAY,
    OpenSpace,
    StoreContract,
    all_facts,
    facts,
    found,
    remember,
    session,
    view,
)

pytest_plugins = ["postgres_fixtures"]  # a server, when the first test wants it


@pytest.fixture
def open_space(open_postgres: OpenSpace) -> OpenSpace:
    return open_postgres


class TestContract(StoreContract):
    pass


class TestRowSecurity:
    async def test_a_query_without_its_space_returns_nothing(
        self, open_postgres: OpenSpace, database_url: str
    ) -> None:
        store = await open_postgres()
        await remember(store, session(), "likes tea")
        for table in (*schema.TABLES, "promoted_cards", "promoted_passages"):
            assert await rows(database_url, f"SELECT * FROM justmem.{table}") == []
            if table in schema.TABLES:
                leaf = store.names(table)
                assert await rows(database_url, f"SELECT * FROM {leaf}") == []

    async def test_a_query_of_another_space_sees_its_own_rows_alone(
        self, open_postgres: OpenSpace, database_url: str
    ) -> None:
        ana, ben = await open_postgres("ana"), await open_postgres("ben")
        await remember(ana, session(), "likes tea")
        await remember(ben, session(), "likes rain")
        for table in ("justmem.cards", ana.names.cards, ben.names.cards):
            seen = await rows(database_url, f"SELECT fact FROM {table}", space="ben")
            assert seen in ([], [("likes rain",)])

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
                "INSERT INTO justmem.forgotten VALUES (%s, 'c1') RETURNING 1",
                ana.names.space,
                space="ben",
            )
        assert await all_facts(ben) == []

    async def test_every_table_and_partition_is_guarded(
        self, open_postgres: OpenSpace, database_url: str
    ) -> None:
        await open_postgres()
        unguarded = await rows(
            database_url,
            "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = 'justmem' AND c.relkind IN ('r', 'p') "
            "AND NOT (c.relrowsecurity AND c.relforcerowsecurity)",
        )
        assert unguarded == [("format",)]

    async def test_the_tests_role_is_one_that_row_security_holds_for(
        self, database_url: str
    ) -> None:
        found = await rows(
            database_url,
            "SELECT rolsuper, rolbypassrls FROM pg_roles WHERE rolname = current_user",
        )
        assert found == [(False, False)]


def test_stems_are_those_of_fts5() -> None:
    db = sqlite3.connect(":memory:")
    db.execute(
        "CREATE VIRTUAL TABLE f USING fts5(t, tokenize='porter unicode61 remove_diacritics 2')"
    )
    db.execute("CREATE VIRTUAL TABLE v USING fts5vocab(f, instance)")
    folder = Path(justmem.__file__).parent
    text = " ".join(path.read_text() for path in folder.rglob("*.py"))
    text += " ".join(path.read_text() for path in (folder / "prompts").rglob("*.md"))
    words = sorted({*terms.fold(text), "café", "naïve", "résumés", "Zoë", "ölige", "мной", "ships"})
    db.executemany("INSERT INTO f(rowid, t) VALUES (?, ?)", enumerate(words))
    theirs = dict(db.execute("SELECT doc, term FROM v"))
    ours = {n: stem(terms.fold(word)[0]) for n, word in enumerate(words)}
    assert len(words) > 2000
    assert ours == theirs


async def test_both_stores_rank_alike(open_postgres: OpenSpace, tmp_path: Path) -> None:
    draw = random.Random(3)
    vocabulary = [f"{a}{b}" for a in ("paint", "walk", "run", "sing") for b in ("", "s", "ing")]
    vocabulary += ["tea", "kittens", "Café", "one", "the", "of", "marathon", "Lisbon", "on"]
    theirs, ours = await opening.open_store(tmp_path, "ana"), await open_postgres()
    for number in range(40):
        said = [" ".join(draw.choices(vocabulary, k=draw.randint(2, 14))) for _ in range(5)]
        of = session(f"s{number}", *said, at=MAY + timedelta(days=number))
        for store in (theirs, ours):
            await remember(store, of, *(text[::-1] + " " + text for text in said))
    for _ in range(60):
        asked = view(" ".join(draw.choices(vocabulary, k=4)))
        until = (MAY + timedelta(days=draw.randint(5, 60))).date()
        for index in ("cards", "passages"):
            (left,) = await theirs.search([asked], index, dense=15, lexical=15, until=until)
            (right,) = await ours.search([asked], index, dense=15, lexical=15, until=until)
            for ours_, theirs_, same in (
                (right.dense, left.dense, 1e-6),
                (right.lexical, left.lexical, 1e-8),
            ):
                scores = [score for _, score in theirs_]
                assert [score for _, score in ours_] == pytest.approx(scores, abs=same)
                # Which of several equals is the last one in is anyone's choice.
                assert _above_last(ours_, same) == _above_last(theirs_, same)
    await theirs.close()


def _above_last(hits: Sequence[tuple[int, float]], same: float) -> list[int]:
    return [key for key, score in hits if score > hits[-1][1] + same]


async def test_a_space_may_have_another_language(
    open_postgres: OpenSpace, database_url: str
) -> None:
    german = await open_store(f"{database_url}&language=german", "deutsch")
    await remember(german, session("s1", "Die Katzen schliefen."), "hat zwei Katzen", "läuft gern")
    again = await open_postgres("deutsch")  # the space remembers its language
    for store in (german, again):
        assert await facts(store, (await found(store, "Katze"))[1]) == ["hat zwei Katzen"]
        assert len((await found(store, "schlief", "passages"))[1]) == 1
    assert len(await again.cards(CardFilter(text="zwei Katze"))) == 1
    await german.close()
    with pytest.raises(InvalidSetting, match="german"):
        await open_store(f"{database_url}&language=klingon", "new")
