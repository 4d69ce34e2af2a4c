"""REALTALK, BEAM and LongMemEval-M in their published layouts, and one's own chats."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from eval_server import SWITCHES, described, part, played
from typer.testing import CliRunner

from justmem.errors import InvalidFile
from justmem_eval import questions, runs
from justmem_eval.benchmarks import load
from justmem_eval.cli import app
from justmem_eval.judging import ordering
from justmem_eval.loopback import Request, chat_body, serve_openai
from justmem_eval.results import measured

# ---------------------------------------------------------------- REALTALK


def spoken(id: str, text: str, at: str = "29.12.2023, 22:42:04", **more: Any) -> dict[str, Any]:
    said = {"clean_text": text, "speaker": "Emi", "date_time": at, "img_file": [], "img_url": []}
    return {**said, "dia_id": id, **more}


@pytest.fixture
def realtalk(tmp_path: Path) -> Path:
    chat = {
        "name": {"speaker_1": "Emi", "speaker_2": "elise"},
        "session_1": [
            spoken("D1:1", "Hey!"),
            spoken("D1:4", "I cook pasta on Fridays."),  # two messages were removed before it
            spoken("D1:5", "Look at this", blip_caption="a bowl of pasta"),
        ],
        "events_session_1": {"agent_a": [], "agent_b": []},
        "session_2": [spoken("D2:2", "I went skiing.", "01.01.2024, 18:13:08")],
        "qa": [
            {"question": "What?", "answer": "Pasta", "evidence": ["D1:4; D2:2"], "category": 1},
            {"question": "All?", "answer": "a", "evidence": ["D1:1-D1:4", "D2;2"], "category": 2},
            {"question": "Who?", "answer": "b", "evidence": ["D 1:5.", "D1:99", ""], "category": 3},
        ],
    }
    (tmp_path / "Chat_1_Emi_Elise.json").write_text(json.dumps(chat))
    return tmp_path


def test_realtalk_evidence_ids_are_looked_up_and_not_taken_for_positions(realtalk: Path) -> None:
    found = load("realtalk", realtalk)
    gold = [case.gold for case in found.cases]
    assert gold[0].turns == {("session_1", 2), ("session_2", 1)}
    assert gold[1].turns == {("session_1", 1), ("session_1", 2), ("session_2", 1)}
    assert gold[2].turns == {("session_1", 3)}
    assert [each.category for each in gold] == ["multi-hop", "temporal", "commonsense"]
    assert found.notes == ["chat-1/2: evidence 'D1:99' names no turn"]
    sessions = found.history("chat-1").sessions
    assert sessions[0].turns[2].text == "Look at this [shared a photo: a bowl of pasta]"
    assert found.cases[0].question.at == sessions[1].at


def test_a_folder_without_realtalk_says_what_is_expected(tmp_path: Path) -> None:
    with pytest.raises(InvalidFile, match="Chat_"):
        load("realtalk", tmp_path)


# ---------------------------------------------------------------- LongMemEval-M


def test_longmemeval_m_is_read_one_question_at_a_time(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = json.loads((data / "longmemeval_s.json").read_text())
    items[0]["question"] += " é"  # characters of several bytes
    text = json.dumps(items, ensure_ascii=False, indent=1)
    (tmp_path / "longmemeval_m_cleaned.json").write_text(text)
    (tmp_path / "longmemeval_s.json").write_text(text)
    monkeypatch.setattr("justmem_eval.benchmarks.files._CHUNK", 1000)  # less than one question
    large, small = load("longmemeval_m", tmp_path), load("longmemeval", tmp_path)
    assert large.cases == small.cases
    for case in small.cases:
        assert large.history(case.history) == small.history(case.history)


def test_a_truncated_file_is_named(data: Path, tmp_path: Path) -> None:
    text = (data / "longmemeval_s.json").read_text()
    (tmp_path / "longmemeval_m.json").write_text(text[: len(text) // 2])
    with pytest.raises(InvalidFile, match="truncated"):
        load("longmemeval_m", tmp_path)


# ---------------------------------------------------------------- BEAM

SECRET = "LLM response should state: the secret criterion"


@pytest.fixture
def beam(tmp_path: Path) -> Path:
    def said(id: int, role: str, text: str, anchor: str | None = None) -> dict[str, Any]:
        more = {"time_anchor": anchor} if anchor else {}
        return {"role": role, "id": id, "content": text, **more}

    chat = [
        {
            "batch_number": 1,
            "turns": [
                [
                    said(0, "user", "My sprint ends on March 29. ->-> 1,1", "March-15-2024"),
                    said(1, "assistant", "Noted."),
                ],
                [said(2, "user", "I like short answers."), said(3, "assistant", "Good.")],
            ],
        },
        {
            "batch_number": 2,
            "turns": [
                [said(4, "user", "The sprint moved to April 5.", "April-01-2024")],
            ],
        },
    ]
    questions = {
        "abstention": [
            {"question": "How tall am I?", "ideal_response": "Not said.", "rubric": [SECRET]}
        ],
        "knowledge_update": [
            {
                "question": "When does my sprint end?",
                "answer": "April 5",
                "source_chat_ids": {"original_info": [0], "updated_info": [4, 77]},
                "rubric": [SECRET, f"{SECRET} too"],
            }
        ],
        "event_ordering": [
            {
                "question": "In which order?",
                "answer": "sprint, answers",
                "source_chat_ids": [0, 2],
                "rubric": ["the sprint", "short answers"],
            }
        ],
    }
    folder = tmp_path / "data" / "chats" / "100K" / "1"
    (folder / "probing_questions").mkdir(parents=True)
    (folder / "chat.json").write_text(json.dumps(chat))
    (folder / "probing_questions" / "probing_questions.json").write_text(json.dumps(questions))
    return tmp_path / "data"


def test_beam_sessions_follow_the_dates_and_marks_are_removed(beam: Path) -> None:
    found = load("beam", beam)
    sessions = found.history("100K-1").sessions
    assert [len(session.turns) for session in sessions] == [4, 1]
    assert sessions[0].turns[0].text == "My sprint ends on March 29."
    assert f"{sessions[1].at:%Y-%m-%d}" == "2024-04-01"
    update = found.cases[1].gold
    assert update.turns == {("s001", 1), ("s002", 1)}
    assert found.cases[0].gold.abstain
    assert found.notes == ["100K-1/knowledge_update/0: no message has the ids [77]"]


def test_a_rubric_reaches_the_judge_and_no_other_prompt(beam: Path, tmp_path: Path) -> None:
    prompts: list[tuple[str, str]] = []

    def script(request: Request) -> Any:
        schema = request.body["response_format"]["json_schema"]["schema"]["properties"]
        text = json.dumps(request.body["messages"])
        kind = "judge" if "score" in schema or "verdict" in schema else part(request)
        prompts.append((kind, text))
        if "score" in schema:
            return chat_body({"score": 1 if "too" in text else 0})
        if "verdict" in schema:
            return chat_body({"verdict": "no"})
        return played(request)

    with serve_openai(script) as served:
        given = described(beam, served.url, benchmark="beam", planted=1)
        asyncio.run(runs.run(given, tmp_path / "run", tmp_path / "c"))
    judged = [text for kind, text in prompts if kind == "judge"]
    assert any(SECRET in text for text in judged)
    assert not any("secret criterion" in text for kind, text in prompts if kind != "judge")
    found = measured(tmp_path / "run", given.benchmark)
    assert found.errors == {}
    assert found["accuracy.category.knowledge_update"].value == 50.0  # one of two criteria


def test_the_order_of_events_is_scored_by_kendalls_tau() -> None:
    assert ordering(["a", "b", "c"], ["a", "b", "c"]) == 1.0
    assert ordering(["a", "b", "c"], ["c", "b", "a"]) == 0.0
    assert ordering(["a", "b", "c"], ["a", "c", "b"]) == pytest.approx(2 / 3)
    assert ordering(["a"], ["a"]) == 1.0
    assert ordering(["a"], ["b"]) < 0.5
    assert 0.5 < ordering(["a", "b", "c"], ["a", "b"]) <= 1.0


# ---------------------------------------------------------------- one's own chats


@pytest.fixture
def chats(tmp_path: Path) -> Path:
    sessions = [
        {
            "id": "s1",
            "at": "2024-03-04T09:15",
            "turns": [
                {"speaker": "Nora", "text": "I signed the lease for a bakery on Harbour Street."},
                {"speaker": "Tomas", "text": "I adopted a greyhound called Biscuit last weekend."},
            ],
        },
        {
            "id": "s2",
            "at": "2024-06-02T18:05",
            "messages": [
                {
                    "role": "user",
                    "content": "The new oven arrived from Lyon on Tuesday.",
                },
                {"role": "assistant", "content": "Good news."},
            ],
        },
    ]
    path = tmp_path / "chats.json"
    path.write_text(json.dumps(sessions))
    return path


def own(*words: str) -> str:
    switches = [word for switch in SWITCHES for word in ("--set", switch)]
    result = CliRunner().invoke(app, ["mine", *words, *switches])
    assert result.exit_code == 0, result.output
    return result.output


def test_questions_are_made_from_statements(chats: Path) -> None:
    said = own(str(chats), "--missed")
    assert "100.00 (3)" in said
    assert "naive_rag" in said
    assert "What it does not show: how good answers are" in said


def test_own_questions_name_their_evidence(chats: Path, tmp_path: Path) -> None:
    questions = tmp_path / "questions.jsonl"
    questions.write_text('{"question": "Where is the oven from?", "evidence": ["s2#1"]}\n')
    assert "100.00 (1)" in own(str(chats), "--questions", str(questions))
    questions.write_text('{"question": "Where is the oven from?", "evidence": ["s9#1"]}\n')
    result = CliRunner().invoke(app, ["mine", str(chats), "--questions", str(questions)])
    assert isinstance(result.exception, InvalidFile)
    assert "no turn 's9#1'" in str(result.exception)


async def test_a_file_that_holds_no_sessions_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text("[]")
    with pytest.raises(InvalidFile, match="no sessions"):
        await questions.read_sessions(path, tmp_path)
    path.write_text('[{"turns": 3}]')
    with pytest.raises(InvalidFile, match="session 1"):
        await questions.read_sessions(path, tmp_path)
