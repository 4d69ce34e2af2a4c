"""The shipped adapters: against the peers where they are installed, against stand-ins that have
the peers' traps where they are not."""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from justmem.testing import HashEmbedder
from justmem_eval.cli import app
from justmem_eval.loopback import Request, Respond, Served, chat_body, serve_openai
from justmem_eval.peer_check import BENCHMARK, HISTORY, PLANS, check, is_right, problems
from justmem_eval.records import Files
from justmem_eval.scripted import NOT_JSON, Scripted
from justmem_eval.settings import PeerSettings
from justmem_eval.systems.peer import ADAPTERS, NAMES

FAKES = Path(__file__).parent / "fakes"
DIMENSIONS = 64
PLAYED = Scripted([HISTORY], HashEmbedder(DIMENSIONS), plans=PLANS)


@pytest.fixture(scope="module")
def playing() -> Iterator[Served]:
    with serve_openai(PLAYED) as served:
        yield served


@pytest.fixture(scope="module")
def fakes() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(FAKES))
        patch.setenv("LIGHTMEM_EMBEDDER", "all-MiniLM-L6-v2")
        patch.delenv("LIGHTMEM_COMPRESSOR", raising=False)
        yield


@pytest.fixture(scope="module")
def peer(playing: Served, fakes: None, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The files of a run of a stand-in, by its name. Each is run once."""
    return cache(lambda name: checked(name, playing.url, tmp_path_factory.mktemp(name)))


def checked(name: str, url: str, folder: Path, python: str = sys.executable) -> Files:
    peer = PeerSettings(python=python, dimensions=DIMENSIONS)
    return check(name, f"openai:m@{url}", peer, folder)


@pytest.mark.parametrize("name", NAMES)
def test_a_peer_that_is_installed_keeps_what_it_was_told(
    tmp_path: Path, playing: Served, name: str
) -> None:
    python = os.environ.get(f"JUSTMEM_PEER_{name.upper()}")
    if not python:
        pytest.skip(f"{name} is not installed: JUSTMEM_PEER_{name.upper()} names its Python")
    found = checked(name, playing.url, tmp_path, python)
    assert problems(found) == []


@pytest.mark.parametrize("name", ["lightmem", "memos", "amem", "mempalace"])
def test_what_was_built_is_there_after_a_kill(peer: Any, name: str) -> None:
    found = peer(name)
    assert problems(found) == []
    assert all(is_right(case, row) for case, row in found.retrieved(BENCHMARK.cases))


# ---------------------------------------------------------------- LightMem


def test_lightmem_is_told_who_speaks_in_its_own_fields(peer: Any) -> None:
    path = next(peer("lightmem").folder.glob("peer/*/*/messages.jsonl"))
    said, reply = json.loads(path.read_text().splitlines()[0])
    first = HISTORY.sessions[0].turns[0]
    assert (said["speaker_name"], said["content"]) == ("Nora", first.text)
    assert said["speaker_id"] in ("speaker_a", "speaker_b")
    assert reply["content"] == ""  # the next turn is another person's, no assistant's reply


def test_the_users_next_turn_is_no_reply_for_lightmem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ADAPTERS))
    exchanges = importlib.import_module("lightmem_adapter").exchanges
    said = [("user", "Hello?"), ("user", "Are you there?"), ("assistant", "Yes.")]
    turns = [{"speaker": role.capitalize(), "role": role, "text": text} for role, text in said]
    found = list(exchanges({"id": "s1", "at": "2024-03-04T09:15:00", "turns": turns}))
    assert [(user["content"], reply["content"]) for user, reply in found] == [
        ("Hello?", ""),
        ("Are you there?", "Yes."),
    ]


@pytest.mark.usefixtures("fakes")
def test_lightmem_runs_without_a_compressor_and_with_other_vectors(
    tmp_path: Path, playing: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LIGHTMEM_DIMENSIONS", "768")
    checked("lightmem", playing.url, tmp_path)
    config = json.loads(next(tmp_path.glob("peer/*/*/config.json")).read_text())
    assert config["pre_compress"] is False
    assert config["embedding_retriever"]["configs"]["embedding_model_dims"] == 768
    assert config["text_embedder"]["configs"]["embedding_dims"] == 768


def test_the_time_before_a_text_of_lightmem_is_not_aligned(peer: Any) -> None:
    row = peer("lightmem").evidence["peer_check/q0"]
    assert row.chosen[0].text.startswith("Tomas said: ")
    assert row.context.startswith("2024-")  # the reader sees the time


# ---------------------------------------------------------------- MemoryOS, MemOS, A-Mem


def test_memoryos_keeps_the_last_turn_of_a_session_of_odd_length(peer: Any) -> None:
    row = peer("memoryos").evidence["peer_check/q0"]
    turns = {(piece.place[0], turn) for piece in row.read for turn in piece.place[1]}
    assert ("session_1", 7) in turns
    assert len(turns) >= 16


def test_memoryos_shows_what_it_found_before_what_is_always_there(peer: Any) -> None:
    texts = [piece.text for piece in peer("memoryos").evidence["peer_check/q0"].chosen]
    known = texts.index("knowledge 0")
    assert texts[0].startswith("Nora: Good morning!")
    assert known < texts.index(next(text for text in texts if "We opened yesterday" in text))


def test_memos_names_the_session_of_each_memory(peer: Any) -> None:
    places = [piece.place for row in peer("memos").evidence.items() for piece in row.chosen]
    assert {session for session, _ in places} == {"session_1", "session_2", "session_3"}


@pytest.mark.usefixtures("fakes")
def test_memos_loses_one_session_to_a_reply_that_is_no_json(tmp_path: Path) -> None:
    def script(request: Request) -> Respond:
        if "Porto" in str(request.body.get("messages")):
            return Respond(chat_body(NOT_JSON))
        return PLAYED(request)

    with serve_openai(script) as served:
        made = checked("memos", served.url, tmp_path).memory[HISTORY.id]
    assert len(made.failed) == 1
    assert made.failed[0].startswith("session_2: KeyError")
    assert made.error == ""


def test_linked_notes_of_amem_are_read_but_not_among_the_ten(peer: Any) -> None:
    row = peer("amem").evidence["peer_check/q0"]
    assert len(row.chosen) == 10
    assert len(row.read) > 10


# ---------------------------------------------------------------- peer-check


def peer_check(*words: str) -> Any:
    return CliRunner().invoke(app, ["peer-check", *words])


def test_peer_check_passes_a_good_adapter() -> None:
    result = peer_check(str(ADAPTERS / "template.py"))
    assert result.exit_code == 0, result.output
    assert result.output.count("right turn found") == 3
    assert result.output.endswith("passed\n")


@pytest.mark.usefixtures("fakes")
def test_peer_check_prints_calls_and_tokens(playing: Served) -> None:
    embedder = ["--peer-embedder", "hash", str(DIMENSIONS)]
    result = peer_check("memos", "--model", f"openai:m@{playing.url}", *embedder)
    assert re.search(
        r"construction: 3 calls, [\d,]+ tokens.*; 3 requests for vectors", result.output
    )
    assert "inference: 0 calls, 0 tokens; 3 requests for vectors" in result.output


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        ("    return evidence, ", "    return [], ", "No evidence for: What is the name"),
        (' "session": session["id"], "turns": [number]', ' "session": "s", "turns": [1]', "Only 0"),
        ('"turns": [number]', '"turns": list(range(1, 8))', "One piece of evidence names 7 turns"),
    ],
)
def test_peer_check_names_what_is_wrong(
    tmp_path: Path, before: str, after: str, problem: str
) -> None:
    text = (ADAPTERS / "template.py").read_text()
    assert before in text
    adapter = tmp_path / "mine.py"
    adapter.write_text(text.replace(before, after))
    result = peer_check(str(adapter))
    assert result.exit_code == 1
    assert f"PROBLEM: {problem}" in result.output


@pytest.mark.usefixtures("fakes")
def test_peer_check_shows_an_embedder_that_does_not_fit(tmp_path: Path, playing: Served) -> None:
    peer = PeerSettings(python=sys.executable, dimensions=384)
    found = check("memos", f"openai:m@{playing.url}", peer, tmp_path)
    assert "AssertionError" in problems(found)[0]
