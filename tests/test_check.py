"""Checking a space: each thing that can be wrong with it is found, and named."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

import pytest
from typer.testing import CliRunner

from justmem.cli.app import app
from justmem.errors import StoreDamaged
from justmem.stores.opening import open_store
from justmem.stores.sqlite import SqliteStore
from postgres import rows
from store_contract import OpenSpace, remember, session

pytest_plugins = ["postgres_fixtures"]

DAMAGE = {
    "UPDATE texts SET turns = replace(turns, 'Pesto', 'Pasta')": "the words of session 's1'",
    "UPDATE sessions SET digest = 'x'": "the words of session 's1'",
    "DELETE FROM texts": "1 sessions have lost their turns",
    "DELETE FROM sessions": "belong to no session",
    "DELETE FROM card_chunks": "the vectors of session 's1' are not those of its cards",
    "UPDATE card_chunks SET day = 1": "the vectors of session 's1' are not those of its cards",
    "UPDATE card_chunks SET vectors = zeroblob(length(vectors))": "not of length one",
    "UPDATE card_chunks SET vectors = substr(vectors, 1, 5)": "cannot be read any more",
    "DELETE FROM cards": "does not have as many cards as it says",
    "UPDATE cards SET turns = '9'": "rests on turns that are not there",
    "UPDATE cards SET said_at = 'yesterday'": "cannot be read any more",
    "UPDATE cards SET fact = 'likes coffee'": "the index of words does not agree with the cards",
    "UPDATE cards SET event = 'unknovn' WHERE key = 1": "is not what was stored",
    "UPDATE sessions SET instant = 0": "does not have the turns or the time that it says",
    "INSERT INTO forgotten SELECT id FROM cards": "cards are there that were forgotten",
    "UPDATE passage_chunks SET spans = zeroblob(length(spans))": "lie outside its turns",
    "UPDATE passage_chunks SET day = 3": "sessions do not have the passages they count",
    "INSERT INTO passage_words (rowid, text) VALUES (99, 'x')": "does not agree with the passages",
    "UPDATE space SET cards = 7": "the sums of the space are not those of its sessions",
    "UPDATE space SET next_card = 1": "the next card would overwrite an earlier one",
    "UPDATE sessions SET turns = 9": "does not have the turns or the time that it says",
    "CREATE TRIGGER spy AFTER DELETE ON texts BEGIN SELECT 1; END": "a trigger 'spy' that JustMem",
    "CREATE TABLE more (words TEXT)": "a table 'more' that JustMem did not make",
    "CREATE VIEW seen AS SELECT turns FROM texts": "a view 'seen' that JustMem did not make",
    "CREATE INDEX by_fact ON cards (hex(fact))": "an index 'by_fact' that JustMem did not make",
    "ALTER TABLE texts ADD COLUMN more TEXT": "a table 'texts' that JustMem did not make",
    "INSERT INTO spending VALUES ('2024-01-01', -5, 0)": "spent less than nothing",
}


@pytest.fixture
async def store(tmp_path: Path) -> Any:
    store = await open_store(tmp_path, "ana")
    await remember(store, session("s1"), "likes tea", "adopted a kitten")
    yield store
    await store.close()


def execute(store: SqliteStore, sql: str) -> None:
    with closing(sqlite3.connect(store.path, isolation_level=None)) as db:
        db.execute(sql)


@pytest.mark.parametrize("sql", DAMAGE)
async def test_damage_is_named(store: SqliteStore, sql: str) -> None:
    assert (await store.check()).sound
    execute(store, sql)
    damage = (await store.check()).damage
    assert any(DAMAGE[sql] in each.what for each in damage), damage
    assert all(each.fix for each in damage)


async def test_much_damage_is_told_in_short(store: SqliteStore) -> None:
    for number in range(60):
        await remember(store, session(f"t{number}"), "likes tea")
    execute(store, "UPDATE sessions SET digest = 'x'")
    damage = (await store.check()).damage
    assert len(damage) == 51
    assert damage[-1].what == "and 11 more"


async def test_other_words_are_refused_when_they_are_read(store: SqliteStore) -> None:
    execute(store, "UPDATE texts SET turns = replace(turns, 'Pesto', 'Pasta')")
    for read in (store.session("s1"), store.sessions_at(["s1"])):
        with pytest.raises(StoreDamaged, match="not those that were stored"):
            await read


async def test_lost_words_are_not_said_to_be_not_kept(store: SqliteStore) -> None:
    execute(store, "DELETE FROM texts")
    with pytest.raises(StoreDamaged, match="cannot be read any more"):
        await store.session("s1")


async def test_what_is_no_row_of_ours_is_damage(store: SqliteStore) -> None:
    execute(store, "UPDATE sessions SET at = x'ff', state = 'odd'")
    with pytest.raises(StoreDamaged, match="from a backup"):
        await store.sessions()


def test_doctor_reads_the_whole_space_when_asked_to(tmp_path: Path) -> None:
    def doctor(*more: str) -> tuple[int, list[dict[str, str]]]:
        options = ("--home", str(tmp_path), "--space", "ana", "doctor", "--offline", "--json")
        result = CliRunner().invoke(app, [*options, *more])
        return result.exit_code, json.loads(result.output)

    file = tmp_path / "talk.json"
    file.write_text(json.dumps({"at": "2024-05-20", "turns": [{"role": "user", "content": "Hi."}]}))
    CliRunner().invoke(app, ["--home", str(tmp_path), "--space", "ana", "remember", str(file)])
    code, checks = doctor("--deep")
    assert code == 0
    assert "ok" in [c["state"] for c in checks if "as it was stored" in c["what"]]
    with closing(sqlite3.connect(tmp_path / "ana.db", isolation_level=None)) as db:
        db.execute("UPDATE space SET cards = 7")
    assert doctor()[0] == 0  # it opens: only a deep look finds it
    code, checks = doctor("--deep")
    assert code == 2
    (wrong,) = [check for check in checks if check["state"] == "wrong"]
    assert "the sums of the space" in wrong["what"]
    assert "backup" in wrong["fix"]


class TestPostgres:
    DAMAGE: ClassVar = {
        "UPDATE justmem.texts SET turns = replace(turns, 'Pesto', 'Pasta')": "words of session",
        "DELETE FROM justmem.texts": "1 sessions have lost their turns",
        "DELETE FROM justmem.sessions": "rows belong to no session",
        "DELETE FROM justmem.cards": "does not have as much as it says",
        "UPDATE justmem.cards SET turns = '9'": "rests on turns that are not there",
        "UPDATE justmem.cards SET fact = 'likes coffee'": "does not agree with the cards",
        "UPDATE justmem.cards SET said_at = 'x'": "cannot be read any more",
        "DELETE FROM justmem.passage_words": "does not agree with the passages",
        "UPDATE justmem.spaces SET cards = 7": "the sums of the space",
        "UPDATE justmem.passages SET stop = 999": "lie outside its turns",
        "INSERT INTO justmem.forgotten SELECT space, id FROM justmem.cards": "were forgotten",
    }

    @pytest.mark.parametrize("sql", DAMAGE)
    async def test_damage_is_named(
        self, open_postgres: OpenSpace, database_url: str, sql: str
    ) -> None:
        store = await open_postgres()
        await remember(store, session("s1"), "likes tea", "adopted a kitten")
        assert (await store.check()).sound
        await rows(database_url, f"{sql} RETURNING 1", space="ana")
        damage = (await store.check()).damage
        assert any(self.DAMAGE[sql] in each.what for each in damage), damage
