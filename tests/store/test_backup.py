"""`backup` writes a space to a file that opens as that space."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from justmem.cli import app
from justmem.errors import InvalidFile, InvalidSetting
from torture._fixtures import memory, session

pytest_plugins = ["postgres_fixtures"]  # a server, when the first test wants it


async def test_a_backup_of_a_space_in_use_opens_as_that_space(tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    saved.mkdir()
    async with memory(tmp_path, "ana") as mine:
        await mine.remember(session("s1"))
        await mine.backup(saved / "ana.db")
        await mine.remember(session("s2"))
        cards = await mine.cards(session="s1")
    assert [path.name for path in saved.iterdir()] == ["ana.db"]
    assert (saved / "ana.db").stat().st_mode & 0o077 == 0
    async with memory(saved, "ana") as copy:
        assert (await copy.check()).sound
        assert [record.id for record in await copy.sessions()] == ["s1"]
        assert await copy.cards() == cards


async def test_a_backup_overwrites_nothing_and_names_what_is_missing(tmp_path: Path) -> None:
    there = tmp_path / "notes.txt"
    there.write_text("mine")
    async with memory(tmp_path, "ana") as mine:
        with pytest.raises(InvalidFile, match="exists already"):
            await mine.backup(there)
        with pytest.raises(InvalidFile, match="No such file or directory"):
            await mine.backup(tmp_path / "none" / "ana.db")
        with pytest.raises(InvalidFile, match="cannot be written"):
            await mine.backup(tmp_path / ("x" * 250))
    assert there.read_text() == "mine"


def test_the_command_says_what_it_did_and_what_it_cannot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JUSTMEM_FOLDER", str(tmp_path))
    said = {"at": "2024-05-20", "turns": [{"role": "user", "content": "I moved to Porto."}]}
    (tmp_path / "talk.json").write_text(json.dumps(said))

    def run(*args: str) -> tuple[int, str]:
        done = CliRunner().invoke(app, args)
        return done.exit_code, done.output

    assert run("backup", "ana.backup", "--space", "ana")[0] == 8  # there is no such space
    assert not (tmp_path / "ana.backup").exists()
    assert run("remember", "talk.json", "--space", "ana")[0] == 0
    assert run("backup", "ana.backup", "--space", "ana") == (0, "ana is backed up in ana.backup.\n")
    code, told = run("backup", "ana.backup", "--space", "ana")
    assert code == 2
    assert "exists already" in told


async def test_postgresql_has_its_own_backup(open_postgres: Any, tmp_path: Path) -> None:
    store = await open_postgres()
    with pytest.raises(InvalidSetting, match="pg_dump"):
        await store.backup(tmp_path / "ana.db")
