"""export, import, about and log, as people and programs use them."""

from __future__ import annotations

import json
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest
from cli_runs import Run

from stories import HISTORY


@pytest.fixture
def told(run: Run, tmp_path: Path) -> Run:
    """A home that holds the story."""
    (tmp_path / "history.json").write_text(json.dumps({"sessions": HISTORY}), "utf-8")
    run("remember", "history.json")
    return run


def test_a_space_is_exported_and_imported_into_another(told: Run, tmp_path: Path) -> None:
    told("export", "-o", "ana.jsonl", "--vectors")
    assert stat.S_IMODE((tmp_path / "ana.jsonl").stat().st_mode) == 0o600
    done = told("import", "ana.jsonl", "--space", "again", "--json")
    assert (done["brought"], done["embedded"]) == (3, 0)
    question = ["ask", "What did my bike cost?", "--at", "2024-06-01", "--json"]
    assert told(*question, "--space", "again")["text"] == told(*question)["text"]
    repeated = told("import", "ana.jsonl", "--space", "again")
    assert "3 sessions in the file, 0 new with 0 cards" in repeated.stdout


def test_an_export_goes_to_standard_output(told: Run) -> None:
    lines = [json.loads(line) for line in told("export").stdout.splitlines()]
    assert [lines[0]["is"], lines[0]["sessions"], lines[-1]["is"]] == ["export", 3, "end"]


def test_a_file_that_cannot_be_written_or_is_damaged_is_one_sentence(
    told: Run, tmp_path: Path
) -> None:
    told("export", "-o", "ana.jsonl")
    assert "exists already" in told("export", "-o", "ana.jsonl", code=2).stderr
    assert "cannot be written" in told("export", "-o", "no/such/folder/a.jsonl", code=2).stderr
    whole = (tmp_path / "ana.jsonl").read_bytes()
    (tmp_path / "cut.jsonl").write_bytes(whole[:-100])
    assert "Nothing was stored" in told("import", "cut.jsonl", "--space", "cut", code=2).stderr
    assert told("sessions", "--space", "cut", "--json") == []
    assert "justmem import" in told("remember", "ana.jsonl", code=2).stderr


def test_what_is_known_about_something_is_shown(told: Run) -> None:
    shown = told("about", "knee")
    assert "turns of 2 sessions, 2024-03-11 to 2024-05-20" in shown.stdout
    assert "run#3 User: Sore. My knee hurts a bit on stairs." in shown.stdout
    assert told("about", "knee", "--json")["turns"] == 2
    assert "--offset 1" in told("about", "knee", "--limit", "1").stderr
    assert "Nothing in memory names" in told("about", "submarine", code=1).stdout


def test_the_log_is_listed_and_checked(told: Run, tmp_path: Path) -> None:
    told("cards")
    listed = told("log", "--json")
    verbs = [entry["verb"] for entry in listed]
    assert sorted(verbs) == sorted(["keep", "settle"] * 3)
    assert {entry["actor"] for entry in listed} == {"cli"}
    assert "cli" in told("log").stdout
    assert [each["verb"] for each in told("log", "--of", "bike", "--json")] == [
        "keep", "settle",
    ]  # fmt: skip
    assert len(told("log", "--limit", "2", "--json")) == 2
    assert told("log", "--since", "2099-01-01", "--json") == []


def test_a_cut_log_is_found_with_the_hash_of_an_earlier_check(told: Run, tmp_path: Path) -> None:
    assert "complete: 6 entries" in told("check").stdout
    last = told("check", "--json")["log"]["last"]
    told("check", "--last", last)
    with closing(sqlite3.connect(tmp_path / "home" / "default.db")) as db, db:
        db.execute("DELETE FROM log WHERE number = 6")
    told("check")
    assert "cut off" in told("check", "--last", last, code=4).stdout


def test_the_setting_adds_reads(run: Run, tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text('log_reads = true\nactor = "mira"\n', "utf-8")
    (tmp_path / "history.json").write_text(json.dumps({"sessions": HISTORY[:1]}), "utf-8")
    for args in (["remember", "history.json"], ["cards"], ["about", "knee"]):
        run("--config", "own.toml", *args)
    entries = [f"{e['actor']} {e['verb']}" for e in run("log", "--json")]
    assert [each for each in entries if each != "mira read"] == ["mira keep", "mira settle"]
    assert entries[-1] == "mira read"


def test_a_copy_begins_a_log_of_its_own(told: Run, tmp_path: Path) -> None:
    told("copy", str(tmp_path / "home"), str(tmp_path / "copy"))
    found = told("--folder", str(tmp_path / "copy"), "log", "--of", "bike", "--json")
    assert [(entry["actor"], entry["verb"]) for entry in found] == [("cli", "load")]
