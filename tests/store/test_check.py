"""Checking a space: each thing that can be wrong with it is found, and named."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from justmem.cli.app import app
from justmem.errors import StoreDamaged
from justmem.ports import texts_of
from justmem.store.sqlite import open_store
from justmem.store.store import SqlStore
from postgres import rows
from store_contract import OpenSpace, remember, session

pytest_plugins = ["postgres_fixtures"]

# Statements that both engines take.
DAMAGE = {
    "UPDATE {turns} SET text = replace(text, 'Pesto', 'Pasta')": "session 's1': its words",
    "UPDATE {turns} SET speaker = 'Zoe'": "session 's1': its words",
    "UPDATE {sessions} SET digest = 'x'": "session 's1': its words",
    "DELETE FROM {turns}": "session 's1': its words",
    "DELETE FROM {sessions}": "belong to no session",
    "UPDATE {passages} SET turn = 2": "session 's1': the word index does not match the passages",
    "UPDATE {cards} SET vector = NULL": "the cards have no sound vectors",
    "UPDATE {passages} SET vector = NULL": "the passages have no sound vectors",
    "DELETE FROM {cards}": "another number of cards",
    "UPDATE {cards} SET turns = '9'": "names turns that do not exist",
    "UPDATE {cards} SET said_at = 'yesterday'": "is damaged",
    "UPDATE {cards} SET fact = 'likes coffee'": "the word index does not match the cards",
    "UPDATE {cards} SET event_date = '2024' WHERE fact = 'likes tea'": "is damaged",
    "UPDATE {sessions} SET instant = 0": "its time or number of turns",
    "INSERT INTO {forgotten} SELECT space, '', id FROM {cards}": "were forgotten",
    "UPDATE {sessions} SET turns = 9": "its time or number of turns",
}
ONLY_SQLITE = {
    "UPDATE passages SET vector = zeroblob(length(vector))": "the passages have no sound vectors",
    "UPDATE cards SET vector = substr(vector, 1, 5) WHERE fact = 'likes tea'": "are damaged",
    "UPDATE cards SET terms = substr(terms, 1, 4)": "the word index does not match the cards",
    "CREATE TRIGGER spy AFTER DELETE ON turns BEGIN SELECT 1; END": "a trigger 'spy' that JustMem",
    "CREATE TABLE more (words TEXT)": "a table 'more' that JustMem did not make",
    "CREATE VIEW seen AS SELECT text FROM turns": "a view 'seen' that JustMem did not make",
    "CREATE INDEX by_fact ON cards (hex(fact))": "an index 'by_fact' that JustMem did not make",
    "ALTER TABLE turns ADD COLUMN more TEXT": "a table 'turns' that JustMem did not make like",
}


def _of(schema: str, sql: str) -> str:
    return re.sub(r"\{(\w+)\}", rf"{schema}\1", sql)


IN_SQLITE = {_of("", sql): what for sql, what in DAMAGE.items()} | ONLY_SQLITE


@pytest.fixture
async def store(tmp_path: Path) -> Any:
    store = await open_store(tmp_path, "ana")
    await remember(store, session("s1"), "likes tea", "adopted a kitten")
    yield store
    await store.close()


def execute(store: SqlStore, sql: str) -> None:
    with closing(sqlite3.connect(store.path, isolation_level=None)) as db:
        db.execute(sql)


@pytest.mark.parametrize("sql", IN_SQLITE)
async def test_damage_is_named(store: SqlStore, sql: str) -> None:
    assert (await store.check()).sound
    execute(store, sql)
    damage = (await store.check()).damage
    assert any(IN_SQLITE[sql] in each.what for each in damage), damage
    assert all(each.fix for each in damage)
    added = any("DROP" in each.fix for each in damage)
    assert added == sql.startswith("CREATE")  # our own tables are never to be removed


async def test_much_damage_is_told_in_short(store: SqlStore) -> None:
    for number in range(60):
        await remember(store, session(f"t{number}"), "likes tea")
    execute(store, "UPDATE sessions SET digest = 'x'")
    damage = (await store.check()).damage
    assert len(damage) == 51
    assert damage[-1].what == "and 11 more"


async def test_other_words_are_refused_when_they_are_read(store: SqlStore) -> None:
    execute(store, "UPDATE turns SET text = replace(text, 'Pesto', 'Pasta')")
    with pytest.raises(StoreDamaged, match="are damaged"):
        await texts_of(store, ["s1"])


async def test_what_is_no_row_of_ours_is_damage(store: SqlStore) -> None:
    execute(store, "UPDATE sessions SET at = x'ff', state = 'odd'")
    with pytest.raises(StoreDamaged, match="from a backup"):
        await store.sessions()


def test_the_command_reads_the_whole_space(tmp_path: Path) -> None:
    def run(*args: str) -> Any:
        return CliRunner().invoke(app, ["--folder", str(tmp_path), "--space", "ana", *args])

    run("add", "Hi.")
    assert (run("check").exit_code, json.loads(run("check", "--json").output)["damage"]) == (0, [])
    with closing(sqlite3.connect(tmp_path / "ana.db", isolation_level=None)) as db:
        db.execute("DELETE FROM turns")
    assert run("doctor", "--offline").exit_code == 0  # it opens: only `check` finds it
    result = run("check", "--json")
    assert result.exit_code == 4
    (wrong,) = json.loads(result.output)["damage"]
    assert "its words are damaged" in wrong["what"]
    assert "remember it again" in wrong["fix"]
    assert "its words are damaged" in run("check").output


class TestPostgres:
    @pytest.mark.parametrize("sql", DAMAGE)
    async def test_damage_is_named(
        self, open_postgres: OpenSpace, database_url: str, sql: str
    ) -> None:
        store = await open_postgres()
        await remember(store, session("s1"), "likes tea", "adopted a kitten")
        assert (await store.check()).sound
        await rows(database_url, f"{_of('justmem.', sql)} RETURNING 1", space="ana")
        damage = (await store.check()).damage
        assert any(DAMAGE[sql] in each.what for each in damage), damage
