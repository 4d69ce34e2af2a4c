"""The traps of the data, each with its test; and gold kept from systems."""

from __future__ import annotations

import json
import lzma
from datetime import datetime
from pathlib import Path

import pytest

from justmem.errors import InvalidFile, InvalidSetting
from justmem_eval.benchmarks import Question, checked, load
from justmem_eval.benchmarks.locomo_plus import gap_days


def case(benchmark: str, data: Path, id: str):  # type: ignore[no-untyped-def]
    return next(c for c in load(benchmark, data).cases if c.question.id == id)


# ---------------------------------------------------------------- what a system may see


def test_a_question_holds_nothing_of_the_gold() -> None:
    assert set(Question.model_fields) == {"id", "text", "at", "remark", "speaker", "as_of"}


def test_nothing_that_gives_gold_away_reaches_a_system(data: Path) -> None:
    found = load("longmemeval", data)
    for each in found.cases:
        for session in found.history(each.history).sessions:
            text = session.model_dump_json()
            assert "answer_" not in text
            assert "has_answer" not in text


# ---------------------------------------------------------------- LoCoMo


def test_evidence_ids_in_odd_forms_are_read(data: Path) -> None:
    assert case("locomo", data, "conv-1/3").gold.turns == {("session_1", 7), ("session_3", 7)}
    assert case("locomo", data, "conv-1/2").gold.turns == {("session_1", 6)}  # D1:06
    assert ("session_3", 4) in case("locomo", data, "conv-1/7").gold.turns  # D:3:4


def test_evidence_that_names_no_turn_is_listed_and_not_dropped_silently(data: Path) -> None:
    notes = load("locomo", data).notes
    assert "conv-1/14: evidence 'D9:99' names no turn" in notes
    assert "conv-1/14: no evidence, left out of recall" in notes


def test_a_photo_is_part_of_what_was_said(data: Path) -> None:
    session = load("locomo", data).history("conv-1").sessions[0]
    assert session.turn(6).text.endswith(
        "[shared a photo: a photo of a greyhound asleep on a blue couch]"
    )


def test_dates_of_sessions_that_do_not_exist_are_passed_over(data: Path) -> None:
    assert len(load("locomo", data).history("conv-1").sessions) == 4


def test_questions_are_asked_at_the_last_session(data: Path) -> None:
    assert case("locomo", data, "conv-1/0").question.at == datetime(2024, 8, 18, 20, 30)


def test_gold_answers_that_are_numbers_become_text(data: Path) -> None:
    assert case("locomo", data, "conv-1/2").gold.answer == "4"


def test_category_five_is_to_be_refused_and_its_wrong_answer_is_no_gold(data: Path) -> None:
    gold = case("locomo", data, "conv-1/15").gold
    assert gold.abstain
    assert gold.answer == ""
    assert not gold.has_evidence


# ---------------------------------------------------------------- LongMemEval


def test_sessions_are_sorted_by_time_and_named_by_their_place(data: Path) -> None:
    sessions = load("longmemeval", data).history("lm1").sessions
    assert [s.at for s in sessions] == sorted(s.at for s in sessions)
    assert [s.id for s in sessions][:3] == ["s001", "s002", "s003"]
    assert "40 euros" in sessions[1].turn(1).text  # third in the file, second in time


def test_a_session_that_occurs_twice_is_two_sessions(data: Path) -> None:
    sessions = load("longmemeval", data).history("lm7").sessions
    assert len(sessions) == len({s.id for s in sessions}) == 11


def test_gold_follows_the_sessions_to_their_new_places(data: Path) -> None:
    gold = case("longmemeval", data, "lm2").gold
    history = load("longmemeval", data).history("lm2")
    said = {s.id: s.turn(1).text for s in history.sessions}
    assert sorted(said[id] for id in gold.sessions) == [
        "I paid 40 euros for a new bike chain today.",
        "The bike shop charged me 85 euros for two tyres.",
    ]
    assert gold.answer == "125"


def test_a_session_later_on_the_day_of_the_question_stays(data: Path) -> None:
    found = case("longmemeval", data, "lm4")  # asked at 20:00, told at 21:40
    history = load("longmemeval", data).history("lm4")
    late = [s for s in history.sessions if s.at > found.question.at]
    assert [s.id in found.gold.sessions for s in late] == [True]


def test_abstention_counts_for_no_recall(data: Path) -> None:
    assert not case("longmemeval", data, "lm6_abs").gold.has_evidence


def test_a_compressed_file_is_read_as_well(data: Path, tmp_path: Path) -> None:
    raw = (data / "longmemeval_s.json").read_bytes()
    (tmp_path / "longmemeval_s.json.xz").write_bytes(lzma.compress(raw))
    assert len(load("longmemeval", tmp_path).cases) == 7


# ---------------------------------------------------------------- LoCoMo-Plus


def test_the_cue_is_a_session_of_its_own_before_the_remark(data: Path) -> None:
    found = case("locomo_plus", data, "plus/0")
    history = load("locomo_plus", data).history("plus/0")
    cue = next(s for s in history.sessions if s.id == "cue")
    assert found.question.at == datetime(2024, 8, 25, 20, 30)  # a week after the last session
    assert cue.at == datetime(2024, 6, 26, 20, 30)  # two months are sixty days
    assert [s.at for s in history.sessions] == sorted(s.at for s in history.sessions)
    assert cue.turn(1).speaker == "Nora"
    assert found.question.speaker == "Nora"
    assert not found.question.text.startswith("A:")


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("two weeks later", 14),
        ("about one month later", 30),
        ("a year later", 365),
        ("several months later", None),
        ("a couple of months later", None),
    ],
)
def test_time_gaps(text: str, days: int | None) -> None:
    assert gap_days(text) == days


def test_a_vague_gap_is_noted(data: Path) -> None:
    assert any("vague" in note for note in load("locomo_plus", data).notes)


# ---------------------------------------------------------------- wrong files


def test_a_missing_file_says_where_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(InvalidFile, match="justmem-eval data"):
        load("locomo", tmp_path)
    assert any("snap-research" in line for line in checked("locomo", tmp_path))


def test_a_truncated_file_is_named(data: Path, tmp_path: Path) -> None:
    (tmp_path / "locomo10.json").write_bytes((data / "locomo10.json").read_bytes()[:2000])
    with pytest.raises(InvalidFile, match="truncated"):
        load("locomo", tmp_path)


def test_another_layout_is_named(tmp_path: Path) -> None:
    (tmp_path / "locomo10.json").write_text(json.dumps([{"id": 1, "dialogue": []}]))
    with pytest.raises(InvalidFile, match="not the published layout"):
        load("locomo", tmp_path)


def test_counts_that_differ_are_said(data: Path) -> None:
    said = list(checked("locomo", data))
    assert "  17 questions, 1986 expected" in said


def test_an_unknown_benchmark_is_refused(data: Path) -> None:
    with pytest.raises(InvalidSetting, match="locomo_plus"):
        load("triviaqa", data)


# ---------------------------------------------------------------- the published files


@pytest.mark.parametrize("name", ["locomo", "longmemeval", "locomo_plus"])
def test_the_published_files_have_the_expected_counts(dev_data: Path, name: str) -> None:
    said = list(checked(name, dev_data))
    assert "  as expected" in said
