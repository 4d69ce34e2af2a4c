"""A damaged reply keeps what is whole in it."""

import pytest

from justmem.prompts.parse import parse


def test_whole_json_is_whole() -> None:
    assert parse('{"cards": ["a"]}') == ({"cards": ["a"]}, True)


def test_a_code_fence_and_prose_around_it_do_not_matter() -> None:
    assert parse('```json\n{"cards": ["a"]}\n```') == ({"cards": ["a"]}, True)
    value, whole = parse('Here you are:\n{"cards": ["a"]}\nAnything else?')
    assert value == {"cards": ["a"]}
    assert not whole


def test_a_cut_off_reply_keeps_complete_members_and_drops_the_half_written_one() -> None:
    value, whole = parse('{"cards": ["Ana | moved | 2024", "Ana | likes | 20')
    assert value == {"cards": ["Ana | moved | 2024"]}
    assert not whole


def test_raw_line_breaks_inside_strings_are_read() -> None:
    assert parse('{"answer": "one\ntwo"}') == ({"answer": "one\ntwo"}, True)


@pytest.mark.parametrize("text", ["", "I cannot do that.", "null", "42"])
def test_no_json_is_said_to_be_none(text: str) -> None:
    assert parse(text) == (None, False)


def test_nothing_in_a_reply_can_crash_it() -> None:
    for text in ("{" * 50_000, "[" * 50_000, '{"a": ' * 3000, '"' * 999, "\ud800{", "{\x00}"):
        parse(text)
