"""Files of conversations, and files that are not what they claim."""

from __future__ import annotations

import json
import zipfile
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from justmem import transcripts
from justmem.errors import InvalidFile
from justmem.transcripts import read, read_bytes

EXPORTS = Path(__file__).parents[1] / "fixtures" / "exports"


def session(id: str = "a", text: str = "I moved to Porto.", at: Any = "2024-05-20") -> Any:
    return {"id": id, "at": at, "turns": [{"role": "user", "content": text}]}


def written(path: Path, value: Any) -> Path:
    path.write_text(value if isinstance(value, str) else json.dumps(value), "utf-8")
    return path


def lines(*values: Any) -> str:
    return "\n".join(v if isinstance(v, str) else json.dumps(v) for v in values)


def words(reading: Any) -> list[list[tuple[str, str]]]:
    return [[(turn.role, turn.text) for turn in each.turns] for each in reading.sessions]


# ---------------------------------------------------------------- JSON and JSON Lines


@pytest.mark.parametrize(
    "value",
    [session(), [session()], {"sessions": [session()]}, lines(session(), session("b"))],
    ids=["one session", "a list", "a wrapped list", "JSON Lines"],
)
def test_the_name_of_a_file_does_not_matter(tmp_path: Path, value: Any) -> None:
    found = read(written(tmp_path / "notes.txt", value))

    assert found.sessions[0].id == "a"
    assert found.sessions[0].turn(1).text == "I moved to Porto."


def test_a_bare_list_of_messages_is_one_session_dated_by_the_caller(tmp_path: Path) -> None:
    messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]

    found = read(written(tmp_path / "chat.json", messages), at="2024-05-20")

    assert words(found) == [[("user", "Hi"), ("assistant", "Hello")]]
    assert found.sessions[0].at == datetime(2024, 5, 20)


def test_a_message_per_line_is_one_session(tmp_path: Path) -> None:
    # A line separator of Unicode inside a text ends no line.
    log = '{"speaker": "Ana", "text": "Hi\u2028there"}\r\n{"speaker": "Bo", "text": "Ho"}\n'

    found = read(written(tmp_path / "log.jsonl", log), at="2024-05-20")

    assert [turn.speaker for turn in found.sessions[0].turns] == ["Ana", "Bo"]


def test_a_broken_line_is_reported_and_the_others_are_read(tmp_path: Path) -> None:
    text = lines(session("a"), '{"id": "b", "turns": [}', "", session("c"), session("d", at="?"))

    found = read(written(tmp_path / "log.jsonl", text))

    assert [each.id for each in found.sessions] == ["a", "c"]
    assert "line 2" in found.problems[0]
    assert "line 5" in found.problems[1]
    assert "is not a time" in found.problems[1]


def test_a_broken_session_in_a_list_is_reported_and_the_others_are_read(tmp_path: Path) -> None:
    found = read(written(tmp_path / "a.json", [session(), 3, session("b", "")]))

    assert len(found.sessions) == 1
    assert ["conversation 2" in found.problems[0], "conversation 3" in found.problems[1]] == [
        True,
        True,
    ]


def test_a_session_without_time_asks_for_one(tmp_path: Path) -> None:
    with pytest.raises(InvalidFile, match="does not say when it took place"):
        read(written(tmp_path / "a.json", session(at=None)))


def test_the_same_session_twice_counts_once(tmp_path: Path) -> None:
    found = read(written(tmp_path / "a.json", [session(), session()]))

    assert len(found.sessions) == 1
    assert found.skipped == {"repeated conversation": 1}


def test_two_texts_with_the_same_id_are_a_problem(tmp_path: Path) -> None:
    found = read(written(tmp_path / "a.json", [session(), session(text="I moved to Faro.")]))

    assert [each.turn(1).text for each in found.sessions] == ["I moved to Porto."]
    assert "conversation 2: another conversation has the same id 'a'" in found.problems[0]


def test_a_byte_order_mark_and_utf16_are_read(tmp_path: Path) -> None:
    text = json.dumps(session(text="Olá"), ensure_ascii=False)
    for name, data in (("8", b"\xef\xbb\xbf" + text.encode()), ("16", text.encode("utf-16"))):
        (tmp_path / name).write_bytes(data)
        assert read(tmp_path / name).sessions[0].turn(1).text == "Olá"


def test_broken_utf8_is_replaced_and_counted() -> None:
    found = read_bytes(json.dumps(session(text="caf_")).encode().replace(b"caf_", b"caf\xe9"))

    assert found.sessions[0].turn(1).text == "caf�"
    assert found.skipped == {"unreadable character": 1}


# ---------------------------------------------------------------- files that are something else


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "is empty"),
        (b"  \n ", "is empty"),
        (b"[]", "not a conversation"),
        (b"{}", "not a conversation"),
        (b'"hello"', r"not a conversation \('hello'\)"),
        (b'{"email": "a@b.c", "id": "1"}', r"not a conversation \(email, id\)"),
        (b'{"id": "a", "turns": [', "not JSON"),
        (b"\x89PNG\r\n\x1a\n\0\0\0", "binary file"),
        (b"PK\x03\x04 but not really", "cannot be unpacked"),
        (b"[" * 100_000, "not JSON"),
        (b"[1, 2]", "conversation 1: A session cannot be made from 1"),
    ],
)
def test_a_file_without_conversations_is_refused(
    tmp_path: Path, data: bytes, sentence: str
) -> None:
    path = tmp_path / "claims.json"
    path.write_bytes(data)

    with pytest.raises(InvalidFile, match=sentence) as caught:
        read(path)
    assert "claims.json" in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidFile, match=r"There is no file .*nowhere\.json"):
        read(tmp_path / "nowhere.json")


