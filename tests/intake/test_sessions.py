"""How a conversation may arrive, and what is said when it cannot be used."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from justmem.domain import Session, Turn
from justmem.errors import InvalidSession
from justmem.intake.sessions import as_session, as_time

AT = datetime(2024, 5, 20, 14, 30)


def said(text: object, role: str = "user") -> dict[str, object]:
    return {"role": role, "content": text}


# ---------------------------------------------------------------- the shapes


def test_openai_messages_become_a_session() -> None:
    session = as_session([said("I moved to Porto."), said("How nice!", "assistant")], at=AT)

    assert [(t.speaker, t.role, t.text) for t in session.turns] == [
        ("User", "user", "I moved to Porto."),
        ("Assistant", "assistant", "How nice!"),
    ]
    assert session.at == AT


def test_a_dict_can_have_an_id_and_a_time() -> None:
    session = as_session({"id": 7, "date": "2024-05-20T14:30", "messages": [said("Hello")]})

    assert (session.id, session.at) == ("7", AT)


def test_everyone_in_a_chat_between_named_people_is_user_side() -> None:
    chat = {"at": AT, "turns": [{"speaker": "Ana", "text": "Hi"}, {"speaker": "Bo", "text": "Ho"}]}

    assert [(n, t.speaker) for n, t in as_session(chat).user_side] == [(1, "Ana"), (2, "Bo")]


def test_a_speaker_called_assistant_is_the_assistant() -> None:
    turns = [{"speaker": "Ana", "text": "Hi"}, {"speaker": "Assistant", "text": "Hello"}]

    assert [turn.role for turn in as_session(turns, at=AT).turns] == ["user", "assistant"]


def test_a_name_beside_a_role_is_the_speaker() -> None:
    turn = as_session([{"role": "user", "name": "Ana", "content": "Hi"}], at=AT).turn(1)

    assert (turn.speaker, turn.role) == ("Ana", "user")


def test_our_own_type_passes_through() -> None:
    session = Session(id="a", at=AT, turns=(Turn(speaker="Ana", text="Hi"),))

    assert as_session(session) == session


def test_arguments_win_over_the_fields_of_the_session() -> None:
    session = as_session({"id": "a", "at": "2020-01-01", "turns": [said("Hi")]}, at=AT, id="b")

    assert (session.id, session.at) == ("b", AT)


def test_a_session_without_a_time_has_the_time_of_its_first_dated_turn() -> None:
    turns = [said("Hi"), {**said("there"), "at": "2024-05-20T14:30"}]

    assert as_session(turns, otherwise="2001-01-01").at == AT


def test_the_same_content_always_gets_the_same_id() -> None:
    first, again = as_session([said("Hi")], at=AT), as_session([said("Hi")], at=AT)
    other = as_session([said("Ho")], at=AT)

    assert first.id == again.id == "s" + first.digest[:12]
    assert other.id != first.id


def test_text_parts_are_joined_and_images_noted() -> None:
    parts = [
        {"type": "text", "text": "Look:"},
        {"type": "image_url", "image_url": {"url": "data:..."}},
        {"type": "text", "text": "my cat"},
    ]

    assert as_session([said(parts)], at=AT).turn(1).text == "Look:\n[image]\nmy cat"


def test_turns_without_words_keep_their_number() -> None:
    call = {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "find"}}]}
    silent = {"role": "assistant", "content": None}
    result = {"role": "tool", "tool_call_id": "1", "content": "21 degrees"}

    session = as_session([said("Weather?"), call, result, silent, said("Thanks")], at=AT)

    assert [turn.text for turn in session.turns] == [
        "Weather?",
        "[tool call: find]",
        "21 degrees",
        "",
        "Thanks",
    ]
    assert session.turn(3).role == "tool"


def test_developer_is_system() -> None:
    assert as_session([said("Be kind", "developer"), said("Hi")], at=AT).turn(1).role == "system"


# ---------------------------------------------------------------- damaged text


def test_halves_of_characters_are_joined_or_replaced() -> None:
    turn = as_session([said("a \ud83d\ude00 b \ud800 c")], at=AT).turn(1)

    assert turn.text == "a 😀 b � c"


def test_nul_characters_are_dropped() -> None:
    assert as_session([said("a\0b")], at=AT).turn(1).text == "ab"


def test_our_own_type_is_cleaned_too() -> None:
    session = Session(id="a", at=AT, turns=(Turn(speaker="A\nna", text="x\ud800\0"),))

    assert as_session(session).turn(1) == Turn(speaker="A na", text="x�")


def test_a_turn_that_is_too_long_is_refused_with_advice() -> None:
    assert len(as_session([said("word " * 200_000)], at=AT).turn(1).text) == 1_000_000
    with pytest.raises(InvalidSession, match=r"Turn 1: .*10,000,000 characters.*Split it"):
        as_session([said("word " * 2_000_000)], at=AT)


@given(st.text(st.characters(exclude_categories=()), min_size=1))
def test_any_text_can_be_encoded_afterwards(text: str) -> None:
    session = as_session([said("Hi"), said(text, "assistant")], at=AT)

    session.turn(2).text.encode("utf-8")
    assert "\0" not in session.turn(2).text
    assert session.digest


# ---------------------------------------------------------------- what cannot be used


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ([], "no turns"),
        ({}, "needs 'turns' or 'messages'"),
        ({"at": AT, "turns": []}, "no turns"),
        ({"turns": [said("Hi")], "messages": [said("Ho")]}, "'turns' or 'messages', not both"),
        ({"at": AT, "turns": "hello"}, "cannot be made from 'hello'"),
        ("  ", "holds no words"),
        (b"hello", "cannot be made from a bytes"),
        (42, "cannot be made from 42"),
        (None, "needs 'turns' or 'messages'"),
        ([said("  \n")], "holds no words"),
        (["hello"], "Turn 1 is a str"),
        ([said("Hi"), 3], "Turn 2 is a int"),
        ([{"content": "Hi"}], "Turn 1: it has neither a role nor a speaker"),
        ([{"role": "user"}], "Turn 1: it has no 'content' and no 'text'"),
        ([said(3.14)], "Turn 1: its text is a float"),
        ([said([3])], "Turn 1: a part of its content is a int"),
        ([said("Hi", "oracle")], "use one of user, assistant, system, tool"),
        ([{"role": 3, "content": "Hi"}], "the role 3 is unknown"),
        ([{"speaker": 3, "text": "Hi"}], "the speaker is a int"),
        ([{"speaker": "x" * 201, "text": "Hi"}], "longer than 200"),
        ([{**said("Hi"), "at": "soonish"}], "Turn 1: 'soonish' is not a time"),
        ({"id": "x" * 300, "at": AT, "turns": [said("Hi")]}, "at most 200"),
        ({"id": "a\x1b[31m", "at": AT, "turns": [said("Hi")]}, "printable"),
        ({"id": "a\0b", "at": AT, "turns": [said("Hi")]}, r"printable characters; .* 'a\\x00b'"),
        ({"id": ["a"], "at": AT, "turns": [said("Hi")]}, "id must be a short text"),
        ([{"at": AT, "turns": [said("Hi")]}], "remember_many takes those"),
    ],
)
def test_invalid_sessions_are_refused_with_a_reason(value: object, sentence: str) -> None:
    with pytest.raises(InvalidSession, match=sentence.replace("(", r"\(")):
        as_session(value, at=AT)  # type: ignore[arg-type]


def test_a_session_without_a_time_says_how_to_give_one() -> None:
    with pytest.raises(InvalidSession, match="Pass at"):
        as_session([said("Hi")])


# ---------------------------------------------------------------- times


@pytest.mark.parametrize(
    "value",
    [
        AT,
        AT.replace(tzinfo=UTC),
        AT.replace(tzinfo=timezone(timedelta(hours=-7))),
        "2024-05-20T14:30",
        "2024-05-20 14:30:00",
        "2024-05-20T14:30:00Z",
        "2024-05-20T14:30:00-07:00",
        1716215400,
        1716215400.0,
        1716215400000,
        "1716215400",
    ],
)
def test_many_ways_to_write_the_same_time(value: object) -> None:
    assert as_time(value) == AT


def test_a_time_keeps_the_local_time_of_the_speaker() -> None:
    assert as_time("2024-05-20T23:30:00-07:00").date() == date(2024, 5, 20)


def test_a_day_means_its_midnight() -> None:
    assert as_time(date(2024, 5, 20)) == as_time("2024-05-20") == datetime(2024, 5, 20)


@pytest.mark.parametrize(
    "value",
    [
        "yesterday",
        "",
        "2024-13-01",
        "2023-02-29",
        "2024/05/20 14:30",
        20240520,
        0,
        -5,
        True,
        float("nan"),
        float("inf"),
        10**30,
        ["2024"],
        "99999999999999999",
    ],
)
def test_an_invalid_time_is_refused_and_the_error_shows_the_forms(value: object) -> None:
    with pytest.raises(InvalidSession, match="2024-05-20T14:30"):
        as_time(value)


@pytest.mark.parametrize("value", ["0024-05-20", "3024-05-20", datetime(1066, 10, 14)])
def test_a_year_out_of_range_is_refused(value: object) -> None:
    with pytest.raises(InvalidSession, match="cannot be right"):
        as_time(value)


def test_a_changed_copy_has_another_digest() -> None:
    whole = as_session([said("My cat is called Pixel."), said("She is two.")], at=AT)
    before = whole.digest
    changed = [whole.without([1]), whole.model_copy(update={"at": AT + timedelta(days=1)})]
    assert len({before, *(each.digest for each in changed)}) == 3
    assert whole.model_copy(update={"id": "other"}).digest == before == whole.digest
    assert whole == as_session(whole.model_copy())
