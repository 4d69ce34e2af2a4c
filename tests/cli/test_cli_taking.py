"""export, import, about and log, as people and programs use them."""

from __future__ import annotations

import json
import sqlite3
import stat
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from test_cli import Run, run

from stories import HISTORY

__all__ = ["run"]  # the fixture


@pytest.fixture
def told(run: Run, tmp_path: Path) -> Run:
    """A home that holds the story."""
    (tmp_path / "history.json").write_text(json.dumps({"sessions": HISTORY}), "utf-8")
    done = run("remember", "history.json")
    assert done.exit_code == 0, done.output
    return run


def data(result: Any) -> Any:
    return json.loads(result.stdout)


def test_a_space_is_exported_and_imported_into_another(told: Run, tmp_path: Path) -> None:
    written = told("export", "-o", "ana.jsonl", "--vectors")
    assert written.exit_code == 0, written.output
    assert stat.S_IMODE((tmp_path / "ana.jsonl").stat().st_mode) == 0o600
    assert not (tmp_path / "ana.jsonl.part").exists()
    done = told("import", "ana.jsonl", "--space", "again", "--json")
    assert (data(done)["brought"], data(done)["embedded"]) == (3, 0)
    question = ["ask", "What did my bike cost?", "--at", "2024-06-01", "--json"]
    assert data(told(*question, "--space", "again"))["text"] == data(told(*question))["text"]
    repeated = told("import", "ana.jsonl", "--space", "again")
    assert "3 sessions in the file, 0 new with 0 cards" in repeated.stdout


def test_an_export_goes_to_standard_output(told: Run) -> None:
    lines = [json.loads(line) for line in told("export").stdout.splitlines()]
    assert [lines[0]["is"], lines[0]["sessions"], lines[-1]["is"]] == ["export", 3, "end"]


def test_a_file_that_cannot_be_written_or_is_damaged_is_one_sentence(
    told: Run, tmp_path: Path
) -> None:
    elsewhere = told("export", "-o", "no/such/folder/ana.jsonl")
    assert (elsewhere.exit_code, elsewhere.stderr.count("\n")) == (2, 1)
    told("export", "-o", "ana.jsonl")
    whole = (tmp_path / "ana.jsonl").read_bytes()
    (tmp_path / "cut.jsonl").write_bytes(whole[:-100])
    cut = told("import", "cut.jsonl", "--space", "cut")
    assert (cut.exit_code, "Nothing was stored" in cut.stderr) == (2, True)
    assert data(told("sessions", "--space", "cut", "--json")) == []


def test_an_export_is_not_taken_for_conversations(told: Run) -> None:
    told("export", "-o", "ana.jsonl")
    wrong = told("remember", "ana.jsonl")
    assert (wrong.exit_code, "justmem import" in wrong.stderr) == (2, True)


def test_what_is_known_about_something_is_shown(told: Run) -> None:
    shown = told("about", "knee")
    assert shown.exit_code == 0, shown.output
    assert "turns of 2 sessions, 2024-03-11 to 2024-05-20" in shown.stdout
    assert "run#3 User: Sore. My knee hurts a bit on stairs." in shown.stdout
    assert data(told("about", "knee", "--json"))["turns"] == 2
    assert "--offset 1" in told("about", "knee", "--limit", "1").stderr
    nothing = told("about", "submarine")
    assert (nothing.exit_code, "Nothing in memory names" in nothing.stdout) == (1, True)


def test_the_log_is_listed_and_checked(told: Run, tmp_path: Path) -> None:
    told("cards")
    listed = data(told("log", "--json"))
    verbs = [entry["verb"] for entry in listed]
    assert sorted(verbs) == sorted(["keep", "settle"] * 3)
    assert {entry["actor"] for entry in listed} == {"cli"}
    assert "cli" in told("log").stdout
    assert [each["verb"] for each in data(told("log", "--of", "bike", "--json"))] == [
        "keep", "settle",
    ]  # fmt: skip
    assert len(data(told("log", "--limit", "2", "--json"))) == 2
    assert data(told("log", "--since", "2099-01-01", "--json")) == []


def test_a_cut_log_is_found_with_the_hash_of_an_earlier_check(told: Run, tmp_path: Path) -> None:
    whole = told("check")
    assert (whole.exit_code, "complete: 6 entries" in whole.stdout) == (0, True)
    last = data(told("check", "--json"))["log"]["last"]
    assert told("check", "--last", last).exit_code == 0
    with closing(sqlite3.connect(tmp_path / "home" / "default.db")) as db, db:
        db.execute("DELETE FROM log WHERE number = 6")
    assert told("check").exit_code == 0
    cut = told("check", "--last", last)
    assert (cut.exit_code, "cut off" in cut.stdout) == (4, True)


def test_the_setting_adds_reads(run: Run, tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text('log_reads = true\nactor = "mira"\n', "utf-8")
    (tmp_path / "history.json").write_text(json.dumps({"sessions": HISTORY[:1]}), "utf-8")
    for args in (["remember", "history.json"], ["cards"], ["about", "knee"]):
        assert run("--config", "own.toml", *args).exit_code == 0
    entries = [f"{e['actor']} {e['verb']}" for e in data(run("log", "--json"))]
    assert [each for each in entries if each != "mira read"] == ["mira keep", "mira settle"]
    assert entries[-1] == "mira read"


def test_a_copy_begins_a_log_of_its_own(told: Run, tmp_path: Path) -> None:
    assert told("copy", str(tmp_path / "home"), str(tmp_path / "copy")).exit_code == 0
    found = data(told("--folder", str(tmp_path / "copy"), "log", "--of", "bike", "--json"))
    assert [(entry["actor"], entry["verb"]) for entry in found] == [("cli", "load")]