def test_a_zip_without_conversations_says_what_it_holds(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("holiday.jpg", "x")

    with pytest.raises(InvalidFile, match=r"no conversations.json \(it holds holiday.jpg\)"):
        read(tmp_path / "a.zip")


# ---------------------------------------------------------------- ChatGPT


def test_a_zip_that_unpacks_to_too_much_is_refused_before_it_is_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for part in ("1", "2"):
            archive.writestr(f"{part}/conversations.json", " " * 600)
    monkeypatch.setattr(transcripts, "_MOST_UNPACKED", 1000)
    with pytest.raises(InvalidFile, match="1,200 bytes, and at most 1,000"):
        read(tmp_path / "a.zip")


def test_only_the_branch_of_a_chatgpt_export_that_was_seen_is_read() -> None:
    found = read(EXPORTS / "chatgpt.json")

    assert words(found)[0] == [
        ("user", "My sourdough starter is called Doughlene. I feed it rye flour every Sunday."),
        ("assistant", "Doughlene is a splendid name. Rye keeps her lively."),
        ("user", "[image]\nIs this grey liquid on top normal?\n[file: feeding-log.pdf]"),
        ("assistant", "Yes, that is hooch: she is hungry. Pour it off and feed her."),
    ]


def test_a_chatgpt_conversation_keeps_its_id_and_times() -> None:
    first = read(EXPORTS / "chatgpt.json").sessions[0]

    assert first.id == "6632a1c0-0b1c-8001-9f3e-2d6f5b7a9c01"
    assert first.at.replace(microsecond=0) == datetime(2024, 5, 1, 12)
    assert first.turn(1).at is not None
    assert first.turn(1).at.minute == 1


def test_without_a_current_node_the_newest_branch_counts() -> None:
    assert words(read(EXPORTS / "chatgpt.json"))[1] == [
        ("user", "I sold my piano last week."),
        ("assistant", "Was it a hard decision?"),
        ("user", "Yes, it was my grandmother's."),
    ]


def test_spoken_words_are_read_from_their_transcription() -> None:
    assert words(read(EXPORTS / "chatgpt.json"))[2] == [
        ("user", "Remind me that my swimming class is on Fridays."),
        ("assistant", "Fridays it is."),
    ]


def test_conversations_without_a_word_are_counted() -> None:
    assert read(EXPORTS / "chatgpt.json").skipped["blank conversation"] == 1
    assert read(EXPORTS / "claude.json").skipped["blank conversation"] == 1


def test_a_circular_chatgpt_export_is_read_once() -> None:
    node = {"message": {"author": {"role": "user"}, "content": {"parts": ["Round"]}}}
    value = {
        "id": "loop",
        "create_time": 1714564800,
        "current_node": "a",
        "mapping": {"a": {**node, "parent": "b"}, "b": {**node, "parent": "a"}},
    }

    assert len(read_bytes(json.dumps(value).encode()).sessions[0].turns) == 2


# ---------------------------------------------------------------- Claude


def test_a_claude_export_is_read_without_thoughts_and_tools() -> None:
    found = read(EXPORTS / "claude.json")

    assert found.sessions[0].id == "f1d0c6de-9d0b-4a0e-8a57-0a7d5f1e2b11"
    assert found.sessions[0].at.replace(microsecond=0) == datetime(2025, 3, 2, 9, 15, 4)
    assert words(found)[0] == [
        (
            "user",
            "I got an allotment in Bristol, plot 14. I want to grow dahlias and leeks.\n"
            "[file: plot14.jpg]",
        ),
        ("tool", "[file: pasted text]\nRULES OF THE ALLOTMENT ..."),
        ("assistant", "Let me check.\nStart leeks indoors now."),
        ("user", "My neighbour on plot 15 is called Agnes."),
    ]


def test_an_edited_claude_conversation_is_read_along_its_last_branch() -> None:
    assert words(read(EXPORTS / "claude.json"))[1] == [
        ("user", "I am learning Cornish."),
        ("assistant", "Splann!"),
    ]


def test_old_claude_messages_have_only_a_text() -> None:
    assert words(read(EXPORTS / "claude.json"))[2] == [("user", "My bicycle is a blue Peugeot.")]


# ---------------------------------------------------------------- as they are downloaded


@pytest.mark.parametrize("name", ["chatgpt", "claude"])
def test_an_export_is_read_as_it_was_downloaded(tmp_path: Path, name: str) -> None:
    with zipfile.ZipFile(tmp_path / "export.bin", "w") as archive:
        archive.write(EXPORTS / f"{name}.json", "data-2025/conversations.json")
        archive.writestr("data-2025/user.json", "{}")

    assert words(read(tmp_path / "export.bin")) == words(read(EXPORTS / f"{name}.json"))


def test_an_unpacked_export_may_have_several_files(tmp_path: Path) -> None:
    for number, name in enumerate(("chatgpt", "claude")):
        piece = tmp_path / f"conversations-00{number}.json"
        piece.write_bytes((EXPORTS / f"{name}.json").read_bytes())

    assert len(read(tmp_path).sessions) == 6
